/**
 * One column as bytes. Neighbouring values differ in their low bytes, so bytes of equal weight are put together
 * ("planes"), which zstd then finds repetitive; planes that are all zero are left out.
 *
 *   constant   [form][value: width bytes]
 *   planes     [form][mask][base: 8 bytes, only with delta][plane][plane]...   a plane is one byte a row
 *
 *   form = width | 0x10 constant | 0x20 delta;  bit p of mask: plane p is there
 *
 * Works on 8 and 32 bit views and never makes a BigInt. Assumes a little-endian machine, like the kernel side.
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

function bytesOf(values: ColumnArray): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** Writes `values` (at least one) to `output` at `offset`; returns the offset behind it. */
export function encodeColumn(values: ColumnArray, encoding: Encoding, output: Uint8Array, offset: number): number {
  const width = values.BYTES_PER_ELEMENT;
  const bytes = bytesOf(values);
  if (isConstant(bytes, width)) {
    output[offset++] = width | CONSTANT;
    output.set(bytes.subarray(0, width), offset);
    return offset + width;
  }
  const delta = encoding === 'delta' && width === 8;
  output[offset++] = delta ? width | DELTA : width;
  const maskOffset = offset++;
  let source = bytes;
  if (delta) {
    output.set(bytes.subarray(0, BASE_BYTES), offset);
    offset += BASE_BYTES;
    source = toDelta(values as BigUint64Array);
  }
  const mask = usedPlanes(source, width);
  output[maskOffset] = mask;
  for (let plane = 0; plane < width; plane++) {
    if ((mask & (1 << plane)) === 0) continue;
    takePlane(source, plane, width, output, offset);
    offset += values.length;
  }
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

/** Fills `values`, which must be zeros yet, from exactly the bytes that `encodeColumn` wrote. */
export function decodeColumn(input: Uint8Array, values: ColumnArray): void {
  const width = values.BYTES_PER_ELEMENT;
  const bytes = bytesOf(values);
  const form = input[0] ?? 0;
  if ((form & WIDTH_MASK) !== width) throw corrupt(`a column's values are not ${width} bytes wide`);
  if (form & CONSTANT) {
    if (input.length !== 1 + width) throw corrupt('a constant column has a wrong size');
    bytes.set(input.subarray(1), 0);
    for (let filled = width; filled < bytes.length; filled *= 2) bytes.copyWithin(filled, 0, filled);
    return;
  }
  const delta = (form & DELTA) !== 0;
  const mask = input[1] ?? 0;
  let offset = delta ? 2 + BASE_BYTES : 2;
  if ((delta && width !== 8) || mask >= 1 << width || input.length !== offset + planeCount(mask) * values.length) {
    throw corrupt('a column has a wrong size');
  }
  for (let plane = 0; plane < width; plane++) {
    if ((mask & (1 << plane)) === 0) continue;
    putPlane(input, offset, bytes, plane, width);
    offset += values.length;
  }
  if (delta) fromDelta(values as BigUint64Array, input.subarray(2, 2 + BASE_BYTES));
}

// The inner loops are functions of their own, so that they are compiled after few segments.
function takePlane(source: Uint8Array, plane: number, width: number, output: Uint8Array, offset: number): void {
  let to = offset;
  for (let from = plane; from < source.length; from += width) output[to++] = source[from]!;
}

function putPlane(input: Uint8Array, offset: number, bytes: Uint8Array, plane: number, width: number): void {
  let from = offset;
  for (let to = plane; to < bytes.length; to += width) bytes[to] = input[from++]!;
}

function isConstant(bytes: Uint8Array, width: number): boolean {
  for (let i = width; i < bytes.length; i++) if (bytes[i] !== bytes[i - width]) return false;
  return true;
}

function usedPlanes(bytes: Uint8Array, width: number): number {
  let mask = 0;
  for (let plane = 0; plane < width; plane++) {
    for (let i = plane; i < bytes.length; i += width) {
      if (bytes[i] === 0) continue;
      mask |= 1 << plane;
      break;
    }
  }
  return mask;
}

function planeCount(mask: number): number {
  let count = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) count++;
  return count;
}
