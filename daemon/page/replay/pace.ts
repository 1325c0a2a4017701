/** Limits how often an action runs, because keys and pointers may trigger it too often. */

export interface Pace {
  /** Runs the action now, or as soon as the pace allows; a new action replaces a waiting one. */
  run(action: () => void): void;
  /** Discards the waiting action. */
  cancel(): void;
}

interface Clock {
  nowMs: () => number;
  /** Calls `ring` after `ms` milliseconds; returns a function that cancels the call. */
  after: (ms: number, ring: () => void) => () => void;
}

const BROWSER: Clock = {
  nowMs: () => performance.now(),
  after(ms, ring) {
    const timer = setTimeout(ring, ms);
    return () => clearTimeout(timer);
  },
};

export function createPace(everyMs: number, { nowMs, after }: Clock = BROWSER): Pace {
  let lastMs = Number.NEGATIVE_INFINITY;
  let waiting: (() => void) | null = null;
  let cancelTimer: (() => void) | null = null;

  function ring(): void {
    const action = waiting;
    [waiting, cancelTimer] = [null, null];
    if (!action) return;
    lastMs = nowMs();
    action();
  }

  return {
    run(action) {
      waiting = action;
      if (cancelTimer) return;
      const leftMs = lastMs + everyMs - nowMs();
      if (leftMs <= 0) ring();
      else cancelTimer = after(leftMs, ring);
    },
    cancel() {
      waiting = null;
      cancelTimer?.();
      cancelTimer = null;
    },
  };
}
