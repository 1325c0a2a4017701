/** Collects rows into columns, one row at a time, for tables with few rows. */
import { growArray } from '../../../daemon/base/growing_array.ts';
import type { Column as SentColumn, SimpleValues } from '../../clickhouse/native/encode.ts';
import { createTextTable, type GrowingTable } from '../../clickhouse/native/texts.ts';
import { INTEGERS, type IntegerArray, type NativeType } from '../../clickhouse/native/types.ts';
import type { TableColumn } from '../../clickhouse/tables/schema.ts';

type Item = bigint | number | string | Uint8Array;
export type SentCell = Item | readonly Item[];

export interface TableRows {
  readonly length: number;
  /** Adds a row. `cells` are in the order of the columns. */
  add(cells: readonly SentCell[]): void;
  /** Returns the columns and empties the table. The columns are valid until the next row is added. */
  take(): SentColumn[];
}

interface ValueCollector<Value> {
  add(value: Value): void;
  clear(): void;
  values(): SentColumn['values'];
}

/** Selects the columns that are sent; columns that the server computes are left out. */
export function selectSentColumns(columns: readonly TableColumn[]): readonly TableColumn[] {
  return columns.filter(({ computed }) => computed === undefined);
}

export function createTableRows(columns: readonly TableColumn[]): TableRows {
  const sent = selectSentColumns(columns).map(({ name, type }) => ({ name, type, collected: createValues(type) }));
  let length = 0;
  return {
    get length() {
      return length;
    },
    add(cells) {
      if (length === 0) for (const { collected } of sent) collected.clear();
      for (let i = 0; i < sent.length; i++) sent[i]!.collected.add(cells[i]!);
      length++;
    },
    take() {
      length = 0;
      return sent.map(({ name, type, collected }) => ({ name, type, values: collected.values() }));
    },
  };
}

function createValues(type: NativeType): ValueCollector<SentCell> {
  return (
    type.kind === 'list' ? createListValues(createItemValues(type.item)) : createItemValues(type)
  ) as ValueCollector<SentCell>;
}

function createItemValues(type: Exclude<NativeType, { kind: 'list' }>): ValueCollector<Item> {
  if (type.kind !== 'integer') return createTextValues(type.kind === 'dictionary') as ValueCollector<Item>;
  return createNumberValues(INTEGERS[type.integer]);
}

function createNumberValues(arrayOf: (typeof INTEGERS)[keyof typeof INTEGERS]): ValueCollector<Item> {
  let [values, length] = [new arrayOf(64) as IntegerArray, 0];
  return {
    add(value) {
      if (length === values.length) values = growArray(values);
      values[length++] = value as never;
    },
    clear() {
      length = 0;
    },
    values: () => values,
  };
}

/** Collects texts. With `isDictionary`, equal texts share an entry. */
function createTextValues(isDictionary: boolean): ValueCollector<string | Uint8Array> {
  const table: GrowingTable = createTextTable();
  const known = new Map<string | Uint8Array, number>();
  let [ids, length] = [new Uint32Array(64), 0];

  function internText(text: string | Uint8Array): number {
    if (!isDictionary) return table.add(text);
    const id = known.get(text) ?? table.add(text);
    known.set(text, id);
    return id;
  }

  return {
    add(text) {
      if (length === ids.length) ids = growArray(ids);
      ids[length++] = internText(text);
    },
    clear() {
      table.clear();
      known.clear();
      length = 0;
    },
    values: () => ({ table, ids }),
  };
}

function createListValues(items: ValueCollector<Item>): ValueCollector<readonly Item[]> {
  let [ends, length, end] = [new Uint32Array(64), 0, 0];
  return {
    add(list) {
      for (const item of list) items.add(item);
      if (length === ends.length) ends = growArray(ends);
      end += list.length;
      ends[length++] = end;
    },
    clear() {
      items.clear();
      [length, end] = [0, 0];
    },
    values: () => ({ ends, items: items.values() as SimpleValues }),
  };
}
