/** How long a session takes is known when its plan has been gone through; whether there is room for it, only then. */
import type { Scheduler } from '../clock/scheduler.ts';
import type { SessionChange, SessionOptions } from './session_options.ts';

/** A million events are gone through in a third of that. */
const PATIENCE_NS = 1_000_000_000n;

export interface Measure {
  /** It is known from now on. */
  known(): void;
  /** Where there may be no room, waits for a while until it is known. */
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
