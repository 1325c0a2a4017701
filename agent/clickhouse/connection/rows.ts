/** Reads small answers as objects, for commands and checks. Large answers are read as columns instead. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { NativeBlock } from '../native/decode.ts';
import type { SimpleValues } from '../native/encode.ts';
import { NativeError } from '../native/errors.ts';
import { decodeText } from '../native/texts.ts';
import type { NativeType } from '../native/types.ts';
import type { Sql } from '../statements/sql.ts';
import type { Connection, SelectOptions } from './connection.ts';
import { ServerError } from './server_error.ts';

export type AnswerCell = bigint | string | readonly AnswerCell[];
export type AnswerRow = Readonly<Record<string, AnswerCell>>;

/** The form in which a column's cells are returned. `id` is a text of fixed length, as hexadecimal digits. */
type CellKind = 'number' | 'text' | 'id' | 'numbers' | 'texts';
/** The columns that a statement selects. A server's answer may have more columns. */
export type Shape = Readonly<Record<string, CellKind>>;
interface Cells {
  number: bigint;
  text: string;
  id: string;
  numbers: readonly bigint[];
  texts: readonly string[];
}
export type RowOf<Own extends Shape> = { readonly [Name in keyof Own]: Cells[Own[Name]] };

export interface RowsOptions extends Omit<SelectOptions, 'whole'> {
  rowsMax?: number | undefined;
}

/** Maximum number of rows by default. Expected answers have fewer rows, and this many rows fit into memory. */
const ROWS_MAX = 150_000;
/** Limits for an answer with few rows if memory is scarce. */
export const FEW_ROWS = { rowsMax: 10_000, bytesMax: 2 * 1024 * 1024 } as const;
const ROWS_PER_TURN = 4096;

/** Returns the columns of the shape as rows. Throws a ServerError, also if the answer lacks one of these columns. */
export async function readTypedRows<const Own extends Shape>(
  connection: Connection,
  statement: Sql,
  shape: Own,
  options: RowsOptions = {},
): Promise<RowOf<Own>[]> {
  const found = await readRows(connection, statement, shape, options);
  return found as unknown as RowOf<Own>[];
}

/** Returns the only row. Throws a ServerError if there is not exactly one row. */
export async function readSingleRow<const Own extends Shape>(
  connection: Connection,
  statement: Sql,
  shape: Own,
  options: RowsOptions = {},
): Promise<RowOf<Own>> {
  return requireSingleRow(await readTypedRows(connection, statement, shape, options));
}

export function requireSingleRow<One>(rows: readonly One[]): One {
  if (rows.length === 1) return rows[0]!;
  throw createUnexpectedAnswerError(rows.length === 0 ? 'it has no row' : 'it has several rows');
}

/** Returns the rows with all columns of the answer. */
export function readAnyRows(connection: Connection, statement: Sql, options: RowsOptions = {}): Promise<AnswerRow[]> {
  return readRows(connection, statement, undefined, options);
}

export function createUnexpectedAnswerError(what: string): ServerError {
  return new ServerError('malformed', 'repeat', `an answer of the server is not what was asked for: ${what}`);
}

async function readRows(
  connection: Connection,
  statement: Sql,
  shape: Shape | undefined,
  { rowsMax = ROWS_MAX, ...options }: RowsOptions,
): Promise<AnswerRow[]> {
  let rowCount = 0;
  function check(block: NativeBlock): void {
    rowCount += block.rowCount;
    if (rowCount > rowsMax) throw new NativeError(`it has more than ${rowsMax} rows`, 'too_large');
    if (shape) refuseOthers(block.columns, shape);
  }
  // Row objects take several times as much memory as columns, so the size of the answer is limited before they are
  // created.
  const blocks: NativeBlock[] = [];
  for await (const block of connection.select(statement, { ...options, whole: true, check })) blocks.push(block);
  const rows: AnswerRow[] = [];
  for (const { rowCount: count, columns } of blocks) {
    const own = shape ? Object.keys(shape).map((name) => [name, columns.get(name)!] as const) : [...columns];
    for (let row = 0; row < count; row++) {
      rows.push(
        Object.fromEntries(own.map(([name, { type, values }]) => [name, decodeCell(type, values, row)] as const)),
      );
      if (rows.length % ROWS_PER_TURN === 0) await nextTurn();
    }
  }
  return rows;
}

function refuseOthers(columns: NativeBlock['columns'], shape: Shape): void {
  for (const [name, kind] of Object.entries(shape)) {
    const column = columns.get(name);
    if (!column) throw new NativeError(`it has no column ${name}`);
    if (toCellKind(column.type) !== kind) throw new NativeError(`the column ${name} is of another type`);
  }
}

function toCellKind(type: NativeType): CellKind | undefined {
  switch (type.kind) {
    case 'integer':
      return 'number';
    case 'text':
    case 'dictionary':
      return 'text';
    case 'fixed_text':
      return 'id';
    case 'list':
      return type.item.kind === 'integer' ? 'numbers' : type.item.kind === 'text' ? 'texts' : undefined;
  }
}

function decodeCell(
  type: NativeType,
  values: SimpleValues | { ends: Uint32Array; items: SimpleValues },
  row: number,
): AnswerCell {
  if (type.kind !== 'list' || !('items' in values)) return decodeSimpleCell(type, values as SimpleValues, row);
  const { ends, items } = values;
  const from = ends[row - 1] ?? 0;
  return Array.from({ length: ends[row]! - from }, (_, i) => decodeSimpleCell(type.item, items, from + i));
}

function decodeSimpleCell(type: NativeType, values: SimpleValues, row: number): AnswerCell {
  if ('table' in values) return decodeText(values, row);
  if (type.kind !== 'fixed_text') return BigInt(values[row]!);
  return Buffer.from(values.buffer, values.byteOffset + row * type.bytes, type.bytes).toString('hex');
}
