/**
 * Column facts: a small blob in each row of the segment table that describes the values of the segment's columns. A
 * query skips a segment if the facts exclude the values that the query searches for.
 *
 *   [crc32 of the rest u32, from a seed] [column id u16][form u8][bytes u16][these bytes] ...
 *
 *   RANGES     ranges of the values that occur, in ascending order; each is two varints: the distance from the value
 *              after the previous range (first from 0), and the number of further values
 *   EXTREMES   for each event type that occurs: event type u16, smallest value u64, largest value u64
 *   FILTER     a Bloom filter of the values that occur: bits for each value u8, then the bits, the lowest of a byte
 *              first
 *
 * Values are treated as unsigned. A filter contains the value v when all of the bits (h + i * g) mod 2^32 mod (number
 * of bits) are set, for i from 0 to (bits for each value) - 1. Here h is the finalizer of MurmurHash3 applied to v, and
 * g is the finalizer applied to h, with its lowest bit set.
 */
import { crc32 } from 'node:zlib';
import { toWords } from '../words64.ts';
import { SEGMENT_ROWS_MAX } from './encode_segment.ts';

const CHECKSUM_BYTES = 4;
const HEAD_BYTES = 5;
const RANGES = 1;
const EXTREMES = 2;
const FILTER = 3;
const EXTREMES_BYTES = 18;

/**
 * The maximum number of ranges of a column. A column with more ranges gets a Bloom filter instead. Ranges are exact,
 * and take about 3 bytes each. A filter of at most `FILTER_BYTES_MAX` values has a byte for each value, and a false
 * positive rate of one in 40.
 */
export const RANGES_MAX = 64;
const FILTER_BYTES_MAX = 512;
const FILTER_BITS_MAX = 4;
/**
 * Number of hash bits per value, divided by the filter's bits per value. With ln 2, half of the filter's bits are set,
 * which minimizes false positives.
 */
const FILTER_BITS_SHARE = Math.LN2;

const VARINT_BITS = 7;
const VARINT_BASE = 2 ** VARINT_BITS;
const U32_END = 2 ** 32;

/**
 * A hash table of the values found: each used slot contains 1 + the index of a value in `found`. A segment's rows fill
 * at most half of the slots.
 */
const SLOT_BITS = 13;
const slots = new Uint16Array(2 ** SLOT_BITS);
const found = new Uint32Array(SEGMENT_ROWS_MAX);

const TYPES_MAX = 256;
const smallestRow = new Int32Array(TYPES_MAX);
const largestRow = new Int32Array(TYPES_MAX);

/** A range of values; both bounds are inclusive. */
export interface Range {
  from: number;
  to: number;
}

export interface Extremes {
  eventType: number;
  min: bigint;
  max: bigint;
}

export interface Filter {
  bits: Uint8Array;
  bitsOfValue: number;
}

/** Facts about a column; empty if this program does not know the stored form. */
export interface ColumnFacts {
  ranges?: readonly Range[];
  extremes?: readonly Extremes[];
  filter?: Filter;
}

/**
 * Returns the distinct values of rows [from, to), in ascending order; the next call overwrites them. A `Set` would be
 * several times slower and take more memory.
 */
export function findDistinctValues(values: Uint32Array, from: number, to: number): Uint32Array {
  slots.fill(0);
  let count = 0;
  for (let row = from; row < to; row++) {
    const value = values[row]!;
    let slot = Math.imul(value, 0x9e3779b1) >>> (32 - SLOT_BITS);
    while (slots[slot] !== 0 && found[slots[slot]! - 1] !== value) slot = (slot + 1) % slots.length;
    if (slots[slot] !== 0) continue;
    found[count++] = value;
    slots[slot] = count;
  }
  return found.subarray(0, count).sort();
}

