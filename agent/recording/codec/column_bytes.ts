/**
 * One column as bytes. Values are split into planes, all first bytes, then all second ones ..., because the high bytes
 * of neighbours are alike and compress away; planes that are all zero are left out.
 *
 *   constant   [form][value: width bytes]
 *   planes     [form][mask][base: 8 bytes, only with delta][plane][plane]...   a plane is one byte a row
 *
 *   form = width | 0x10 constant | 0x20 delta;  bit p of mask: plane p is there
 *
 * The inner loops see 32-bit words only, so that they are compiled for these alone, and never make a BigInt. Assumes a little-endian machine, like the kernel side.
 */
import type { ColumnArray } from '../../../bpf/schema/block.ts';
import type { Encoding, Storage } from '../../../bpf/schema/kinds.ts';
import { corrupt } from '../errors.ts';
import { fromDelta, toDelta } from './delta.ts';

const CONSTANT = 0x10;
const DELTA = 0x20;
const WIDTH_MASK = 0x0f;
const BASE_BYTES = 8;

export const STORAGE_WIDTH: Record<Storage, number> = { u8: 1, u16: 2, u32: 4, i32: 4, u64: 8, i64: 8 };

/** Bytes that `encodeColumn` writes at most. */
export function encodedBytesMax(rows: number, width: number): number {
  return 2 + BASE_BYTES + rows * width;
}

/** The words of values of four bytes or eight; narrower ones are widened. */
function wordsIn(values: ColumnArray): Uint32Array {
  const { buffer, byteOffset, byteLength, BYTES_PER_ELEMENT: width } = values;
  if (width >= 4) return new Uint32Array(buffer, byteOffset, byteLength / 4);
  return new Uint32Array(values as Uint8Array | Uint16Array);
}

/** Writes `values` (at least one) to `output` at `offset`; returns the offset behind it. */
export function encodeColumn(values: ColumnArray, encoding: Encoding, output: Uint8Array, offset: number): number {
  const width = values.BYTES_PER_ELEMENT;
  const step = width === 8 ? 2 : 1;
  let words = wordsIn(values);
  if (isConstant(words, step)) {
    output[offset++] = width | CONSTANT;
    output.set(new Uint8Array(values.buffer, values.byteOffset, width), offset);
    return offset + width;
  }
  const delta = encoding === 'delta' && width === 8;
  output[offset++] = delta ? width | DELTA : width;
  const maskOffset = offset++;
  if (delta) {
    output.set(new Uint8Array(values.buffer, values.byteOffset, BASE_BYTES), offset);
    offset += BASE_BYTES;
    words = toDelta(words);
  }
  let mask = 0;
  for (let word = 0; word < step; word++) {
    const used = bitsUsed(words, word, step);
    for (let byte = 0; byte < 4; byte++) {
      if (((used >>> (byte * 8)) & 0xff) === 0) continue;
      mask |= 1 << (word * 4 + byte);
      takePlane(words, word, step, byte * 8, output, offset);
      offset += values.length;
    }
  }
  output[maskOffset] = mask;
  return offset;
}

/** Whether the column encoded at `offset` is constant and every byte of its value is `byte`. */
export function repeatsByte(encoded: Uint8Array, offset: number, byte: number): boolean {
  const form = encoded[offset]!;
  if ((form & CONSTANT) === 0) return false;
  const end = offset + 1 + (form & WIDTH_MASK);
  for (let i = offset + 1; i < end; i++) if (encoded[i] !== byte) return false;
  return true;
}

interface Shape {
  constant: boolean;
  delta: boolean;
  /** Planes that are there. */
  mask: number;
  /** Where values, or planes, begin. */
  offset: number;
}

