/**
 * Compares selected transactions or events with the others. The result contains rows of values that differ, and the
 * parts of each side's time.
 */
import { computeShareDifference, findDiffering } from './noise.ts';
import { FIELDS, type FieldValue, isFolder, type ProfileField, type Profiles } from './profiles.ts';
import type { Stratum } from './strata.ts';

/** Minimum number of transactions or events on a side: a smaller side is not compared. */
export const COMPARED_MIN = 30;
/** Maximum number of rows in an answer. */
export const ROWS_MAX = 50;
/** Maximum number of values that are compared with each other, to show values with the same carriers as one row. */
const JOINED_MAX = 200;
const JOINED_A_STEP = 16;
/** Minimum similarity (Jaccard index) of the sets of carriers of two values that are shown as one row. */
const ALIKE_MIN = 0.95;

export const PARTS = ['queue', 'service', 'sync', 'write', 'request', 'untraced'] as const;
export type DurationPart = (typeof PARTS)[number];

export interface Side {
  count: number;
  durationNs: bigint;
  /** Time spent on each part. */
  parts: Record<DurationPart, bigint>;
  /** Medians of the duration and of each part, which one outlier does not change. */
  median: SideMedian;
}

export interface SideMedian {
  durationNs: bigint;
  parts: Record<DurationPart, bigint>;
}

export interface CountedValue extends FieldValue {
  /** Number of selected transactions or events that have the value. */
  selected: number;
  others: number;
}

export interface Comparison {
  selected: Side;
  others: Side;
  /** Number of events that were read. */
  events: number;
  tooFew: boolean;
  rows: CountedValue[][];
  /** Number of further rows, which are not in `rows`. */
  moreRows: number;
  tried: number;
  equal: ProfileField[];
  leftOut: ProfileField[];
}

export interface Tallied {
  /** The fields that were compared. */
  fields: readonly ProfileField[];
  selected: Side;
  others: Side;
  events: number;
  /** Two counts for each value: the number of its selected carriers, then of its other carriers. */
  carriers: Float64Array;
  /** Returns the strata in which a value is tested; undefined if the value is tested without strata. */
  listStrata?: (value: number) => readonly Stratum[] | undefined;
  /**
   * Returns a function that counts the carriers that two of these values have in common; the function takes the indexes
   * of the two values in `values`. Yields so that other work can run.
   */
  together(values: readonly number[]): Generator<void, (a: number, b: number) => number>;
}

/** Returns the comparison; yields so that other work can run. */
export function* computeComparison(
  { values, leftOut, isComplete }: Pick<Profiles, 'values' | 'leftOut' | 'isComplete'>,
  tallied: Tallied,
): Generator<void, Comparison> {
  const { selected, others, events, carriers, fields } = tallied;
  const sizes = { selected: selected.count, others: others.count };
  const common = { selected, others, events, leftOut: [...leftOut] };
  if (!isComparable(sizes)) return { ...common, tooFew: true, rows: [], moreRows: 0, tried: 0, equal: [] };
  const counted = values.flatMap((value, number) => {
    const own = carriers[number * 2]!;
    const other = carriers[number * 2 + 1]!;
    const counts = { selected: own, others: other, strata: tallied.listStrata?.(number) };
    return own + other > 0 && isComplete(value) ? [{ ...value, ...counts, number }] : [];
  });
  const { found, tried } = yield* findDiffering(counted, sizes);
  const strongest = found
    .map((i) => counted[i]!)
    .sort((a, b) => computeStrength(b) - computeStrength(a) || compare(a, b));
  function computeStrength(value: CountedValue): number {
    const difference = computeShareDifference(value, sizes);
    // A value that is more frequent on the selected side precedes an equally strong value that is rarer there.
    return difference > 0 ? difference * (1 + 1e-9) : -difference;
  }
  const joined = strongest.slice(0, JOINED_MAX);
  const rows = yield* joinAlike(joined, yield* tallied.together(joined.map(({ number }) => number)));
  const unequal = new Set(strongest.map(({ field }) => field));
  return {
    ...common,
    tooFew: false,
    rows: rows.slice(0, ROWS_MAX).map((row) => row.map(({ number: _number, strata: _strata, ...value }) => value)),
    moreRows: Math.max(0, rows.length - ROWS_MAX) + strongest.length - joined.length,
    tried,
    equal: fields.filter((field) => !unequal.has(field) && !leftOut.has(field)),
  };
}

/** Returns whether both sides are large enough to be compared. */
export function isComparable(sizes: Readonly<Record<'selected' | 'others', number>>): boolean {
  return Math.min(sizes.selected, sizes.others) >= COMPARED_MIN;
}

/** Orders values of equal strength: by field, and a file before its folder. */
function compare(a: FieldValue, b: FieldValue): number {
  const byField = FIELDS.indexOf(a.field) - FIELDS.indexOf(b.field);
  const byFolder = Number(isFolder(a)) - Number(isFolder(b));
  const [textA, textB] = [a, b].map(({ value, device = '' }) => `${value} ${device}`);
  return byField || byFolder || (textA! < textB! ? -1 : 1);
}

/** Joins each value to the strongest value that has the same carriers. */
function* joinAlike<Value extends CountedValue>(
  values: readonly Value[],
  together: (a: number, b: number) => number,
): Generator<void, Value[][]> {
  const rows: { first: number; values: Value[] }[] = [];
  const computeSize = ({ selected, others }: CountedValue) => selected + others;
  for (const [i, value] of values.entries()) {
    const row = rows.find(({ first }) => {
      const a = computeSize(values[first]!);
      const b = computeSize(value);
      // If the numbers of carriers differ too much, the sets of carriers are not similar, so no counting is needed.
      if (Math.min(a, b) < ALIKE_MIN * Math.max(a, b)) return false;
      const both = together(first, i);
      return both >= ALIKE_MIN * (a + b - both);
    });
    if (row) row.values.push(value);
    else rows.push({ first: i, values: [value] });
    if (i % JOINED_A_STEP === JOINED_A_STEP - 1) yield;
  }
  return rows.map((row) => row.values);
}
