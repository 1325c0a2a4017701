/** Losses and clock steps that wait for the next flush. */
import type { LossCause } from '../../../bpf/schema/losses.ts';
import type { ClockStep, Loss } from '../format/losses.ts';
import type { Batch } from './batch.ts';

/** The most losses that wait; a further one widens a loss that has the same cause and event type. */
const PENDING_LOSSES_MAX = 1024;

/** The most clock steps that wait; when there are more, the oldest are forgotten. */
const PENDING_CLOCK_STEPS_MAX = 1024;

/** Causes whose events cannot be counted: the loss is the time itself. */
const UNCOUNTED: readonly LossCause[] = ['recording_removed', 'recording_damaged'];

export interface PendingLosses {
  addLoss(loss: Loss): void;
  addClockStep(step: ClockStep): void;
  pending(): boolean;
  /** Returns what is not committed. The next `committed` refers to these notes, which do not change any more. */
  take(): Pick<Batch, 'losses' | 'clockSteps'>;
  committed(): void;
  /** Must be called when the taken notes were not committed: they wait again. */
  failed(): void;
}

export function createPendingLosses(): PendingLosses {
  let losses: Loss[] = [];
  let steps: ClockStep[] = [];
  let takenLosses = 0;
  let takenSteps = 0;
  return {
    addLoss(loss) {
      if (loss.count === 0 && !UNCOUNTED.includes(loss.cause)) return;
      const { cause, eventType, service } = loss;
      const isSame = (other: Loss) =>
        other.cause === cause && other.eventType === eventType && other.service === service;
      const same = losses.slice(takenLosses).findLast(isSame);
      // Dropping block after block is one continuing loss, and a service that has some has more.
      const continues = cause === 'store_failed' || service !== undefined;
      if (!same || (losses.length < PENDING_LOSSES_MAX && !continues)) losses.push({ ...loss });
      else widen(same, loss);
    },
    addClockStep(step) {
      steps.push({ ...step });
      if (steps.length - takenSteps > PENDING_CLOCK_STEPS_MAX) steps.splice(takenSteps, 1);
    },
    pending: () => losses.length > 0 || steps.length > 0,
    take() {
      takenLosses = losses.length;
      takenSteps = steps.length;
      return { losses: losses.slice(), clockSteps: steps.slice() };
    },
    committed() {
      losses = losses.slice(takenLosses);
      steps = steps.slice(takenSteps);
      takenLosses = takenSteps = 0;
    },
    failed() {
      takenLosses = takenSteps = 0;
    },
  };
}

function widen(loss: Loss, by: Loss): void {
  loss.count += by.count;
  if (by.fromNs < loss.fromNs) loss.fromNs = by.fromNs;
  if (by.toNs > loss.toNs) loss.toNs = by.toNs;
}
