/** Columns of ClickHouse as plain values, for tests: arbitrary ones, and both ways between values and arrays. */
import fc from 'fast-check';
import type { DecodedColumn } from '../../agent/clickhouse/native/decode.ts';
import type { Column, ColumnValues, SimpleValues } from '../../agent/clickhouse/native/encode.ts';
import { createTextTable, decodeText, type Texts } from '../../agent/clickhouse/native/texts.ts';
import { INTEGERS, type NativeType, parseType } from '../../agent/clickhouse/native/types.ts';

export type Value = bigint | string | Value[];

export const TYPE_NAMES = [
  ...Object.keys(INTEGERS),
  'String',
  'FixedString(8)',
  'FixedString(16)',
  'LowCardinality(String)',
  'Array(String)',
  'Array(UInt64)',
  'Array(FixedString(16))',
];

/** Texts of FixedString are in hex, as they are bytes. */
export function anyValue(type: NativeType): fc.Arbitrary<Value> {
  switch (type.kind) {
    case 'integer': {
      const [min, max] = limitsOf(type.integer);
      return fc.oneof(fc.constantFrom(min, max, 0n), fc.bigInt({ min, max }));
    }
    case 'text':
    case 'dictionary':
      return fc.oneof(fc.constantFrom('', ...HOSTILE), fc.string({ unit: 'binary', maxLength: 300 }));
    case 'fixed_text': {
      const size = type.bytes;
      return fc.uint8Array({ minLength: size, maxLength: size }).map((bytes) => Buffer.from(bytes).toString('hex'));
    }
    case 'list':
      return fc.array(anyValue(type.item), { maxLength: 5 });
  }
}

/** Texts that would end a literal, a statement, a line or a text of C. */
export const HOSTILE = [
  "') OR 1=1 --",
  "'; DROP TABLE event; --",
  '\\',
  "\\'",
  "''",
  '"`$x`',
  '\0',
  'a\0b',
  '\n\r\t\b',
  'ü€𝄞\u{10ffff}',
  '{x:String}',
  '%s%n',
  '18446744073709551615',
  'NULL',
  '\\N',
  'x'.repeat(1024),
];

function limitsOf(name: keyof typeof INTEGERS): [bigint, bigint] {
  const bits = BigInt(INTEGERS[name].BYTES_PER_ELEMENT * 8);
  return name.startsWith('Int') ? [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n] : [0n, 2n ** bits - 1n];
}

export function columnOf(name: string, typeName: string, values: readonly Value[]): Column {
  const type = parseType(typeName);
  return { name, type, values: arraysOf(type, values) };
}

function arraysOf(type: NativeType, values: readonly Value[]): ColumnValues {
  if (type.kind !== 'list') return simpleArraysOf(type, values);
  const lists = values as Value[][];
  let end = 0;
  const ends = Uint32Array.from(lists, ({ length }) => {
    end += length;
    return end;
  });
  return { ends, items: simpleArraysOf(type.item, lists.flat()) };
}

function simpleArraysOf(type: Exclude<NativeType, { kind: 'list' }>, values: readonly Value[]): SimpleValues {
  if (type.kind === 'integer') {
    const array = new INTEGERS[type.integer](values.length);
    for (const [i, value] of values.entries())
      array[i] = array instanceof BigUint64Array || array instanceof BigInt64Array ? (value as bigint) : Number(value);
    return array;
  }
  if (type.kind === 'fixed_text') return Uint8Array.from(Buffer.from(values.join(''), 'hex'));
  return textsOf(values as string[]);
}

/** Every distinct text has one id; the table has others that no row uses. */
export function textsOf(values: readonly string[]): Texts {
  const distinct = [...new Set(values)];
  const table = createTextTable(['not used', ...distinct, 'nor this']);
  const idOf = new Map(distinct.map((text, i) => [text, i + 1]));
  return { table, ids: Uint32Array.from(values, (value) => idOf.get(value)!) };
}

export function valuesOf({ type, values }: DecodedColumn, rowCount: number): Value[] {
  if (type.kind !== 'list' || !('items' in values)) return simpleValuesOf(type, values as SimpleValues, rowCount);
  const items = simpleValuesOf(type.item, values.items, values.ends[rowCount - 1] ?? 0);
  return Array.from({ length: rowCount }, (_, row) => items.slice(values.ends[row - 1] ?? 0, values.ends[row]));
}

function simpleValuesOf(type: NativeType, values: SimpleValues, count: number): Value[] {
  if ('table' in values) return Array.from({ length: count }, (_, row) => decodeText(values, row));
  if (type.kind !== 'fixed_text') return [...values].slice(0, count).map(BigInt);
  const hex = Buffer.from(values as Uint8Array).toString('hex');
  return Array.from({ length: count }, (_, row) => hex.slice(2 * row * type.bytes, 2 * (row + 1) * type.bytes));
}
