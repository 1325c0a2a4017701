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
  /** Waits for the end of a layout for a limited time; undefined if that was too short. */
  end(computed: Promise<number>): Promise<number | undefined>;
}

export function createMeasure(scheduler: Scheduler, { now, admit }: Pick<SessionOptions, 'now' | 'admit'>): Measure {
  let known = () => {};
  const patience = scheduler.alarm(() => known());

  /** Resolves when `known` is called, and when that takes too long. */
  async function patiently(): Promise<void> {
    await new Promise<void>((resolve) => {
      known = resolve;
      patience.set(now() + PATIENCE_NS);
    });
    patience.clear();
  }

  return {
    known: () => known(),
    async beforeAdmission(isKnown, change) {
      if (isKnown) return;
      try {
        admit?.(change);
      } catch {
        await patiently();
      }
    },
    async end(computed) {
      let endNs: number | undefined;
      const waiting = patiently();
      const over = computed.then((ns) => {
        endNs = ns;
      });
      try {
        await Promise.race([over, waiting]);
        return endNs;
      } finally {
        over.catch(() => {});
        known();
      }
    },
  };
}
