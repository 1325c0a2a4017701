/** Sleeping in the thread itself: exact to microseconds, where timers of the event loop know only milliseconds. */
import { wakePromptly } from './thread_schedule.ts';

/**
 * How much of a hold is not slept: a thread wakes up some time after it asked to. The machine tells how long that takes
 * now: three of four sleeps are to be over in time. What takes longer than the limit waits for a CPU that others have, and
 * would if it was woken earlier.
 */
const AWAKE_MS_MAX = 0.04;
/**
 * Of a hold. A thread that takes more than its share of a CPU waits for the others when it wakes up: without this limit
 * 10,000 events/s were 2 us late at the 50th percentile and 800 at the 99th, with it 27 and 400.
 */
const AWAKE_SHARE_MAX = 0.15;
const LONGER_MS = 0.00075;
const SHORTER_MS = 0.00025;

export interface ThreadSleeper {
  /** Blocks the thread for about so long. */
  sleep(durationNs: number): void;
  /** Blocks the thread until so long has just gone by, the last of it awake. */
  hold(durationNs: number): void;
}

/** For the thread that calls; the first sleep makes it one that wakes up promptly. */
export function createThreadSleeper(): ThreadSleeper {
  /** Nobody ever writes to it or wakes it up. */
  const cell = new Int32Array(new SharedArrayBuffer(4));
  let awakeMs = AWAKE_MS_MAX / 2;
  let isPrompt = false;

  function sleep(durationNs: number): void {
    if (!isPrompt) wakePromptly();
    isPrompt = true;
    Atomics.wait(cell, 0, 0, durationNs / 1e6);
  }

  function hold(durationNs: number): void {
    const durationMs = durationNs / 1e6;
    const startMs = performance.now();
    const endMs = startMs + durationMs;
    const sleepMs = durationMs - Math.min(awakeMs, durationMs * AWAKE_SHARE_MAX);
    sleep(sleepMs * 1e6);
    learn(performance.now() - startMs - sleepMs);
    // Its numbers are no objects, those of hrtime are: a loop of them would keep the garbage collector busy.
    while (performance.now() < endMs);
  }

  function learn(overMs: number): void {
    if (overMs <= awakeMs) awakeMs -= Math.min(SHORTER_MS, awakeMs);
    else if (overMs <= AWAKE_MS_MAX) awakeMs += LONGER_MS;
  }

  return { sleep, hold };
}