/** Returns the values of `sorted` as ranges, or as a filter if there are more than `RANGES_MAX` ranges. */
export function buildMemberFacts(sorted: Uint32Array): ColumnFacts {
  const ranges: Range[] = [];
  let from = 0;
  for (let i = 1; i <= sorted.length; i++) {
    if (i < sorted.length && sorted[i]! - sorted[i - 1]! === 1) continue;
    if (ranges.length === RANGES_MAX) return { filter: buildFilter(sorted) };
    ranges.push({ from: sorted[from]!, to: sorted[i - 1]! });
    from = i;
  }
  return { ranges };
}

function buildFilter(values: Uint32Array): Filter {
  const bits = new Uint8Array(Math.min(values.length, FILTER_BYTES_MAX));
  const best = Math.round((FILTER_BITS_SHARE * 8 * bits.length) / values.length);
  const bitsOfValue = Math.min(Math.max(best, 1), FILTER_BITS_MAX);
  for (const value of values) {
    visitBits(value, { bits, bitsOfValue }, (at) => {
      bits[at >>> 3]! |= 1 << (at & 7);
      return true;
    });
  }
  return { bits, bitsOfValue };
}

export function hasInFilter(filter: Filter, value: number): boolean {
  return visitBits(value, filter, (at) => (filter.bits[at >>> 3]! & (1 << (at & 7))) !== 0);
}

function visitBits(value: number, { bits, bitsOfValue }: Filter, see: (at: number) => boolean): boolean {
  const first = mixBits(value);
  const step = mixBits(first) | 1;
  for (let i = 0, at = first; i < bitsOfValue; i++, at = (at + step) >>> 0) {
    if (!see(at % (8 * bits.length))) return false;
  }
  return true;
}

