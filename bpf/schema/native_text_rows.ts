/** Rows of columns as text, written in C++ (native/columns/text_rows.h); V8 takes several times as long. */
import { createRequire } from 'node:module';
import type { ColumnArray } from './block.ts';

/** The numbers are those of `Op` in native/columns/text_rows.h, which says what each does. */
export const ROW_OPS = { literal: 0, number: 1, hex: 2, text: 3, negative_text: 4, list: 5 } as const;

export interface RowPart {
  op: (typeof ROW_OPS)[keyof typeof ROW_OPS];
  before: Uint8Array;
  /** Written after the elements of a list. */
  after: Uint8Array;
  /** Written instead of the part if the value is `unknown`, or a list is empty. */
  none: Uint8Array;
  columns: Uint32Array;
  table: number;
  unknown: bigint | undefined;
}

declare const LAYOUT: unique symbol;
declare const TEXTS: unique symbol;
/** A layout and the texts kept for one dictionary: memory of the addon. */
export interface NativeLayout {
  readonly [LAYOUT]: never;
}
export interface NativeTexts {
  readonly [TEXTS]: never;
}

/** Results of `writeTextRows`. */
export const WRITTEN = { done: 0, full: 1, missing_text: 2 } as const;
/** Indexes of the state of `writeTextRows`: the next row and the offset after the rows before it. */
export const STATE = { row: 0, offset: 1, table: 2, length: 3 } as const;
export const KEY_BYTES = 16;

interface NativeTextRows {
  /** `own` has the parts of each event type by its id. */
  createRowLayout(
    columns: number,
    typeColumn: number,
    common: readonly RowPart[],
    own: readonly (readonly RowPart[] | undefined)[],
  ): NativeLayout;
  createRowTexts(): NativeTexts;
  addRowText(texts: NativeTexts, table: number, key: Uint8Array, text: Uint8Array): void;
  /**
   * Writes rows up to `to` to `output`, beginning with the row and the offset in `state`, which it updates. If a text
   * is missing, sets the table in `state`, and `key`. Fills `ends` with the offset of the end of each row.
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
