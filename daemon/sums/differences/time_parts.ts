/**
 * What the time of one transaction was spent on: each moment belongs to the first part that has it.
 *
 *   queue     a request that its own threads queued waits, or one of others with its data while one of its syncs runs
 *   service   a device works on such a request
 *   sync      one of its syncs runs
 *   write     one of its writes runs
 *   untraced  the rest
 */
import { PARTS, type Part } from './comparison.ts';

/** Kinds of interval. Requests of others count while a sync runs on the same node. */
export const KINDS = { write: 0, sync: 1, ownQueue: 2, ownService: 3, itsQueue: 4, itsService: 5 } as const;

export interface Intervals {
  /** Forgets all intervals. */
  clear(): void;
  /** `node` is a small number; times are nanoseconds from the start of the transaction. */
  add(kind: number, node: number, start: number, end: number): void;
  /** Nanoseconds of each part within [0, duration). */
  parts(duration: number): Record<Part, number>;
}

export function createIntervals(): Intervals {
  let times: number[] = [];
  /** Node and kind of each time, negative for an end. */
  let marks: number[] = [];

  return {
    clear() {
      times = [];
      marks = [];
    },
    add(kind, node, start, end) {
      if (end <= start) return;
      times.push(start, end);
      marks.push(node * 8 + kind + 1, -(node * 8 + kind + 1));
    },
    parts(duration) {
      const found = Object.fromEntries(PARTS.map((part) => [part, 0])) as Record<Part, number>;
      const running = new Map<number, number[]>();
      let reached = 0;
      for (const at of inOrder(times)) {
        const time = Math.min(Math.max(times[at]!, 0), duration);
        if (time > reached) found[partOf(running)] += time - reached;
        reached = Math.max(reached, time);
        const mark = Math.abs(marks[at]!) - 1;
        const counts = running.get(mark >>> 3) ?? [0, 0, 0, 0, 0, 0];
        counts[mark & 7]! += Math.sign(marks[at]!);
        running.set(mark >>> 3, counts);
      }
      found.untraced += duration - reached;
      return found;
    },
  };
}

function partOf(running: ReadonlyMap<number, readonly number[]>): Part {
  let best = PARTS.length - 1;
  for (const [write = 0, sync = 0, ownQueue = 0, ownService = 0, itsQueue = 0, itsService = 0] of running.values()) {
    const queue = ownQueue > 0 || (itsQueue > 0 && sync > 0);
    const service = ownService > 0 || (itsService > 0 && sync > 0);
    const part = queue ? 0 : service ? 1 : sync > 0 ? 2 : write > 0 ? 3 : 4;
    if (part < best) best = part;
  }
  return PARTS[best]!;
}

/** Most transactions have few times, which inserting sorts faster than a comparison function does. */
const INSERTED_MAX = 64;

function inOrder(times: readonly number[]): number[] {
  const places = times.map((_, i) => i);
  if (times.length > INSERTED_MAX) return places.sort((a, b) => times[a]! - times[b]!);
  for (let i = 1; i < places.length; i++) {
    const time = times[i]!;
    let at = i;
    for (; at > 0 && times[places[at - 1]!]! > time; at--) places[at] = places[at - 1]!;
    places[at] = i;
  }
  return places;
}
