/** Waits for a time of the steady clock. The method is private to this file. */
import type { SteadyNow } from './clock.ts';
import { createThreadSleeper, type ThreadSleeper } from './thread_sleep.ts';

export interface Waiter {
  /** Calls `wake` once, at `dueNs` or as soon after as possible, never earlier. It replaces an earlier wait. */
  until(dueNs: bigint, wake: () => void): void;
  cancel(): void;
}

/** The timers of Node.js, or those of a simulated clock. */
export interface Timers extends ThreadSleeper {
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
    ...createThreadSleeper(),
  };
}

/**
 * A timer fires up to a millisecond late even on an idle machine, so it only covers the coarse part of a wait. The rest
 * is slept in the thread itself, in slices between which the event loop serves sockets, and the very end is spun.
 * Lateness in us, p50 / p99, and share of a CPU, for deadlines 0.05 to 10 ms apart, on a machine whose two cores had
 * other load too; all but the turns at real-time priority, so that the method itself is measured (medians of three
 * runs):
 *
 *                               20,000/s           10,000/s           1000/s             100/s
 *   timer alone              526/1205    6 %    521/1048   5 %    517/1055   5 %    594/1089     1 %
 *   0.3 ms of turns                -  100 %           -  100 %      1/110   62 %      6/176     10 %
 *   slices, none awake        16/54    38 %      19/58    21 %     19/89    12 %     30/1122     3 %
 *   slices, the end awake    0.2/284   40 %     0.3/24    23 %    1.2/52    11 %      6/353      3 % <- thread_sleep.ts
 *   Atomics.wait, worker      21/45    54 %      23/58    29 %     58/654    6 %    105/324      1 %
 *   worker, 60 us awake      0.1/-     96 %     0.1/4     64 %    0.3/48     7 %    105/247      2 %
 *   clock_nanosleep in C      18/267   35 %      17/41    15 %     24/63     2 %     40/119    0.3 %
 *
 * A worker costs less where deadlines are far apart, where all of these cost little, and twice as much where they are
 * close; it takes another thread and 10 MB. A request waits 0.1 to 0.3 ms longer for its answer while a deadline is
 * near.
 */
const FINAL_APPROACH_NS = 600_000;
const SLICE_NS_MAX = 200_000;
const NS_PER_MS = 1_000_000;
/** setTimeout turns a longer delay into 1 ms. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export function timerWaiter(now: SteadyNow, timers: Timers): Waiter {
  let timer: unknown;
  let turn: unknown;
  /** The pending wait. Closures instead would be several allocations for each of 10 000 deadlines a second. */
  let dueNs = 0n;
  let wake = () => {};

  function cancel(): void {
    if (timer !== undefined) timers.clearTimeout(timer);
    if (turn !== undefined) timers.clearImmediate(turn);
    timer = turn = undefined;
  }

  function approach(): void {
    timer = turn = undefined;
    let leftNs = Number(dueNs - now());
    const coarseMs = Math.floor((leftNs - FINAL_APPROACH_NS) / NS_PER_MS);
    if (coarseMs >= 1) {
      timer = timers.setTimeout(approach, Math.min(coarseMs, TIMER_MS_MAX));
    } else if (leftNs > SLICE_NS_MAX) {
      // It sleeps at most half, so that the last slice is long enough to be slept too: a short one would be spun.
      timers.sleep(Math.min(leftNs / 2, SLICE_NS_MAX));
      turn = timers.setImmediate(approach);
    } else {
      for (; leftNs > 0; leftNs = Number(dueNs - now())) timers.hold(leftNs);
      wake();
    }
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
