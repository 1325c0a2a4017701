/**
 * The interface to SQLite virtual tables that are written in C++ (native/tables). Rows arrive in batches of columns,
 * and conditions of the query are passed to the source of the rows.
 */
import { createRequire } from 'node:module';
import type Database from 'better-sqlite3';
import type { ColumnArray } from '../../../bpf/schema/block.ts';

export interface VirtualColumn {
  name: string;
  /**
   * Whether the column is a parameter: a hidden column that accepts only `=` and is also set by the arguments of the
   * table's function form. Parameters come after all other columns.
   */
  isParameter: boolean;
  /** Letters of the operators whose conditions may be passed to the source (see `Operator`). */
  operators: string;
}

export interface TableDefinition {
  name: string;
  columns: readonly VirtualColumn[];
  /** Index of the column by which the table can sort its rows; -1 if there is none. */
  orderColumn: number;
}

/** An operator of a condition: `g` is >=, `l` is <=, and `i` is IN. */
export type Operator = '=' | '>' | 'g' | '<' | 'l' | 'i';

/** A value of SQLite; undefined for a blob. */
export type Operand = bigint | number | string | null | undefined;

/** A condition of a query: column, operator and operand. The operand of `i` is a list. */
export type ColumnCondition = [column: number, operator: Operator, operand: Operand | Operand[]];

export interface ValuesPart {
  values: ColumnArray;
  /** Value that stands for NULL. */
  unknown?: bigint | undefined;
}

/**
 * The values of a column. `own` contains one part for each event type, indexed by the type's id, with one value for
 * each row of this type. If a type has no part, its values are NULL.
 */
type Parts = ValuesPart | { own: (ValuesPart | undefined)[] };

export type BatchColumn =
  | ({ form: 'number' } & Parts)
  /** Keys that `makeText` converts to texts; it is called once for each key. */
  | ({ form: 'key' } & Parts)
  /** The same as `key`, but a key that is not negative is NULL. */
  | ({ form: 'negative_key' } & ValuesPart)
  /** Texts that consist of `text` and the number in 16 hexadecimal digits. */
  | ({ form: 'numbered'; text: string } & ValuesPart)
  | { form: 'constant'; text: string | null }
  | { form: 'made'; rows: (string | bigint | null)[] };

export interface RowBatch {
  rowCount: number;
  /** The columns that the query uses, in their order. */
  columns: BatchColumn[];
  types: ColumnArray;
  /** SQLite's row id of each row. */
  numbers: BigUint64Array;
}

export interface RowBatches {
  /** Returns the next batch, which may be empty; undefined after the last batch. */
  next(): RowBatch | undefined;
  close(): void;
}

/** The order in which rows must arrive. `none` means that the order does not matter, or that SQLite sorts the rows. */
export type RowOrder = 'asc' | 'desc' | 'none';

type Open = (table: number, order: RowOrder, used: number[], conditions: ColumnCondition[]) => RowBatches;
/** Returns the text for a key. `type` is 0 for a column that all event types have. A 64-bit key is a bigint. */
type MakeText = (table: number, column: number, type: number, key: number | bigint) => string | null;

interface NativeTables {
  /** Defines the tables of the next database that loads the extension. */
  defineTables(tables: readonly TableDefinition[], open: Open, makeText: MakeText): void;
  /** Returns the error that `open`, `next` or `makeText` has thrown since the last call; undefined if there is none. */
  takeFailure(): unknown;
}

const require = createRequire(import.meta.url);
const native: NativeTables = require('#tables');

/**
 * Defines virtual tables in a database. `open` may return rows that do not satisfy the conditions, because SQLite
 * checks all conditions again except those on parameters. If `open`, `next` or `makeText` throws an error, the query
 * fails, and `takeTableFailure` returns the error.
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

/** Returns the error that a table's function threw; returns `error` if no function threw one. */
export function takeTableFailure(error: unknown): unknown {
  return native.takeFailure() ?? error;
}
