/** Reads columns of a decoded answer: rows of a block from what the table has for them. */

import { ServerError } from '../../../agent/clickhouse/connection/server_error.ts';
import type { DecodedBlock, DecodedColumn } from '../../../agent/clickhouse/native/decode.ts';
import type { Lists, SimpleValues } from '../../../agent/clickhouse/native/encode.ts';
import { type Texts, textAt } from '../../../agent/clickhouse/native/texts.ts';
import type { NativeType } from '../../../agent/clickhouse/native/types.ts';
import { wordsOf } from '../../../agent/recording/words64.ts';
import type { ColumnArray } from '../../../bpf/schema/block.ts';

function columnOf({ columns }: DecodedBlock, name: string): DecodedColumn {
  const found = columns.get(name);
  if (!found) throw unexpected(`it has no column ${name}`);
  return found;
}

export function unexpected(what: string): ServerError {
  return new ServerError('malformed', 'repeat', `an answer of the fleet's tables is not what was asked for: ${what}`);
}

export function numbersOf<Values extends ColumnArray>(
  decoded: DecodedBlock,
  name: string,
  array: new (length: number) => Values,
): Values {
  const { values } = columnOf(decoded, name);
  if (!(values instanceof array)) throw unexpected(`${name} is no number, or one of another width`);
  return values;
}

export function textsOf(decoded: DecodedBlock, name: string): Texts {
  const { values } = columnOf(decoded, name);
  if (!('table' in values)) throw unexpected(`${name} is no text`);
  return values;
}

/** The bytes of a column of ids of this length, one after another. */
export function bytesOf(decoded: DecodedBlock, name: string, length: number): Buffer {
  const { type, values } = columnOf(decoded, name);
  if (type.kind !== 'fixed_text' || type.bytes !== length) throw unexpected(`${name} is no id`);
  return bufferOf(values as SimpleValues);
}

function bufferOf(values: SimpleValues): Buffer {
  const { buffer, byteOffset, byteLength } = values as Uint8Array<ArrayBuffer>;
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Where the lists of the rows end, and their items. */
interface ListsOf<Items> {
  ends: Uint32Array;
  items: Items;
}

function listsOf(decoded: DecodedBlock, name: string, kind: NativeType['kind']): Lists {
  const { type, values } = columnOf(decoded, name);
  if (type.kind !== 'list' || type.item.kind !== kind || !('items' in values)) throw unexpected(`${name} is no list`);
  return values;
}

export function textListsOf(decoded: DecodedBlock, name: string): ListsOf<Texts> {
  return listsOf(decoded, name, 'text') as ListsOf<Texts>;
}

export function wideListsOf(decoded: DecodedBlock, name: string): ListsOf<BigUint64Array> {
  const { ends, items } = listsOf(decoded, name, 'integer');
  if (!(items instanceof BigUint64Array)) throw unexpected(`${name} has numbers of another width`);
  return { ends, items };
}

/** Lists of ids of this length, as `bytesOf`. */
export function idListsOf(decoded: DecodedBlock, name: string, length: number): ListsOf<Buffer> {
  const { type } = columnOf(decoded, name);
  const { ends, items } = listsOf(decoded, name, 'fixed_text');
  if (type.kind !== 'list' || type.item.kind !== 'fixed_text' || type.item.bytes !== length)
    throw unexpected(`${name} has no ids`);
  return { ends, items: bufferOf(items) };
}

/** Returns a function that gives the number of a row's text; each text of the table is asked for once. */
export function textNumbers(texts: Texts, numberOf: (text: string) => number): (row: number) => number {
  const { table, ids } = texts;
  if (!ids) return (row) => numberOf(textAt(texts, row));
  const known = new Float64Array(table.length).fill(-1);
  return (row) => {
    const id = ids[row]!;
    if (known[id]! < 0) known[id] = numberOf(textAt(texts, row));
    return known[id]!;
  };
}

/** The values of some rows; adjacent ones share the memory. */
export function valuesOf<Values extends ColumnArray>(values: Values, rows: Uint32Array): Values {
  const first = rows[0] ?? 0;
  if (isRun(rows)) return values.subarray(first, first + rows.length) as Values;
  const made = new (values.constructor as new (length: number) => Values)(rows.length);
  if (values.BYTES_PER_ELEMENT === 8) copyWords(values as BigUint64Array, made as BigUint64Array, rows);
  else for (let i = 0; i < rows.length; i++) made[i] = values[rows[i]!]!;
  return made;
}

function isRun(rows: Uint32Array): boolean {
  return rows.length === 0 || rows.at(-1)! - rows[0]! === rows.length - 1;
}

/** A bigint for each value would take ten times as long. */
function copyWords(from: BigUint64Array, to: BigUint64Array, rows: Uint32Array): void {
  const [read, written] = [wordsOf(from), wordsOf(to)];
  for (let i = 0; i < rows.length; i++) {
    written[i * 2] = read[rows[i]! * 2]!;
    written[i * 2 + 1] = read[rows[i]! * 2 + 1]!;
  }
}
