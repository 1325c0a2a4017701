/** Reads columns of a decoded answer: rows of a block from what the table has for them. */

import { ServerError } from '../../../agent/clickhouse/connection/server_error.ts';
import type { DecodedBlock, DecodedColumn } from '../../../agent/clickhouse/native/decode.ts';
import type { Lists, SimpleValues } from '../../../agent/clickhouse/native/encode.ts';
import { type Texts, textAt } from '../../../agent/clickhouse/native/texts.ts';
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

export function numbersOf(decoded: DecodedBlock, name: string): ColumnArray {
  const { type, values } = columnOf(decoded, name);
  if (type.kind !== 'integer') throw unexpected(`${name} is no number`);
  return values as ColumnArray;
}

export function textsOf(decoded: DecodedBlock, name: string): Texts {
  const { values } = columnOf(decoded, name);
  if (!('table' in values)) throw unexpected(`${name} is no text`);
  return values;
}

/** The bytes of a column of ids, one after another. */
export function bytesOf(decoded: DecodedBlock, name: string): Buffer {
  const { type, values } = columnOf(decoded, name);
  if (type.kind !== 'fixed_text') throw unexpected(`${name} is no id`);
  return bufferOf(values as SimpleValues);
}

export function bufferOf(values: SimpleValues): Buffer {
  const { buffer, byteOffset, byteLength } = values as Uint8Array<ArrayBuffer>;
  return Buffer.from(buffer, byteOffset, byteLength);
}

export function listsOf(decoded: DecodedBlock, name: string): Lists {
  const { values } = columnOf(decoded, name);
  if (!('items' in values)) throw unexpected(`${name} is no list`);
  return values;
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
