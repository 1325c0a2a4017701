/** Time that only passes when a test says so, with the timers that go by it. */
import type { Timers } from '../../daemon/replay/waiting.ts';

/** What a turn of the event loop costs. */
const TURN_NS = 5_000n;

export interface SimulatedClock {
  now: () => bigint;
  timers: Timers;
  /** Lets time pass, and runs what falls due meanwhile. */
  advance(ns: bigint): void;
  /** Time passes while nothing gets to run: the process was not scheduled. */
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

  return {
    now: () => nowNs,
    timers: {
      setTimeout(callback, delayMs) {
        timeouts.set(++lastKey, { atNs: nowNs + BigInt(delayMs) * 1_000_000n, callback });
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
      for (;;) {
        const [key, timeout] = earliest() ?? [];
        if (timeout && timeout.atNs <= nowNs) {
          timeouts.delete(key!);
          timeout.callback();
        } else if (nowNs >= endNs) return;
        else if (turns.size > 0) runTurns();
        else nowNs = timeout && timeout.atNs < endNs ? timeout.atNs : endNs;
      }
    },
    stall(ns) {
      nowNs += ns;
    },
  };
}
