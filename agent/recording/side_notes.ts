/** What stands beside the events: losses and clock steps. They wait for the next flush. */
import type Database from 'better-sqlite3';
import type { EventType } from '../../bpf/schema/index.ts';
import type { LossCause } from '../../bpf/schema/losses.ts';
import { toStored } from './format.ts';

const ADD_LOSS = 'INSERT INTO loss (from_ns, to_ns, cause, event_type, count) VALUES (?, ?, ?, ?, ?)';
const ADD_CLOCK_STEP = 'INSERT INTO clock (boot_ns, offset_ns, kind) VALUES (?, ?, ?)';

/** Losses that wait; further ones widen one that has the same cause and event type. */
export const PENDING_LOSSES_MAX = 1024;

/** Clock steps that wait; of more, the oldest are forgotten. */
const PENDING_CLOCK_STEPS_MAX = 1024;

export interface Loss {
  cause: LossCause;
  /** Null when it is not known what was lost. */
  eventType: EventType | null;
  count: number;
  fromNs: bigint;
  toNs: bigint;
}

export interface ClockStep {
  bootNs: bigint;
  /** Wall clock minus boot clock. */
  offsetNs: bigint;
  kind: string;
}

export interface SideNotes {
  addLoss(loss: Loss): void;
  addClockStep(step: ClockStep): void;
  pending(): boolean;
  /** Inside a flush's transaction. */
  write(): void;
  committed(): void;
}

export function sideNotes(database: Database.Database): SideNotes {
  const insertLoss = database.prepare(ADD_LOSS);
  const insertStep = database.prepare(ADD_CLOCK_STEP);
  let losses: Loss[] = [];
  let steps: ClockStep[] = [];
  return {
    addLoss(loss) {
      if (loss.count === 0) return;
      const { cause, eventType } = loss;
      const same = losses.findLast((other) => other.cause === cause && other.eventType === eventType);
      // Dropping block after block is one loss that goes on.
      if (!same || (losses.length < PENDING_LOSSES_MAX && cause !== 'store_failed')) losses.push({ ...loss });
      else widen(same, loss);
    },
    addClockStep(step) {
      steps.push({ ...step });
      if (steps.length > PENDING_CLOCK_STEPS_MAX) steps.shift();
    },
    pending: () => losses.length > 0 || steps.length > 0,
    write() {
      for (const { fromNs, toNs, cause, eventType, count } of losses) {
        insertLoss.run(toStored(fromNs), toStored(toNs), cause, eventType, count);
      }
      for (const { bootNs, offsetNs, kind } of steps) insertStep.run(bootNs, offsetNs, kind);
    },
    committed() {
      losses = [];
      steps = [];
    },
  };
}

function widen(loss: Loss, by: Loss): void {
  loss.count += by.count;
  if (by.fromNs < loss.fromNs) loss.fromNs = by.fromNs;
  if (by.toNs > loss.toNs) loss.toNs = by.toNs;
}
