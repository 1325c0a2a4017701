/** Simulates time that passes only on a test's command, with timers that use it. */
import { setImmediate as breathe } from 'node:timers/promises';
import type { Timers } from '../../../daemon/replay/clock/scheduler.ts';

/** Time that a turn of the event loop takes. */
const TURN_NS = 5_000n;

export interface SimulatedClock {
  now: () => bigint;
  timers: Timers;
  /** Lets time pass, and runs what becomes due meanwhile. */
  advance(ns: bigint): void;
  /** Like `advance`, but lets pending promises and I/O of the test proceed in between. */
  pass(ns: bigint): Promise<void>;
  /** Lets time pass while nothing runs, as for a process that is not scheduled. */
  stall(ns: bigint): void;
}

export function createSimulatedClock(startNs = 1_000_000_007n): SimulatedClock {
  let nowNs = startNs;
  let lastKey = 0;
  const timeouts = new Map<number, { atNs: bigint; callback: () => void }>();
  const turns = new Map<number, () => void>();

  function runTurns(): void {
    const callbacks = [...turns];
    for (const [key, callback] of callbacks) if (turns.delete(key)) callback();
    nowNs += TURN_NS;
  }

  function earliest(): [number, { atNs: bigint; callback: () => void }] | undefined {
    let found: [number, { atNs: bigint; callback: () => void }] | undefined;
    for (const entry of timeouts) if (!found || entry[1].atNs < found[1].atNs) found = entry;
    return found;
  }

  /** Advances by one step; returns false when `endNs` is reached. */
  function goOn(endNs: bigint): boolean {
    const [key, timeout] = earliest() ?? [];
    if (timeout && timeout.atNs <= nowNs) {
      timeouts.delete(key!);
      timeout.callback();
    } else if (nowNs >= endNs) return false;
    else if (turns.size > 0) runTurns();
    else nowNs = timeout && timeout.atNs < endNs ? timeout.atNs : endNs;
    return true;
  }

  return {
    now: () => nowNs,
    timers: {
      setTimeout(callback, delayMs) {
        timeouts.set(++lastKey, { atNs: nowNs + BigInt(Math.ceil(delayMs * 1e6)), callback });
        return lastKey;
      },
      clearTimeout: (key) => void timeouts.delete(key as number),
      setImmediate(callback) {
        turns.set(++lastKey, callback);
        return lastKey;
      },
      clearImmediate: (key) => void turns.delete(key as number),
    },
    advance(ns) {
      const endNs = nowNs + ns;
      while (goOn(endNs));
    },
    async pass(ns) {
      const endNs = nowNs + ns;
      do await breathe();
      while (goOn(endNs));
    },
    stall(ns) {
      nowNs += ns;
    },
  };
}
