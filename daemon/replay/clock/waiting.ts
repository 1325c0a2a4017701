/** Waits for a time of the steady clock, to a millisecond: what has to be exact is the player's. */
import type { SteadyNow } from './clock.ts';

export interface Waiter {
  /** Calls `wake` once, at `dueNs` or as soon after as possible, never earlier. It replaces an earlier wait. */
  until(dueNs: bigint, wake: () => void): void;
  cancel(): void;
}

/** The timers of Node.js, or those of a simulated clock. */
export interface Timers {
  setTimeout(callback: () => void, delayMs: number): unknown;
  clearTimeout(timer: unknown): void;
  setImmediate(callback: () => void): unknown;
  clearImmediate(turn: unknown): void;
}

export function createNodeTimers(): Timers {
  return {
    setTimeout: (callback, delayMs) => setTimeout(callback, delayMs),
    clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
    setImmediate: (callback) => setImmediate(callback),
    clearImmediate: (turn) => clearImmediate(turn as NodeJS.Immediate),
  };
}

const NS_PER_MS = 1_000_000;
/** setTimeout turns a longer delay into 1 ms. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export function timerWaiter(now: SteadyNow, timers: Timers): Waiter {
  let timer: unknown;
  let turn: unknown;
  let dueNs = 0n;
  let wake = () => {};

  function cancel(): void {
    if (timer !== undefined) timers.clearTimeout(timer);
    if (turn !== undefined) timers.clearImmediate(turn);
    timer = turn = undefined;
  }

  /** Timers of Node.js have whole milliseconds, so one may fire too early. */
  function approach(): void {
    timer = turn = undefined;
    const leftNs = Number(dueNs - now());
    if (leftNs <= 0) wake();
    else timer = timers.setTimeout(approach, Math.min(leftNs / NS_PER_MS, TIMER_MS_MAX));
  }

  return {
    until(nextDueNs, nextWake) {
      cancel();
      dueNs = nextDueNs;
      wake = nextWake;
      // `wake` never runs within this call: the caller is in the middle of its own work, and sockets get their turn.
      turn = timers.setImmediate(approach);
    },
    cancel,
  };
}
