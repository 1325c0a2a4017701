/** Writes losses and clock steps to the file. */
import type Database from 'better-sqlite3';
import { type ClockStep, encodeReason, encodeScope, encodeSums, type Loss } from '../format/losses.ts';
import { toStored } from '../format/schema.ts';

const ADD_LOSS =
  'INSERT INTO loss (from_ns, to_ns, cause, event_type, count, scope, sums) VALUES (?, ?, ?, ?, ?, ?, ?)';
const ADD_CLOCK_STEP = 'INSERT INTO clock (boot_ns, offset_ns, kind, suspended_ns) VALUES (?, ?, ?, ?)';

export interface LossWriter {
  addLoss(loss: Loss): void;
  addClockStep(step: ClockStep): void;
}

export function createLossWriter(database: Database.Database): LossWriter {
  const addLoss = database.prepare(ADD_LOSS);
  const addClockStep = database.prepare(ADD_CLOCK_STEP);
  return {
    addLoss: ({ fromNs, toNs, eventType, count, sums, ...reason }) => {
      const more = [encodeScope(reason), encodeSums(sums)];
      addLoss.run(toStored(fromNs), toStored(toNs), encodeReason(reason), eventType, count, ...more);
    },
    addClockStep: ({ bootNs, offsetNs, kind, suspendedNs }) =>
      void addClockStep.run(bootNs, offsetNs, kind, suspendedNs),
  };
}
