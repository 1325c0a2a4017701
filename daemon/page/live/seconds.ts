/** Sums the last minute second by second, for the table that shows the same data as the map. */
import { COLUMN_NS, MINUTE_COLUMNS, type Minute, ROW_COUNT } from './minute.ts';

const COLUMNS_OF_SECOND = Number(1_000_000_000n / COLUMN_NS);

export interface Second {
  /** Start of the second, in nanoseconds since the epoch. */
  startNs: bigint;
  count: number;
  failed: number;
  /** Duration of the longest event, in nanoseconds; null without events. */
  longestNs: number | null;
  isLost: boolean;
}

/** Returns the seconds; the newest second comes first. */
export function sumSeconds(minute: Minute): Second[] {
  const seconds: Second[] = [];
  for (let first = MINUTE_COLUMNS - COLUMNS_OF_SECOND; first >= 0; first -= COLUMNS_OF_SECOND) {
    const second = { startNs: minute.computeStartNs(first), count: 0, failed: 0, isLost: false };
    let longest = -1;
    for (let column = first; column < first + COLUMNS_OF_SECOND; column++) {
      const from = minute.computePlace(column) * ROW_COUNT;
      second.count += sum(minute.counts, from);
      second.failed += sum(minute.failed, from);
      second.isLost ||= minute.isLost(column);
      longest = Math.max(longest, minute.getLongestNs(column));
    }
    seconds.push({ ...second, longestNs: longest < 0 ? null : longest });
  }
  return seconds;
}

function sum(values: Uint32Array, from: number): number {
  let total = 0;
  for (let at = from; at < from + ROW_COUNT; at++) total += values[at]!;
  return total;
}
