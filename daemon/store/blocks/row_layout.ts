/** Builds layouts of rows: which column or text each part of a row shows. */
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import type { Storage } from '../../../bpf/schema/kinds.ts';
import { ROW_OPS, type RowPart } from '../../../bpf/schema/native_text_rows.ts';
import { type Dictionary, RECORDING_COLUMN } from './scanned_block.ts';

/** Makes the text for the values of a key's columns; one of 64 bits is two words, the low one first. */
export type TextMaker = (dictionary: Dictionary, values: readonly number[]) => string;

interface TextTable {
  /** Storages of the columns that make up a key. */
  storages: readonly Storage[];
  make: TextMaker;
}

export interface RowLayout {
  /** Names of the columns, by their index in the parts. */
  columns: readonly string[];
  common: readonly RowPart[];
  /** Parts of each event type, by its id; they follow the common ones. */
  own: readonly (readonly RowPart[] | undefined)[];
  /** The parts' `table` is an index here. */
  tables: readonly TextTable[];
}

/** The column with the number of each row, which a block keeps beside its columns. */
export const NUMBER_COLUMN = 'number';

const STORAGES = new Map<string, Storage>([
  ...COLUMNS.map(({ name, storage }) => [name, storage] as const),
  [NUMBER_COLUMN, 'u64'],
  [RECORDING_COLUMN, 'u32'],
]);

interface Surrounding {
  before?: string;
  after?: string;
  none?: string;
}

export interface LayoutBuilder {
  literal(text: string): RowPart;
  /** A number in decimal; `none` where it is `unknown`. */
  number(column: string, surrounding: Surrounding, unknown?: bigint): RowPart;
  /** 16 digits. */
  hex(column: string): RowPart;
  /** The text for the values of some columns, which take at most 16 bytes together. */
  text(columns: readonly string[], make: TextMaker): RowPart;
  /** The text for a number, which is the same for all that are not negative. */
  negativeText(column: string, make: TextMaker): RowPart;
  /** Elements of three columns: what `make` returns for the first two, the third one's number, and `}`. */
  list(columns: readonly string[], surrounding: Surrounding, make: TextMaker): RowPart;
  layout(parts: Pick<RowLayout, 'common' | 'own'>): RowLayout;
}

export function layoutBuilder(): LayoutBuilder {
  const columns: string[] = [];
  const tables: TextTable[] = [];

  function indexOf(name: string): number {
    const known = columns.indexOf(name);
    return known === -1 ? columns.push(name) - 1 : known;
  }

  function part(
    op: keyof typeof ROW_OPS,
    names: readonly string[],
    { before = '', after = '', none = '' }: Surrounding = {},
    more: Partial<RowPart> = {},
  ): RowPart {
    return {
      op: ROW_OPS[op],
      before: Buffer.from(before),
      after: Buffer.from(after),
      none: Buffer.from(none),
      columns: Uint32Array.from(names, indexOf),
      table: 0,
      unknown: undefined,
      ...more,
    };
  }

  function table(names: readonly string[], make: TextMaker): Pick<RowPart, 'table'> {
    return { table: tables.push({ storages: names.map((name) => STORAGES.get(name)!), make }) - 1 };
  }

  return {
    literal: (text) => part('literal', [], { before: text }),
    number: (column, surrounding, unknown) => part('number', [column], surrounding, { unknown }),
    hex: (column) => part('hex', [column]),
    text: (names, make) => part('text', names, {}, table(names, make)),
    negativeText: (column, make) => part('negative_text', [column], {}, table([column], make)),
    list: (names, surrounding, make) => part('list', names, surrounding, table(names.slice(0, 2), make)),
    layout: (parts) => ({ ...parts, columns, tables }),
  };
}

/** Columns of the elements of a list of origins. */
export function originColumns(column: string, slots: number): string[] {
  return Array.from({ length: slots }, (_, slot) => `${column}_${slot}`).flatMap((slot) => [
    `${slot}_service`,
    `${slot}_context`,
    `${slot}_bytes`,
  ]);
}