/** The finalizer of MurmurHash3. */
function mixBits(value: number): number {
  let bits = value;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

/** Returns the smallest and the largest value of each event type in rows [from, to). */
export function findExtremesByType(
  types: Uint8Array,
  values: BigUint64Array | BigInt64Array,
  from: number,
  to: number,
): Extremes[] {
  const words = toWords(values);
  smallestRow.fill(-1);
  for (let row = from; row < to; row++) {
    const type = types[row]!;
    const smallest = smallestRow[type]!;
    if (smallest < 0) {
      smallestRow[type] = row;
      largestRow[type] = row;
    } else if (isLess(words, row, smallest)) smallestRow[type] = row;
    else if (isLess(words, largestRow[type]!, row)) largestRow[type] = row;
  }
  const extremes: Extremes[] = [];
  for (let eventType = 0; eventType < TYPES_MAX; eventType++) {
    const row = smallestRow[eventType]!;
    if (row < 0) continue;
    const min = values[row]!;
    const max = values[largestRow[eventType]!]!;
    extremes.push({ eventType, min: BigInt.asUintN(64, min), max: BigInt.asUintN(64, max) });
  }
  return extremes;
}

function isLess(words: Uint32Array, row: number, than: number): boolean {
  const high = words[2 * row + 1]!;
  const highThan = words[2 * than + 1]!;
  return high < highThan || (high === highThan && words[2 * row]! < words[2 * than]!);
}

/**
 * Encodes facts as a blob. The checksum starts from `seed`, which depends on the segment's first number, so a blob in
 * the row of another segment is invalid.
 */
export function encodeFacts(facts: ReadonlyMap<number, ColumnFacts>, seed: number): Buffer {
  const bytes: number[] = [];
  for (const [columnId, { ranges, extremes, filter }] of facts) {
    if (ranges) addEntry(bytes, columnId, RANGES, encodeRanges(ranges));
    if (filter) addEntry(bytes, columnId, FILTER, [filter.bitsOfValue, ...filter.bits]);
    if (extremes) addEntry(bytes, columnId, EXTREMES, encodeExtremes(extremes));
  }
  const blob = Buffer.allocUnsafe(CHECKSUM_BYTES + bytes.length);
  blob.set(bytes, CHECKSUM_BYTES);
  blob.writeUInt32LE(crc32(blob.subarray(CHECKSUM_BYTES), seed), 0);
  return blob;
}

function addEntry(bytes: number[], columnId: number, form: number, value: Iterable<number>): void {
  const head = bytes.length;
  bytes.push(columnId & 0xff, columnId >>> 8, form, 0, 0, ...value);
  const size = bytes.length - head - HEAD_BYTES;
  bytes[head + 3] = size & 0xff;
  bytes[head + 4] = size >>> 8;
}

function encodeRanges(ranges: readonly Range[]): number[] {
  const bytes: number[] = [];
  const addVarint = (value: number) => {
    let left = value;
    for (; left >= VARINT_BASE; left = Math.floor(left / VARINT_BASE)) bytes.push((left % VARINT_BASE) + VARINT_BASE);
    bytes.push(left);
  };
  let next = 0;
  for (const { from, to } of ranges) {
    addVarint(from - next);
    addVarint(to - from);
    next = to + 1;
  }
  return bytes;
}

function encodeExtremes(extremes: readonly Extremes[]): Buffer {
  const bytes = Buffer.allocUnsafe(extremes.length * EXTREMES_BYTES);
  for (const [i, { eventType, min, max }] of extremes.entries()) {
    bytes.writeUInt16LE(eventType, i * EXTREMES_BYTES);
    bytes.writeBigUInt64LE(min, i * EXTREMES_BYTES + 2);
    bytes.writeBigUInt64LE(max, i * EXTREMES_BYTES + 10);
  }
  return bytes;
}

/** Reads from a blob the facts about the columns that `isWanted` selects. Returns undefined if the blob is damaged. */
export function decodeFacts(
  blob: Buffer,
  seed: number,
  isWanted: (columnId: number) => boolean,
): Map<number, ColumnFacts> | undefined {
  if (blob.length < CHECKSUM_BYTES || blob.readUInt32LE(0) !== crc32(blob.subarray(CHECKSUM_BYTES), seed)) {
    return undefined;
  }
  const facts = new Map<number, ColumnFacts>();
  for (let offset = CHECKSUM_BYTES; offset < blob.length; ) {
    const start = offset + HEAD_BYTES;
    if (start > blob.length) return undefined;
    const columnId = blob.readUInt16LE(offset);
    const form = blob[offset + 2]!;
    const end = start + blob.readUInt16LE(offset + 3);
    if (end > blob.length) return undefined;
    offset = end;
    if (!isWanted(columnId)) continue;
    const found = decodeEntry(form, blob.subarray(start, end));
    if (!found) return undefined;
    facts.set(columnId, { ...facts.get(columnId), ...found });
  }
  return facts;
}

function decodeEntry(form: number, bytes: Buffer): ColumnFacts | undefined {
  if (form === RANGES) {
    const ranges = decodeRanges(bytes);
    return ranges && { ranges };
  }
  if (form === FILTER) {
    return bytes.length < 2 ? undefined : { filter: { bitsOfValue: bytes[0]!, bits: bytes.subarray(1) } };
  }
  if (form !== EXTREMES) return {};
  if (bytes.length % EXTREMES_BYTES !== 0) return undefined;
  const extremes: Extremes[] = [];
  for (let at = 0; at < bytes.length; at += EXTREMES_BYTES) {
    const min = bytes.readBigUInt64LE(at + 2);
    const max = bytes.readBigUInt64LE(at + 10);
    extremes.push({ eventType: bytes.readUInt16LE(at), min, max });
  }
  return { extremes };
}

function decodeRanges(bytes: Buffer): Range[] | undefined {
  const ranges: Range[] = [];
  let next = 0;
  let at = 0;
  const readVarint = () => {
    let value = 0;
    for (let unit = 1; at < bytes.length && unit <= U32_END; unit *= VARINT_BASE) {
      const byte = bytes[at++]!;
      value += (byte % VARINT_BASE) * unit;
      if (byte < VARINT_BASE) return value;
    }
    return Number.NaN;
  };
  while (at < bytes.length) {
    const from = next + readVarint();
    const to = from + readVarint();
    if (!(to < U32_END)) return undefined;
    ranges.push({ from, to });
    next = to + 1;
  }
  return ranges;
}
