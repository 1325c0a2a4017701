/**
 * Virtual tables of SQLite in C++ (native/tables): rows arrive in batches of columns, and conditions are passed to the
 * source of the rows.
 */
import { createRequire } from 'node:module';
import type Database from 'better-sqlite3';
import type { ColumnArray } from '../../../bpf/schema/block.ts';

export interface VirtualColumn {
  name: string;
  /**
   * Whether the column is a parameter: it accepts only `=`, and its value can be given as the next argument when the
   * table is called as a function. Parameters follow the other columns.
   */
  isParameter: boolean;
  /** Letters of the operators that may be passed on as conditions. */
  operators: string;
}

export interface TableDefinition {
  name: string;
  columns: readonly VirtualColumn[];
  /** Index of the column by which the table can return its rows in order; -1 if there is no such column. */
  orderColumn: number;
}

/** `g` is >=, `l` is <=, and `i` is IN. */
export type Operator = '=' | '>' | 'g' | '<' | 'l' | 'i';

/** A value of SQLite; undefined for a blob. */
export type Operand = bigint | number | string | null | undefined;

/** A condition of a query; the operand of `i` is a list. */
export type ColumnCondition = [column: number, operator: Operator, operand: Operand | Operand[]];

export interface ValuesPart {
  values: ColumnArray;
  /** Values that equal `unknown` are NULL. */
  unknown?: bigint | undefined;
}

/**
 * `own` contains one part for each event type, indexed by the type's id, with a value for each row of that type. Values
 * of a type without a part are NULL.
 */
type Parts = ValuesPart | { own: (ValuesPart | undefined)[] };

export type BatchColumn =
  | ({ form: 'number' } & Parts)
  /** `makeText` is called once for each key. */
  | ({ form: 'key' } & Parts)
  /** The same as `key`, but NULL unless the key is negative. */
  | ({ form: 'negative_key' } & ValuesPart)
  /** The `text`, followed by the number in 16 hexadecimal digits. */
  | ({ form: 'numbered'; text: string } & ValuesPart)
  | { form: 'constant'; text: string | null }
  | { form: 'made'; rows: (string | bigint | null)[] };

export interface RowBatch {
  rowCount: number;
  /** The columns that the query uses, in their order. */
  columns: BatchColumn[];
  /** The event type of each row. */
  types: ColumnArray;
  /** Id of each row, by which SQLite recognises the row. */
  numbers: BigUint64Array;
}

/** The rows of a query. */
export interface RowBatches {
  /** Returns undefined after the last batch. Any batch may be empty. */
  next(): RowBatch | undefined;
  close(): void;
}

/** `none` means that the order of the rows is invisible to the query, or that SQLite sorts the rows. */
export type RowOrder = 'asc' | 'desc' | 'none';

type Open = (table: number, order: RowOrder, used: number[], conditions: ColumnCondition[]) => RowBatches;
/** `type` is 0 for a column that all event types have; a key is a bigint if it has 64 bits. */
type MakeText = (table: number, column: number, type: number, key: number | bigint) => string | null;

interface NativeTables {
  /** Defines the tables of the next database that loads the extension. */
  defineTables(tables: readonly TableDefinition[], open: Open, makeText: MakeText): void;
  /** Returns the error that `open`, `next` or `makeText` has thrown since the last call. */
  takeFailure(): unknown;
}

const require = createRequire(import.meta.url);
const native: NativeTables = require('#tables');

/**
 * SQLite checks the conditions again, except those on parameters, so a source may return rows that do not satisfy them.
 * If one of the functions throws an error, the query ends and `takeTableFailure` returns the error.
 */
export function defineNativeTables(
  database: Database.Database,
  tables: readonly TableDefinition[],
  open: Open,
  makeText: MakeText,
): void {
  native.defineTables(tables, open, makeText);
  database.loadExtension(require.resolve('#tables'));
}

/** Returns the error that a table's functions have thrown, if it made the query fail; otherwise returns `error`. */
export function takeTableFailure(error: unknown): unknown {
  return native.takeFailure() ?? error;
}
