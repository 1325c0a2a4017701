/** Finds which values each transaction has: the values of its own events, and the devices for which it waited. */
import { growArray } from '../../base/growing_array.ts';
import type { EventRows, KeptEvents } from './kept_events.ts';
import { createEventRows, ROLES } from './kept_events.ts';
import { NOT_COMPARED } from './population.ts';
import type { ProfileColumns } from './profile_columns.ts';

/** Number of events between two yields, at which other work may run. */
const A_STEP = 65_536;

/** Reports each value of a transaction once: the values of its own events, and values that are passed to `see`. */
export interface DistinctValues {
  begin(): void;
  /** Calls `onValue` with the number of the value, but only once for each value after `begin`. */
  see(value: number, onValue: (value: number) => void): void;
  seeOwn(rows: EventRows, onValue: (value: number) => void): void;
}

export function createDistinctValues({ firstValues, values }: ProfileColumns, valueCount: number): DistinctValues {
  const seenValues = new Int32Array(valueCount);
  const seenProfiles = new Int32Array(firstValues.length);
  let ordinal = 0;

  function see(value: number, onValue: (value: number) => void): void {
    if (seenValues[value] === ordinal) return;
    seenValues[value] = ordinal;
    onValue(value);
  }

  return {
    begin() {
      ordinal++;
    },
    see,
    seeOwn({ length, profiles, roles }, onValue) {
      for (let row = 0; row < length; row++) {
        const profile = profiles[row]!;
        // Most events of a transaction have a profile that occurred before.
        if (roles[row] !== ROLES.own || seenProfiles[profile] === ordinal) continue;
        seenProfiles[profile] = ordinal;
        for (let at = firstValues[profile]!; at < firstValues[profile + 1]!; at++) see(values[at]!, onValue);
      }
    },
  };
}

/** Collects pairs of a transaction and a device for which it waited. */
export function createWaitedPairs() {
  let pairs = new Uint32Array(1024);
  let count = 0;
  return {
    add(transaction: number, device: number): void {
      if (count + 2 > pairs.length) pairs = growArray(pairs);
      pairs[count++] = transaction;
      pairs[count++] = device;
    },
    pairs: (): Uint32Array => pairs.subarray(0, count),
  };
}

interface Carriers {
  count: number;
  kept: KeptEvents;
  columns: ProfileColumns;
  valueCount: number;
  waited: Uint32Array;
  /** Returns, as bits, the transactions that have a value; only for values numbered `valueCount` or higher. */
  getBits: (value: number) => Uint32Array;
}

/**
 * Returns a function that counts the transactions that have both of two values, using a bit for each transaction and
 * value.
 */
export function* createPairCounter(
  wanted: readonly number[],
  { count, kept, columns, valueCount, waited, getBits }: Carriers,
): Generator<void, (a: number, b: number) => number> {
  // A single value has no other value with which it could be joined.
  if (wanted.length < 2) return () => 0;
  const placeOf = new Int32Array(valueCount).fill(NOT_COMPARED);
  for (const [i, value] of wanted.entries()) if (value < valueCount) placeOf[value] = i;
  const sets = wanted.map((value) => (value < valueCount ? createBits(count) : getBits(value)));
  const set = (place: number, transaction: number) => {
    if (place !== NOT_COMPARED) setBit(sets[place]!, transaction);
  };
  const values = createDistinctValues(columns, valueCount);
  const rows = createEventRows(1024);
  let transaction = 0;
  const onValue = (value: number) => set(placeOf[value]!, transaction);
  for (let events = 0; transaction < count; transaction++) {
    kept.read(transaction, rows);
    values.begin();
    values.seeOwn(rows, onValue);
    events += rows.length + 1;
    if (events < A_STEP) continue;
    events = 0;
    yield;
  }
  for (let i = 0; i < waited.length; i += 2) set(placeOf[waited[i + 1]!]!, waited[i]!);
  return (a, b) => countCommonBits(sets[a]!, sets[b]!);
}

/** Creates an array with one bit for each transaction. */
export function createBits(count: number): Uint32Array {
  return new Uint32Array(Math.ceil(count / 32));
}

export function setBit(bits: Uint32Array, transaction: number): void {
  bits[transaction >>> 5]! |= 1 << (transaction & 31);
}

function countCommonBits(one: Uint32Array, other: Uint32Array): number {
  let both = 0;
  for (let i = 0; i < one.length; i++) both += countBits(one[i]! & other[i]!);
  return both;
}

function countBits(word: number): number {
  let bits = word - ((word >>> 1) & 0x5555_5555);
  bits = (bits & 0x3333_3333) + ((bits >>> 2) & 0x3333_3333);
  return Math.imul((bits + (bits >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}
