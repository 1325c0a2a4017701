/** Keeps the deadlines of all sessions in one heap, so that a thousand sessions need only one timer. */

import { createHeap, type HeapItem } from '../../base/heap.ts';
import type { SteadyNow } from './clock.ts';

export interface Alarm {
  /** Sets the alarm to ring once, at `dueNs`; replaces the time that was set before. */
  set(dueNs: bigint): void;
  clear(): void;
}

export interface Scheduler {
  /** `ring` must not throw, because the alarms of other sessions ring in the same pass of the event loop. */
  createAlarm(ring: () => void): Alarm;
  close(): void;
}

/** Maximum time that alarms ring within one pass of the event loop, so that sockets are served in between. */
const ROUND_NS_MAX = 500_000n;

interface ScheduledAlarm extends HeapItem {
  dueNs: bigint;
  ring: () => void;
  /** Whether the alarm was removed from the heap and will ring in this round. */
  isInRound: boolean;
}

export function createScheduler(now: SteadyNow, waiter: Waiter): Scheduler {
  const pending = createHeap<ScheduledAlarm>((a, b) => a.dueNs < b.dueNs);
  /**
   * The alarms of this round, which may last several passes of the event loop. They are in an array, because a Set with
   * constant deletions creates garbage.
   */
  const round: (ScheduledAlarm | undefined)[] = [];
  /**
   * Index of the next alarm in this round, and the end of the round. Entries past the end are left over from a longer
   * round.
   */
  let next = 0;
  let end = 0;
  let isRinging = false;
  let awaitedNs: bigint | null = null;
  let closed = false;

  function wait(): void {
    if (isRinging) return;
    // The remaining alarms of a round ring before any other alarm that is due.
    const dueNs = next < end ? 0n : (pending.peek()?.dueNs ?? null);
    if (dueNs === awaitedNs) return;
    awaitedNs = dueNs;
    if (dueNs === null) waiter.cancel();
    else waiter.waitUntil(dueNs, ringDue);
  }

  function ringDue(): void {
    awaitedNs = null;
    isRinging = true;
    const startNs = now();
    if (next === end) beginRound(startNs);
    while (next < end) {
      const entry = round[next]!;
      // A reference in the array would keep the alarm's session in memory.
      round[next++] = undefined;
      if (!entry.isInRound) continue;
      entry.isInRound = false;
      entry.ring();
      if (now() - startNs >= ROUND_NS_MAX) break;
    }
    isRinging = false;
    wait();
  }

  /**
   * Begins a round with all alarms that are due. An alarm that is set to a past time during the round rings in the next
   * round, after the other alarms have rung and sockets were served.
   */
  function beginRound(nowNs: bigint): void {
    next = end = 0;
    for (let entry = pending.peek(); entry && entry.dueNs <= nowNs; entry = pending.peek()) {
      pending.remove(entry);
      entry.isInRound = true;
      round[end++] = entry;
    }
  }

  function clear(entry: ScheduledAlarm): void {
    if (entry.slot >= 0) pending.remove(entry);
    entry.isInRound = false;
  }

  return {
    createAlarm(ring) {
      const entry: ScheduledAlarm = { dueNs: 0n, ring, slot: -1, isInRound: false };
      return {
        set(dueNs) {
          if (closed) return;
          clear(entry);
          entry.dueNs = dueNs;
          pending.push(entry);
          wait();
        },
        clear() {
          clear(entry);
          wait();
        },
      };
    },
    close() {
      closed = true;
      round.length = 0;
      next = end = 0;
      waiter.cancel();
    },
  };
}

/* Waits for a time of the steady clock, with millisecond precision; only the player has to be more exact. */

interface Waiter {
  /** Calls `wake` once, at `dueNs` or as soon as possible afterwards. Replaces an earlier wait. */
  waitUntil(dueNs: bigint, wake: () => void): void;
  cancel(): void;
}

/** The timers of Node.js or of a simulated clock. */
export interface Timers {
  setTimeout(callback: () => void, delayMs: number): unknown;
  clearTimeout(timer: unknown): void;
  setImmediate(callback: () => void): unknown;
  clearImmediate(immediate: unknown): void;
}

export function createNodeTimers(): Timers {
  return {
    setTimeout: (callback, delayMs) => setTimeout(callback, delayMs),
    clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
    setImmediate: (callback) => setImmediate(callback),
    clearImmediate: (immediate) => clearImmediate(immediate as NodeJS.Immediate),
  };
}

const NS_PER_MS = 1_000_000;
/** The longest delay that setTimeout accepts; a longer one becomes 1 ms. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export function createTimerWaiter(now: SteadyNow, timers: Timers): Waiter {
  let timer: unknown;
  let immediate: unknown;
  let dueNs = 0n;
  let wake = () => {};

  function cancel(): void {
    if (timer !== undefined) timers.clearTimeout(timer);
    if (immediate !== undefined) timers.clearImmediate(immediate);
    timer = immediate = undefined;
  }

  /**
   * Calls `wake` if the time has come, otherwise waits again: Node.js rounds timers to whole milliseconds, so a timer
   * may fire too early.
   */
  function approach(): void {
    timer = immediate = undefined;
    const leftNs = Number(dueNs - now());
    if (leftNs <= 0) wake();
    else timer = timers.setTimeout(approach, Math.min(leftNs / NS_PER_MS, TIMER_MS_MAX));
  }

  return {
    waitUntil(nextDueNs, nextWake) {
      cancel();
      dueNs = nextDueNs;
      wake = nextWake;
      // `wake` never runs within this call, because the caller is in the middle of other work and sockets have to be
      // served.
      immediate = timers.setImmediate(approach);
    },
    cancel,
  };
}
