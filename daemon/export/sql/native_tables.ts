/** Virtual tables of SQLite in C++ (native/tables): rows come in batches of columns, conditions go to their source. */
import { createRequire } from 'node:module';
import type Database from 'better-sqlite3';
import type { ColumnArray } from '../../../bpf/schema/block.ts';

export interface VirtualColumn {
  name: string;
  /**
   * Whether the column takes `=` only and is the next argument of the table as a function; parameters follow the other
   * columns.
   */
  isParameter: boolean;
  /** Letters of the operators that may become conditions. */
  operators: string;
}

export interface TableDefinition {
  name: string;
  columns: readonly VirtualColumn[];
  /** Index of the column by which the table can return rows in order; -1 without one. */
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
  /** Values that equal this one are NULL. */
  unknown?: bigint | undefined;
}

/** `own` has a part for each event type, by its id, with a value for each row of this type; NULL without a part. */
type Parts = ValuesPart | { own: (ValuesPart | undefined)[] };

export type BatchColumn =
  | ({ form: 'number' } & Parts)
  /** `makeText` gets each key once. */
  | ({ form: 'key' } & Parts)
  /** Like `key`, but NULL unless the key is negative. */
  | ({ form: 'negative_key' } & ValuesPart)
  /** `text`, then the number in 16 hexadecimal digits. */
  | ({ form: 'numbered'; text: string } & ValuesPart)
  | { form: 'constant'; text: string | null }
  | { form: 'made'; rows: (string | bigint | null)[] };

export interface RowBatch {
  rowCount: number;
  /** The columns that are used, in their order. */
  columns: BatchColumn[];
  /** The event type of each row. */
  types: ColumnArray;
  /** The id of each row, by which SQLite recognises it. */
  numbers: BigUint64Array;
}

/** The rows of a query. */
export interface RowBatches {
  /** Returns undefined after the last batch. Any batch may be empty. */
  next(): RowBatch | undefined;
  close(): void;
}

/** `none`: the query cannot see the order of the rows, or sorts them. */
export type RowOrder = 'asc' | 'desc' | 'none';

type Open = (table: number, order: RowOrder, used: number[], conditions: ColumnCondition[]) => RowBatches;
/** `type` is 0 for a column that all event types have; a key of 64 bits is a bigint. */
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
 * SQLite checks the conditions again, except those on parameters, so a source may return rows that they exclude. An
 * error that the functions throw ends the query; `takeTableFailure` returns it.
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

/** Returns the error that a table's functions have thrown, if the query failed because of it, else `error`. */
export function takeTableFailure(error: unknown): unknown {
  return native.takeFailure() ?? error;
}
