/** Small answers as objects, for commands and checks; large ones are read as columns. */
import type { SimpleValues } from '../native/encode.ts';
import { textAt } from '../native/texts.ts';
import type { NativeType } from '../native/types.ts';
import type { Sql } from '../statements/sql.ts';
import type { CallOptions, Connection } from './connection.ts';

export type Cell = bigint | string | readonly Cell[];
export type Row = Readonly<Record<string, Cell>>;

/** Integers become bigints, texts of fixed length hexadecimal digits. Throws a ServerError. */
export async function rowsOf(connection: Connection, statement: Sql, options: CallOptions = {}): Promise<Row[]> {
  const rows: Row[] = [];
  for await (const { rowCount, columns } of connection.select(statement, { ...options, whole: true })) {
    for (let row = 0; row < rowCount; row++) {
      const cells = [...columns].map(([name, { type, values }]) => [name, cellAt(type, values, row)] as const);
      rows.push(Object.fromEntries(cells));
    }
  }
  return rows;
}

function cellAt(
  type: NativeType,
  values: SimpleValues | { ends: Uint32Array; items: SimpleValues },
  row: number,
): Cell {
  if (type.kind !== 'list' || !('items' in values)) return simpleCellAt(type, values as SimpleValues, row);
  const { ends, items } = values;
  const from = ends[row - 1] ?? 0;
  return Array.from({ length: ends[row]! - from }, (_, i) => simpleCellAt(type.item, items, from + i));
}

function simpleCellAt(type: NativeType, values: SimpleValues, row: number): Cell {
  if ('table' in values) return textAt(values, row);
  if (type.kind !== 'fixed_text') return BigInt(values[row]!);
  return Buffer.from(values.buffer, values.byteOffset + row * type.bytes, type.bytes).toString('hex');
}
