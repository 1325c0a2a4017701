/**
 * Finds the longest events of a scan in two passes. The first pass reads only durations, and finds the minimum duration
 * of an event in the list. The second pass reads the events of the list.
 *
 *   longest first; events of the same duration in their total order
 */

import { toWords } from '../../agent/recording/words64.ts';
import type { ApiEvent } from '../../bpf/schema/api.ts';
import { createHeap, type HeapItem } from '../base/heap.ts';
import { readBlockEvents, readEventKey } from '../store/blocks/event.ts';
import { createRowCutter, type EventKey, getBigColumn, type ScannedBlock } from '../store/blocks/scanned_block.ts';

/** The position of an event in the list. */
export interface SlowKey extends EventKey {
  duration_ns: bigint;
}

export interface SlowestOptions {
  limit: number;
  /** Limits the list to events after this position. */
  after?: SlowKey | undefined;
}

export interface SlowestPage {
  events: ApiEvent[];
  /** The position of the last event; null if no more events follow. */
  next: SlowKey | null;
}

/** Columns that the first pass must read. */
export const DURATION_COLUMNS = ['duration_ns'] as const;

/** Collects the longest durations of the scanned events that `SlowestOptions.after` precedes, in any order of blocks. */
export interface LongestDurations {
  add(scanned: ScannedBlock): void;
  /** Returns the shortest of the `limit` longest durations; 0 as long as fewer durations were added. */
  shortest(): bigint;
}

interface LongDuration extends HeapItem {
  duration: bigint;
}

export function createLongestDurations({ limit, after }: SlowestOptions): LongestDurations {
  const isWanted = createWantedTest(after);
  /** The longest durations so far, with the shortest of them on top. */
  const longest = createHeap<LongDuration>((a, b) => a.duration < b.duration);
  /** The duration on top of the heap, and its high word; 0 as long as there are fewer than `limit` durations. */
  let [shortest, shortestHigh] = [0n, 0];

  function add(duration: bigint): void {
    const top = longest.peek();
    if (longest.size < limit) longest.push({ duration, slot: -1 });
    else if (top && duration > top.duration) {
      top.duration = duration;
      longest.reorder(top);
    }
    if (longest.size < limit) return;
    shortest = longest.peek()?.duration ?? 0n;
    shortestHigh = Number(shortest >> 32n);
  }

  return {
    add(scanned) {
      const durations = getBigColumn(scanned.block, 'duration_ns');
      const words = toWords(durations);
      const wanted = isWanted(scanned);
      for (let row = 0; row < scanned.block.rowCount; row++) {
        // For most rows, comparing the high words is enough: creating a bigint for each row would take ten times as
        // long.
        const isFull = longest.size === limit;
        if (isFull && (words[row * 2 + 1]! < shortestHigh || durations[row]! <= shortest)) continue;
        if (wanted(row)) add(durations[row]!);
      }
    },
    shortest: () => shortest,
  };
}

/**
 * Collects the events of the list. Blocks need all columns, must be added in ascending order, and may leave out events
 * that are too short for the list.
 */
export interface SlowestEvents {
  add(scanned: ScannedBlock): void;
  page(): SlowestPage;
}

export function createSlowestEvents({ limit, after }: SlowestOptions): SlowestEvents {
  const isWanted = createWantedTest(after);
  /** The longest events so far, up to one more than the page shows: an extra event means that more events follow. */
  const found: { duration: bigint; event: ApiEvent }[] = [];

  return {
    add(scanned) {
      const durations = getBigColumn(scanned.block, 'duration_ns');
      const wanted = isWanted(scanned);
      const cut = createRowCutter(scanned.block);
      for (let row = 0; row < scanned.block.rowCount; row++) {
        const duration = durations[row]!;
        // Events of the same duration are listed in the total order, so this event would follow the events found so
        // far.
        if (found.length > limit && duration <= found.at(-1)!.duration) continue;
        if (!wanted(row)) continue;
        const at = found.findLastIndex((other) => other.duration >= duration) + 1;
        const [event] = readBlockEvents({ ...scanned, block: cut(row, row + 1) });
        found.splice(at, 0, { duration, event: event! });
        if (found.length > limit + 1) found.pop();
      }
    },
    page() {
      const events = found.slice(0, limit).map(({ event }) => event);
      const last = found.length > limit ? events.at(-1) : undefined;
      return { events, next: last ? toSlowKey(last) : null };
    },
  };
}

export function toSlowKey({ duration_ns, timestamp_ns, event_id }: ApiEvent): SlowKey {
  return { duration_ns: BigInt(duration_ns), timestamp_ns: BigInt(timestamp_ns), event_id };
}

/** Returns a function that takes a block and returns a test for its rows: whether they follow `after` in the list. */
function createWantedTest(after: SlowKey | undefined): (scanned: ScannedBlock) => (row: number) => boolean {
  if (!after) return () => () => true;
  return (scanned) => {
    const durations = getBigColumn(scanned.block, 'duration_ns');
    return (row) => {
      const duration = durations[row]!;
      if (duration !== after.duration_ns) return duration < after.duration_ns;
      const { timestamp_ns, event_id } = readEventKey(scanned, row);
      return timestamp_ns === after.timestamp_ns ? event_id > after.event_id : timestamp_ns > after.timestamp_ns;
    };
  };
}
