/** Writes rows of columns as text, in C++ (native/columns/text_rows.h); V8 takes several times as long. */
import { createRequire } from 'node:module';
import type { ColumnArray } from './block.ts';

/** The numbers are those of `Op` in native/columns/text_rows.h, where each operation is explained. */
export const ROW_OPS = { literal: 0, number: 1, hex: 2, text: 3, negative_text: 4, list: 5, time: 6 } as const;

export interface RowPart {
  op: (typeof ROW_OPS)[keyof typeof ROW_OPS];
  before: Uint8Array;
  /** Text that is written after a time, or after the elements of a list. */
  after: Uint8Array;
  /** Text that is written instead of the part if its value is `unknown` or its list is empty. */
  none: Uint8Array;
  columns: Uint32Array;
  table: number;
  unknown: bigint | undefined;
}

declare const LAYOUT: unique symbol;
declare const TEXTS: unique symbol;
/** Memory of the addon: a layout, and the texts that are kept for one dictionary. */
export interface NativeLayout {
  readonly [LAYOUT]: never;
}
export interface NativeTexts {
  readonly [TEXTS]: never;
}

/** Results of `writeTextRows`. */
export const WRITTEN = { done: 0, full: 1, missing_text: 2 } as const;
/** Indexes in the state of `writeTextRows`: `row` is the next row to write, and `offset` its offset in the output. */
export const STATE = { row: 0, offset: 1, table: 2, length: 3 } as const;
export const KEY_BYTES = 16;

interface NativeTextRows {
  /** Creates a layout; `own` contains the parts of each event type, indexed by the type's id. */
  createRowLayout(
    columns: number,
    typeColumn: number,
    common: readonly RowPart[],
    own: readonly (readonly RowPart[] | undefined)[],
  ): NativeLayout;
  createRowTexts(): NativeTexts;
  addRowText(texts: NativeTexts, table: number, key: Uint8Array, text: Uint8Array): void;
  /**
   * Writes the rows before `to` to `output`, beginning with the row and the offset in `state`, and updates `state`. If
   * a text is missing, sets `key` to its key and `state` to its table. Fills `ends` with the offset of the end of each
   * row.
   */
  writeTextRows(
    layout: NativeLayout,
    texts: NativeTexts,
    columns: readonly (ColumnArray | undefined)[],
    ownRows: Uint32Array,
    to: number,
    ending: Uint8Array,
    output: Uint8Array,
    state: Uint32Array,
    key: Uint8Array,
    ends: Uint32Array | undefined,
  ): (typeof WRITTEN)[keyof typeof WRITTEN];
}

export const nativeTextRows: NativeTextRows = createRequire(import.meta.url)('#columns');
