/**
 * Columns of numbers as JSON. They are doubles while a line is gathered, because a bigint for each value would take ten
 * times as long; integers that a double may not hold exactly are kept, and written, as text.
 */
import { wordsOf } from '../../../agent/recording/words64.ts';
import type { ColumnArray } from '../../../bpf/schema/block.ts';

export interface NumberColumn {
  /** NaN stands for no number, an infinity for a number that is in `large`. */
  values: Float64Array;
  /** Integers beyond 2^53 - 1 in decimal, by their index in `values`. */
  large: Map<number, string>;
}

/** The most bytes that a value takes as JSON: a sign, 20 digits, two quotes and a comma. */
export const VALUE_BYTES_MAX = 24;

const WORD = 2 ** 32;

export function newNumberColumn(length: number): NumberColumn {
  return { values: new Float64Array(length), large: new Map() };
}

/** Returns an integer as JSON: text where a double may not hold it exactly. */
export function integerJson(value: bigint): string {
  return Number.isSafeInteger(Number(value)) ? value.toString() : `"${value}"`;
}

function setLarge({ values, large }: NumberColumn, at: number, value: bigint): void {
  values[at] = value < 0n ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  large.set(at, value.toString());
}

/** Views of words are worth their cost from this number of values on. */
const WORDS_COUNT_MIN = 8;

function setInteger(to: NumberColumn, at: number, value: bigint): void {
  const number = Number(value);
  if (Number.isSafeInteger(number)) to.values[at] = number;
  else setLarge(to, at, value);
}

interface Source {
  isSigned?: boolean;
  /** Rows that the values belong to, counted from the first one; without it they are adjacent. */
  rows?: Uint32Array;
  /** The value of 64 bits that stands for no number. */
  unknown?: bigint | undefined;
}

/** Sets the values from `at` on to the first `count` values of a recorded column. */
export function setNumbers(to: NumberColumn, at: number, from: ColumnArray, count: number, source: Source = {}): void {
  if (from.BYTES_PER_ELEMENT === 8 && count >= WORDS_COUNT_MIN)
    setByWords(to, at, from as BigUint64Array, count, source);
  else setOneByOne(to, at, from, count, source);
}

function setOneByOne(to: NumberColumn, at: number, from: ColumnArray, count: number, { rows, unknown }: Source): void {
  for (let i = 0; i < count; i++) {
    const row = at + (rows ? rows[i]! : i);
    const value = from[i]!;
    if (typeof value === 'number') to.values[row] = value;
    else if (value === unknown) to.values[row] = Number.NaN;
    else setInteger(to, row, value);
  }
}

function setByWords(to: NumberColumn, at: number, from: BigUint64Array, count: number, source: Source): void {
  const { isSigned = false, rows, unknown } = source;
  const words = wordsOf(from);
  const signBit = isSigned ? WORD / 2 : WORD;
  const noneLow = unknown === undefined ? -1 : Number(unknown & 0xffffffffn);
  const noneHigh = unknown === undefined ? -1 : Number(unknown >> 32n);
  for (let i = 0; i < count; i++) {
    const row = at + (rows ? rows[i]! : i);
    const low = words[i * 2]!;
    const high = words[i * 2 + 1]!;
    const value = (high >= signBit ? high - WORD : high) * WORD + low;
    if (high === noneHigh && low === noneLow) to.values[row] = Number.NaN;
    else if (Number.isSafeInteger(value)) to.values[row] = value;
    else setLarge(to, row, from[i]!);
  }
}

/** Sets the values from `at` on to the differences of the first `count` times from `base`. */
export function setOffsets(to: NumberColumn, at: number, times: BigUint64Array, count: number, base: bigint): void {
  if (count < WORDS_COUNT_MIN) {
    for (let i = 0; i < count; i++) setInteger(to, at + i, times[i]! - base);
    return;
  }
  const words = wordsOf(times);
  const [baseLow, baseHigh] = [Number(base & 0xffffffffn), Number(base >> 32n)];
  for (let i = 0; i < count; i++) {
    const offset = (words[i * 2 + 1]! - baseHigh) * WORD + (words[i * 2]! - baseLow);
    if (Number.isSafeInteger(offset)) to.values[at + i] = offset;
    else setLarge(to, at + i, times[i]! - base);
  }
}

const [ZERO, MINUS, QUOTE, COMMA] = [0x30, 0x2d, 0x22, 0x2c];
const NULL = Buffer.from('null');
const NO_LARGE: ReadonlyMap<number, string> = new Map();
const BILLION = 1e9;
const BILLION_DIGITS = 9;

/** Writes the first `count` values with commas between them; returns the offset of their end. */
export function writeNumbers(to: Buffer, at: number, column: NumberColumn | Uint32Array, count: number): number {
  const { values, large } = column instanceof Uint32Array ? { values: column, large: NO_LARGE } : column;
  let end = at;
  for (let i = 0; i < count; i++) {
    const value = values[i]!;
    if (i > 0) to[end++] = COMMA;
    if (value >= 0 && value < BILLION) end = writeSmall(to, end, value);
    else if (Number.isFinite(value)) end = writeInteger(to, end, value);
    else if (Number.isNaN(value)) {
      to.set(NULL, end);
      end += NULL.length;
    } else {
      to[end++] = QUOTE;
      end += to.write(large.get(i)!, end, 'latin1');
      to[end++] = QUOTE;
    }
  }
  return end;
}

function writeInteger(to: Buffer, at: number, value: number): number {
  let end = at;
  if (value < 0) to[end++] = MINUS;
  const size = Math.abs(value);
  if (size < BILLION) return writeSmall(to, end, size);
  const high = Math.floor(size / BILLION);
  end = writeSmall(to, end, high);
  writeDigits(to, end, size - high * BILLION, BILLION_DIGITS);
  return end + BILLION_DIGITS;
}

/** Writes an integer from 0 up to 2^31. */
function writeSmall(to: Buffer, at: number, value: number): number {
  let digits = 1;
  for (let limit = 10; digits < 10 && value >= limit; limit *= 10) digits++;
  writeDigits(to, at, value, digits);
  return at + digits;
}

function writeDigits(to: Buffer, at: number, value: number, digits: number): void {
  let rest = value | 0;
  for (let i = at + digits - 1; i >= at; i--) {
    const quotient = (rest / 10) | 0;
    to[i] = ZERO + rest - quotient * 10;
    rest = quotient;
  }
}
