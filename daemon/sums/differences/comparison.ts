/**
 * Compares selected transactions or events with the others: rows of values that differ, and the parts of their time.
 */
import { computeShareDifference, findDiffering } from './noise.ts';
import { FIELDS, type FieldValue, isFolder, type ProfileField, type Profiles } from './profiles.ts';
import type { Stratum } from './strata.ts';

/** A side with fewer transactions or events is too small to compare. */
export const COMPARED_MIN = 30;
/** Number of rows of an answer. */
export const ROWS_MAX = 50;
/** Number of values that are joined to rows. */
const JOINED_MAX = 200;
const JOINED_A_STEP = 16;
/** Values are joined in one row if their carriers agree to this degree (Jaccard). */
const ALIKE_MIN = 0.95;

export const PARTS = ['queue', 'service', 'sync', 'write', 'request', 'untraced'] as const;
export type DurationPart = (typeof PARTS)[number];

export interface Side {
  count: number;
  durationNs: bigint;
  /** The parts that the time was spent on. */
  parts: Record<DurationPart, bigint>;
}

export interface CountedValue extends FieldValue {
  /** Number of the selected that have the value. */
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
  /** Rows that are not in `rows`. */
  moreRows: number;
  tried: number;
  equal: ProfileField[];
  leftOut: ProfileField[];
}

export interface Tallied {
  /** The fields that are compared. */
  fields: readonly ProfileField[];
  selected: Side;
  others: Side;
  events: number;
  /** Numbers of the selected and of the others that have each value, alternating. */
  carriers: Float64Array;
  /** The strata in which a value is tested; undefined if it is tested among all. */
  listStrata?: (value: number) => readonly Stratum[] | undefined;
  /**
   * Returns a function that counts the carriers of two of these values together, which are given by their places.
   * Yields to let other work run.
   */
  together(values: readonly number[]): Generator<void, (a: number, b: number) => number>;
}

/** Yields to let other work run. */
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
    // A value that is more frequent among the selected precedes an equally strong one that is rarer there.
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

/** Whether both sides are large enough to be compared. */
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

/** Joins values to the strongest one with the same carriers. */
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
      // Values with too different numbers of carriers need no counting.
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
