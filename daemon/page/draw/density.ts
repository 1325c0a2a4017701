/** The number of events in each column of a minimap. */
import type { LanesModel, TimeSpan } from '../../model/lanes/model.ts';

/** Event counts with one value for each column; all columns cover the same length of time. */
export interface Density {
  /** Number of events that overlap the column. */
  counts: Uint32Array;
  /** Number of failed events that overlap the column. */
  failed: Uint32Array;
}

/** Number of columns in a strip, whose picture is stretched to the strip's width. */
export const DENSITY_COLUMNS = 1024;

/** Counts the events of all lanes; an event without duration counts in the column in which it begins. */
export function computeDensity(
  { starts, ends, columns: { result } }: Pick<LanesModel, 'starts' | 'ends'> & { columns: { result: Float64Array } },
  { fromNs, toNs }: TimeSpan,
  columns: number,
): Density {
  const scale = columns / (toNs - fromNs);
  // Each event changes only two values, at its start and after its end, so that a long event costs no more than a
  // short one. Prefix sums then give the counts.
  const changes = new Int32Array(columns + 1);
  const failedChanges = new Int32Array(columns + 1);
  for (let row = 0; row < starts.length; row++) {
    const start = starts[row]!;
    if (start >= toNs) continue;
    const first = Math.min(Math.floor((start - fromNs) * scale), columns - 1);
    const last = Math.min(Math.max(Math.ceil((ends[row]! - fromNs) * scale) - 1, first), columns - 1);
    if (last < 0) continue;
    const from = Math.max(first, 0);
    changes[from]!++;
    changes[last + 1]!--;
    if (result[row]! >= 0) continue;
    failedChanges[from]!++;
    failedChanges[last + 1]!--;
  }
  return { counts: computePrefixSums(changes), failed: computePrefixSums(failedChanges) };
}

function computePrefixSums(changes: Int32Array): Uint32Array {
  const sums = new Uint32Array(changes.length - 1);
  for (let column = 0, sum = 0; column < sums.length; column++) {
    sum += changes[column]!;
    sums[column] = sum;
  }
  return sums;
}

/**
 * Returns the height of a column as a share of the highest column's height. The scale is logarithmic, so that one
 * event is visible next to a million.
 */
export function computeHeightShare(count: number, largest: number): number {
  return count === 0 ? 0 : Math.log1p(count) / Math.log1p(largest);
}
