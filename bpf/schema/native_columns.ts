/**
 * Loops over columns in C++ (native/columns): V8 takes several times as long, and its compiler has its turn only after
 * seconds. Wrong arguments throw; damaged bytes are an answer.
 */
import { createRequire } from 'node:module';
import type { ColumnArray } from './block.ts';

export interface NativeColumns {
  /**
   * `columns[f][i]` = the field at `fieldOffsets[f]` of the record at `offsets[i]`, for the first `count` records; a wider
   * field loses its high bytes.
   */
  gatherFields(
    records: Uint8Array,
    offsets: Uint32Array,
    count: number,
    fieldOffsets: Uint32Array,
    columns: readonly ColumnArray[],
  ): void;
  /** `target[at ...] = source[from, to)` of arrays of one kind; one may be memory that threads share. */
  copyValues(source: ColumnArray, from: number, to: number, target: ColumnArray, at: number): void;
  /** Writes `values` (at least one) to `output` at `offset`; returns the offset behind it. `delta`: for 8 bytes only. */
  encodeColumn(values: ColumnArray, delta: boolean, output: Uint8Array, offset: number): number;
  /** Fills `values`; false unless the bytes are those of so many. */
  decodeColumn(encoded: Uint8Array, values: ColumnArray): boolean;
  /** See agent/recording/codec/column_bytes.ts; undefined when the bytes are not those of `count` values. */
  pickValues(
    encoded: Uint8Array,
    count: number,
    rows: Uint32Array,
    target: ColumnArray,
    targets: Uint32Array,
  ): boolean | undefined;
  /** Writes a zstd frame to `output` at `offset`; returns its bytes, 0 when there is no room for it. */
  compressFrame(input: Uint8Array, output: Uint8Array, offset: number): number;
  /** Fills `output`; false unless the input is one frame of so many bytes. */
  decompressFrame(input: Uint8Array, output: Uint8Array): boolean;
}

export const nativeColumns: NativeColumns = createRequire(import.meta.url)('#columns');
