/** Sleeps in the thread itself, exact to microseconds: timers of the event loop only have milliseconds. */
import { wakePromptly } from '../../thread_schedule.ts';

/**
 * Upper limit of the part of a hold that is spun instead of slept, because a thread wakes up some time after its
 * timeout. The actual part is adapted to the measured wake-up latency so that three of four sleeps end in time. A sleep
 * that overruns by more than this limit waits for a CPU that other threads use, which waking up earlier would not
 * change.
 */
const AWAKE_MS_MAX = 0.04;
/**
 * Upper limit of the spun share of a hold. A thread that takes more than its share of a CPU waits for the others when
 * it wakes up: without this limit 10,000 events/s were 2 us late at the 50th percentile and 800 at the 99th, with it 27
 * and 400.
 */
const AWAKE_SHARE_MAX = 0.15;
const LONGER_MS = 0.00075;
const SHORTER_MS = 0.00025;

export interface ThreadSleeper {
  /** Blocks the thread for about this long. */
  sleep(durationNs: number): void;
  /** Blocks the thread for exactly this long: it sleeps first and spins at the end. */
  hold(durationNs: number): void;
}

/** It is for the calling thread; the first sleep sets that thread up to wake up promptly. */
export function createThreadSleeper(): ThreadSleeper {
  /** No thread ever writes to it or notifies it, so a wait always times out. */
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
    // performance.now() returns numbers; those of hrtime are objects, which would keep the garbage collector busy here.
    while (performance.now() < endMs);
  }

  function learn(overMs: number): void {
    if (overMs <= awakeMs) awakeMs -= Math.min(SHORTER_MS, awakeMs);
    else if (overMs <= AWAKE_MS_MAX) awakeMs += LONGER_MS;
  }

  return { sleep, hold };
}