/** Checks that the bytes are those of so many values. */
function shapeOf(input: Uint8Array, width: number, length: number): Shape {
  const form = input[0] ?? 0;
  if ((form & WIDTH_MASK) !== width) throw corrupt(`a column's values are not ${width} bytes wide`);
  if (form & CONSTANT) {
    if (input.length !== 1 + width) throw corrupt('a constant column has a wrong size');
    return { constant: true, delta: false, mask: 0, offset: 1 };
  }
  const delta = (form & DELTA) !== 0;
  const mask = input[1] ?? 0;
  const offset = delta ? 2 + BASE_BYTES : 2;
  if ((delta && width !== 8) || mask >= 1 << width || input.length !== offset + planeCount(mask) * length) {
    throw corrupt('a column has a wrong size');
  }
  return { constant: false, delta, mask, offset };
}

/** Fills `values`, which must be zeros yet, from exactly the bytes that `encodeColumn` wrote. */
export function decodeColumn(input: Uint8Array, values: ColumnArray): void {
  const width = values.BYTES_PER_ELEMENT;
  const shape = shapeOf(input, width, values.length);
  if (shape.constant) {
    fillConstant(input, values);
    return;
  }
  const { mask, delta } = shape;
  let { offset } = shape;
  const words = wordsIn(values);
  const step = width === 8 ? 2 : 1;
  for (let plane = 0; plane < width; plane++) {
    if ((mask & (1 << plane)) === 0) continue;
    putPlane(input, offset, words, plane >> 2, step, (plane & 3) * 8);
    offset += values.length;
  }
  if (delta) fromDelta(words, input.subarray(2, 2 + BASE_BYTES));
  if (width < 4) (values as Uint8Array | Uint16Array).set(words);
}

/**
 * `target[to[i]] = value[from[i]]` of a column of `length` values; the targets must be zeros yet. False when a value
 * depends on those before it.
 */
export function pickValues(
  input: Uint8Array,
  length: number,
  from: Uint32Array,
  target: ColumnArray,
  to: Uint32Array,
): boolean {
  const width = target.BYTES_PER_ELEMENT;
  const { constant, delta, mask, offset } = shapeOf(input, width, length);
  if (delta) return false;
  const bytes = new Uint8Array(target.buffer, target.byteOffset, target.byteLength);
  let plane = offset;
  for (let byte = 0; byte < width; byte++) {
    if (constant) for (let i = 0; i < to.length; i++) bytes[to[i]! * width + byte] = input[offset + byte]!;
    if ((mask & (1 << byte)) === 0) continue;
    for (let i = 0; i < to.length; i++) bytes[to[i]! * width + byte] = input[plane + from[i]!]!;
    plane += length;
  }
  return true;
}

function fillConstant(input: Uint8Array, values: ColumnArray): void {
  new Uint8Array(values.buffer, values.byteOffset, input.length - 1).set(input.subarray(1));
  if (values instanceof BigUint64Array || values instanceof BigInt64Array) values.fill(values[0]!);
  else values.fill(values[0]!);
}

// The inner loops are functions of their own, so that they are compiled after few segments.
function takePlane(
  words: Uint32Array,
  first: number,
  step: number,
  shift: number,
  output: Uint8Array,
  offset: number,
): void {
  let to = offset;
  for (let from = first; from < words.length; from += step) output[to++] = words[from]! >>> shift;
}

function putPlane(
  input: Uint8Array,
  offset: number,
  words: Uint32Array,
  first: number,
  step: number,
  shift: number,
): void {
  let from = offset;
  for (let to = first; to < words.length; to += step) words[to]! |= input[from++]! << shift;
}

function isConstant(words: Uint32Array, step: number): boolean {
  for (let i = step; i < words.length; i++) if (words[i] !== words[i - step]) return false;
  return true;
}

/** All bits that are set in any of the values. */
function bitsUsed(words: Uint32Array, first: number, step: number): number {
  let bits = 0;
  for (let i = first; i < words.length; i += step) bits |= words[i]!;
  return bits;
}

function planeCount(mask: number): number {
  let count = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) count++;
  return count;
}
