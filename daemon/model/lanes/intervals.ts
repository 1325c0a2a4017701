/**
 * Sets of times as sorted intervals that do not touch. Sums of their lengths are exact as long as offsets are below
 * 2^53.
 */
import { findFirstPlace } from '../../base/binary_search.ts';

/** A set of times: starts and ends, alternating and ascending. */
export type TimeSet = Float64Array;

export const NO_TIME: TimeSet = new Float64Array(0);

/** Joins intervals, given as alternating starts and ends in any order. Empty and reversed intervals do not count. */
export function uniteIntervals(intervals: ArrayLike<number>): TimeSet {
  const order = sortPlacesByStart(intervals);
  const joined = new Float64Array(intervals.length);
  let size = 0;
  for (const at of order) {
    const start = intervals[at]!;
    const end = intervals[at + 1]!;
    if (end <= start) continue;
    if (size > 0 && start <= joined[size - 1]!) joined[size - 1] = Math.max(joined[size - 1]!, end);
    else {
      joined[size++] = start;
      joined[size++] = end;
    }
  }
  return joined.slice(0, size);
}

/** Joins two sets without sorting, because both are already in order. */
export function uniteSets(one: TimeSet, other: TimeSet): TimeSet {
  const joined = new Float64Array(one.length + other.length);
  let size = 0;
  for (let i = 0, j = 0; i < one.length || j < other.length; ) {
    const isOne = j === other.length || (i < one.length && one[i]! <= other[j]!);
    const [start, end] = isOne ? [one[i]!, one[i + 1]!] : [other[j]!, other[j + 1]!];
    if (isOne) i += 2;
    else j += 2;
    if (size > 0 && start <= joined[size - 1]!) joined[size - 1] = Math.max(joined[size - 1]!, end);
    else {
      joined[size++] = start;
      joined[size++] = end;
    }
  }
  return joined.slice(0, size);
}

/** Returns the indexes of the starts, sorted by start. */
function sortPlacesByStart(intervals: ArrayLike<number>): Uint32Array {
  const places = new Uint32Array(intervals.length / 2);
  let isSorted = true;
  for (let i = 0; i < places.length; i++) {
    places[i] = 2 * i;
    if (i > 0 && intervals[2 * i]! < intervals[2 * i - 2]!) isSorted = false;
  }
  return isSorted ? places : places.sort((a, b) => intervals[a]! - intervals[b]!);
}

export function intersectSets(one: TimeSet, other: TimeSet): TimeSet {
  // Each step writes at most one interval and passes one, so both lengths together are enough.
  const common = new Float64Array(one.length + other.length);
  let size = 0;
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    const start = Math.max(one[i]!, other[j]!);
    const end = Math.min(one[i + 1]!, other[j + 1]!);
    if (start < end) {
      common[size++] = start;
      common[size++] = end;
    }
    if (one[i + 1]! < other[j + 1]!) i += 2;
    else j += 2;
  }
  return common.slice(0, size);
}

/** Returns the total length of all intervals, in nanoseconds. */
export function sumLengthNs(set: TimeSet): number {
  let sum = 0;
  for (let i = 0; i < set.length; i += 2) sum += set[i + 1]! - set[i]!;
  return sum;
}

/** Returns whether an interval overlaps the set. */
export function overlaps(set: TimeSet, startNs: number, endNs: number): boolean {
  const first = findFirstPlace(0, set.length / 2, (place) => set[2 * place + 1]! > startNs);
  return 2 * first < set.length && set[2 * first]! < endNs && startNs < endNs;
}

/** Joins several sets, or lists of intervals in any order. */
export function mergeIntervals(lists: readonly ArrayLike<number>[]): TimeSet {
  const all = new Float64Array(lists.reduce((sum, { length }) => sum + length, 0));
  let size = 0;
  for (const list of lists) {
    all.set(list, size);
    size += list.length;
  }
  return uniteIntervals(all);
}
