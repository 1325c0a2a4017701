/**
 * Loops over columns in C++ (native/columns): V8 takes several times as long, and its optimizing compiler takes effect
 * only after seconds. Wrong arguments throw; damaged bytes are reported by the return value.
 */
import { createRequire } from 'node:module';
import type { ColumnArray } from './block.ts';

export interface NativeColumns {
  /**
   * Sets `columns[f][i]` to the field at `fieldOffsets[f]` of the record at `offsets[i]`, for the first `count`
   * records. A field that is wider than its column loses its high bytes.
   */
  gatherFields(
    records: Uint8Array,
    offsets: Uint32Array,
    count: number,
    fieldOffsets: Uint32Array,
    columns: readonly ColumnArray[],
  ): void;
  /**
   * Copies `source[from, to)` to `target[at ...]`. Both arrays have the same type; one of them may be memory that
   * threads share.
   */
  copyValues(source: ColumnArray, from: number, to: number, target: ColumnArray, at: number): void;
  /**
   * Writes `values` (at least one) to `output` at `offset`; returns the offset of their end. `delta` is only for values
   * of 8 bytes.
   */
  encodeColumn(values: ColumnArray, delta: boolean, output: Uint8Array, offset: number): number;
  /** Fills `values`; returns whether the bytes encode exactly as many values as the array has. */
  decodeColumn(encoded: Uint8Array, values: ColumnArray): boolean;
  /**
   * Sets `target[targets[i]]` to the value of row `rows[i]`, and returns true. Returns false if the encoding makes
   * values depend on earlier values, and undefined if the bytes do not encode `count` values.
   */
  pickValues(
    encoded: Uint8Array,
    count: number,
    rows: Uint32Array,
    target: ColumnArray,
    targets: Uint32Array,
  ): boolean | undefined;
  /**
   * Among the first `count` rows, keeps the rows whose value is in [min, max]. Moves these rows to the front and
   * returns their number. Values are compared as unsigned.
   */
  keepRowsWithin(values: ColumnArray, min: bigint, max: bigint, rows: Uint32Array, count: number): number;
  /** Does the same as `keepRowsWithin` for rows whose value is one of `sorted`. */
  keepSortedRows(values: ColumnArray, sorted: Uint32Array, rows: Uint32Array, count: number): number;
  /** Sets `marks[i]` (`marks[rows[i]]` if `rows` is given) to 1 for each value that is one of `sorted`. */
  markSortedRows(values: ColumnArray, sorted: Uint32Array, rows: Uint32Array | undefined, marks: Uint8Array): void;
  /**
   * Adds the number of rows of each type to `counts`, which has 256 values; sets `places[row]` to the number of earlier
   * rows that have the same type.
   */
  placeRows(types: Uint8Array, counts: Uint32Array, places: Uint32Array | undefined): void;
  /** Fills `rows` with the first rows of the given type; returns the total number of rows of that type. */
  rowsOfType(types: Uint8Array, type: number, rows: Uint32Array): number;
  /** Sorts `rows` by (time, row), and sets `sorted` to the times of the sorted rows. */
  sortRows(times: BigUint64Array, rows: Uint32Array, descending: boolean, sorted: BigUint64Array): void;
  /** Sets `target[to[i]]` to `source[from[i]]`. */
  scatterValues(source: ColumnArray, from: Uint32Array, target: ColumnArray, to: Uint32Array): void;
  /** Writes a zstd frame to `output` at `offset`; returns its size in bytes, or 0 if there is no room for it. */
  compressFrame(input: Uint8Array, output: Uint8Array, offset: number): number;
  /** Fills `output`; returns whether the input is one frame that contains exactly as many bytes as `output` has. */
  decompressFrame(input: Uint8Array, output: Uint8Array): boolean;
}

export const nativeColumns: NativeColumns = createRequire(import.meta.url)('#columns');
