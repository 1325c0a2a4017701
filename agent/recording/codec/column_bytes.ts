/**
 * Encodes and decodes columns, and compresses the encoded bytes to zstd frames; native/columns/columns.h documents the
 * format. Node's own zstd is not used because it allocates a context of a megabyte for every call.
 */
import type { ColumnArray } from '../../../bpf/schema/block.ts';
import type { Encoding, Storage } from '../../../bpf/schema/kinds.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { createCorruptError } from '../format/errors.ts';

const CONSTANT = 0x10;
const WIDTH_MASK = 0x0f;
const HEAD_BYTES = 2;
const BASE_BYTES = 8;

export const STORAGE_WIDTH: Record<Storage, number> = { u8: 1, u16: 2, u32: 4, i32: 4, u64: 8, i64: 8 };

/** Returns the maximum number of bytes that `encodeColumn` writes; its `output` must have that much room. */
export function computeEncodedBytesMax(rows: number, width: number): number {
  return HEAD_BYTES + BASE_BYTES + rows * width;
}

/** Writes `values` (at least one) to `output` at `offset`; returns the offset after the written bytes. */
export function encodeColumn(values: ColumnArray, encoding: Encoding, output: Uint8Array, offset: number): number {
  const delta = encoding === 'delta' && values.BYTES_PER_ELEMENT === 8;
  return nativeColumns.encodeColumn(values, delta, output, offset);
}

/** Returns whether the column encoded at `offset` is constant, and all bytes of its value equal `byte`. */
export function repeatsByte(encoded: Uint8Array, offset: number, byte: number): boolean {
  const form = encoded[offset]!;
  if ((form & CONSTANT) === 0) return false;
  const end = offset + 1 + (form & WIDTH_MASK);
  for (let i = offset + 1; i < end; i++) if (encoded[i] !== byte) return false;
  return true;
}

/** Fills `values` from `encoded`, which must be exactly the bytes that `encodeColumn` wrote for that many values. */
export function decodeColumn(encoded: Uint8Array, values: ColumnArray): void {
  if (!nativeColumns.decodeColumn(encoded, values)) throw createCorruptError('a column has a wrong form or size');
}

/**
 * Sets `target[targets[i]]` to the value of row `rows[i]` in an encoded column of `count` rows. Returns false if the
 * column is delta-encoded, so that a value depends on the values before it.
 */
export function pickValues(
  encoded: Uint8Array,
  count: number,
  rows: Uint32Array,
  target: ColumnArray,
  targets: Uint32Array,
): boolean {
  const picked = nativeColumns.pickValues(encoded, count, rows, target, targets);
  if (picked === undefined) throw createCorruptError('a column has a wrong form or size');
  return picked;
}

/** Compresses data to a frame in `output` at `offset`; returns the frame's size, or 0 if the frame does not fit. */
export const compressFrame = nativeColumns.compressFrame;

export function decompressFrame(frame: Uint8Array, output: Uint8Array): void {
  if (!nativeColumns.decompressFrame(frame, output))
    throw createCorruptError('a group of columns cannot be decompressed');
}
