/** Delays admission until the duration of a session is known, which takes one pass through its plan. */
import type { Scheduler } from '../clock/scheduler.ts';
import type { ComingChange, SessionOptions } from './session_options.ts';

/** The longest wait for the duration. A plan of a million events is processed in a third of that. */
const PATIENCE_NS = 1_000_000_000n;

export interface Measure {
  /** Reports that the duration is known. */
  known(): void;
  /** If the session might exceed the capacity, waits for a limited time until the duration is known. */
  beforeAdmission(isKnown: boolean, change?: ComingChange): Promise<void>;
  /** Waits for the end of a layout for a limited time; undefined if that was too short: then `signal` ends the work. */
  end(compute: (signal: AbortSignal) => Promise<number>): Promise<number | undefined>;
}

export function createMeasure(scheduler: Scheduler, { now, admit }: Pick<SessionOptions, 'now' | 'admit'>): Measure {
  let known = () => {};
  let giveUp = () => {};
  const patience = scheduler.alarm(() => giveUp());

  /** Resolves with the work, and when that takes too long. */
  async function patiently(work: Promise<unknown>): Promise<void> {
    const tooLong = new Promise<void>((resolve) => {
      giveUp = resolve;
      patience.set(now() + PATIENCE_NS);
    });
    try {
      await Promise.race([work, tooLong]);
    } finally {
      patience.clear();
    }
  }

  return {
    known: () => known(),
    async beforeAdmission(isKnown, change) {
      if (isKnown) return;
      try {
        admit?.(change);
      } catch {
        const isToldOf = new Promise<void>((resolve) => {
          known = resolve;
        });
        await patiently(isToldOf);
      }
    },
    async end(compute) {
      const givingUp = new AbortController();
      let endNs: number | undefined;
      const work = compute(givingUp.signal).then((ns) => {
        endNs = ns;
      });
      // After it was given up, its error has no other place to go.
      work.catch(() => {});
      try {
        await patiently(work);
        return endNs;
      } finally {
        givingUp.abort();
      }
    },
  };
}
