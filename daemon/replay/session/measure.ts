/** Delays admission until the duration of a session is known, which takes one pass through its plan. */
import type { Scheduler } from '../clock/scheduler.ts';
import type { SessionChange, SessionOptions } from './session_options.ts';

/** The longest wait for the duration. A plan of a million events is processed in a third of that. */
const PATIENCE_NS = 1_000_000_000n;

export interface Measure {
  /** Reports that the duration is known. */
  known(): void;
  /** If the session might exceed the capacity, waits for a limited time until the duration is known. */
  beforeAdmission(isKnown: boolean, change?: SessionChange): Promise<void>;
}

export function createMeasure(scheduler: Scheduler, { now, admit }: Pick<SessionOptions, 'now' | 'admit'>): Measure {
  let known = () => {};
  const patience = scheduler.alarm(() => known());
  return {
    known: () => known(),
    async beforeAdmission(isKnown, change) {
      if (isKnown) return;
      try {
        admit?.(change);
      } catch {
        await new Promise<void>((resolve) => {
          known = resolve;
          patience.set(now() + PATIENCE_NS);
        });
        patience.clear();
      }
    },
  };
}
