/** The deadlines of all sessions in one heap, so that a thousand sessions cost one timer. */
import type { SteadyNow } from './clock.ts';
import { createHeap, type HeapItem } from './heap.ts';
import type { Waiter } from './waiting.ts';

export interface Alarm {
  /** Rings once at `dueNs`; takes the place of what was set before. */
  set(dueNs: bigint): void;
  clear(): void;
}

export interface Scheduler {
  /** `ring` must not throw: other sessions ring in the same turn. */
  alarm(ring: () => void): Alarm;
  close(): void;
}

/** Alarms ring for so long in one turn of the event loop; then sockets have theirs. */
const ROUND_NS_MAX = 500_000n;

interface Entry extends HeapItem {
  dueNs: bigint;
  ring: () => void;
}

export function createScheduler(now: SteadyNow, waiter: Waiter): Scheduler {
  const pending = createHeap<Entry>((a, b) => a.dueNs < b.dueNs);
  /** Taken out of the heap to ring in this round, which may last several turns. */
  const ringing = new Set<Entry>();
  let inTurn = false;
  let awaitedNs: bigint | null = null;
  let closed = false;

  function wait(): void {
    if (inTurn) return;
    // What is left of a round has its turn before anything else that is due.
    const dueNs = ringing.size > 0 ? 0n : (pending.peek()?.dueNs ?? null);
    if (dueNs === awaitedNs) return;
    awaitedNs = dueNs;
    if (dueNs === null) waiter.cancel();
    else waiter.until(dueNs, ringDue);
  }

  function ringDue(): void {
    awaitedNs = null;
    inTurn = true;
    const startNs = now();
    if (ringing.size === 0) beginRound(startNs);
    for (const entry of ringing) {
      ringing.delete(entry);
      entry.ring();
      if (now() - startNs >= ROUND_NS_MAX) break;
    }
    inTurn = false;
    wait();
  }

  /** One that sets itself to the past again is in the next round: after the others, and after the sockets. */
  function beginRound(nowNs: bigint): void {
    for (let entry = pending.peek(); entry && entry.dueNs <= nowNs; entry = pending.peek()) {
      pending.remove(entry);
      ringing.add(entry);
    }
  }

  function clear(entry: Entry): void {
    if (entry.slot >= 0) pending.remove(entry);
    ringing.delete(entry);
  }

  return {
    alarm(ring) {
      const entry: Entry = { dueNs: 0n, ring, slot: -1 };
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
      ringing.clear();
      waiter.cancel();
    },
  };
}
