/**
 * Transactions in memory, as columns sorted by key, by which lists of them are filtered and sorted. A row takes some 50
 * bytes, so that a recording with a million transactions is searched without reading it.
 */
import { firstNotBelow } from '../../../daemon/base/binary_search.ts';

const ROWS_MIN = 1024;
/** Rows that are gone are skipped; once they exceed this share of the rows, they are removed. */
const GONE_SHARE_MAX = 1 / 3;

export interface TransactionRow {
  key: number;
  /** Hash of the transaction's id: the same in every recording. */
  hash: number;
  /** The first start of its own events; of all when it has none. */
  firstNs: bigint;
  /** The last end of its own events; 0n when it has none. */
  endNs: bigint;
  eventCount: number;
  hasError: boolean;
  /** Number of its set of services: the same for the same services. */
  serviceSet: number;
}

export interface TransactionColumns {
  readonly length: number;
  readonly keys: Uint32Array;
  readonly hashes: Float64Array;
  readonly firstNs: BigInt64Array;
  readonly endNs: BigInt64Array;
  readonly eventCounts: Float64Array;
  readonly hasError: Uint8Array;
  readonly serviceSets: Uint32Array;
  /** 1 when retention has removed the transaction. */
  readonly gone: Uint8Array;
}

export interface TransactionTable {
  readonly columns: TransactionColumns;
  /** Changes whenever a row does. */
  readonly version: number;
  /** Place of the key, or where it would be inserted. */
  placeOf(key: number): number;
  /** Replaces the row of this key, or adds it: at the end directly, elsewhere by moving the rows after it. */
  put(row: TransactionRow): void;
  /** Removes the rows from this place on. */
  truncate(length: number): void;
  setGone(place: number): void;
}

type Growing = { -readonly [Name in keyof TransactionColumns]: TransactionColumns[Name] };

export function createTransactionTable(): TransactionTable {
  let columns = newColumns(ROWS_MIN);
  let goneCount = 0;
  let version = 0;

  function reserve(length: number): void {
    if (length <= columns.keys.length) return;
    const larger = newColumns(Math.max(length, columns.keys.length * 2));
    copyRows(columns, larger);
    columns = larger;
  }

  function placeOf(key: number): number {
    const { keys, length } = columns;
    if (length === 0 || key > keys[length - 1]!) return length;
    return firstNotBelow(keys, key, 0, length);
  }

  function makeRoom(place: number): void {
    reserve(columns.length + 1);
    if (place < columns.length)
      for (const values of arraysOf(columns)) values.copyWithin(place + 1, place, columns.length);
    columns.length++;
  }

  function leaveOutGone(): void {
    let kept = 0;
    const arrays = arraysOf(columns);
    for (let row = 0; row < columns.length; row++) {
      if (columns.gone[row] === 1) continue;
      for (const values of arrays) values[kept] = values[row]!;
      kept++;
    }
    columns.length = kept;
    goneCount = 0;
  }

  return {
    get columns() {
      return columns;
    },
    get version() {
      return version;
    },
    placeOf,
    put(row) {
      version++;
      const place = placeOf(row.key);
      if (place === columns.length || columns.keys[place] !== row.key) makeRoom(place);
      else if (columns.gone[place] === 1) goneCount--;
      columns.keys[place] = row.key;
      columns.hashes[place] = row.hash;
      columns.firstNs[place] = row.firstNs;
      columns.endNs[place] = row.endNs;
      columns.eventCounts[place] = row.eventCount;
      columns.hasError[place] = row.hasError ? 1 : 0;
      columns.serviceSets[place] = row.serviceSet;
      columns.gone[place] = 0;
    },
    truncate(length) {
      for (let row = length; row < columns.length; row++) goneCount -= columns.gone[row]!;
      columns.length = length;
      version++;
      if (goneCount > columns.length * GONE_SHARE_MAX) leaveOutGone();
    },
    setGone(place) {
      if (columns.gone[place] === 1) return;
      columns.gone[place] = 1;
      goneCount++;
      version++;
    },
  };
}

function newColumns(rows: number): Growing {
  return {
    length: 0,
    keys: new Uint32Array(rows),
    hashes: new Float64Array(rows),
    firstNs: new BigInt64Array(rows),
    endNs: new BigInt64Array(rows),
    eventCounts: new Float64Array(rows),
    hasError: new Uint8Array(rows),
    serviceSets: new Uint32Array(rows),
    gone: new Uint8Array(rows),
  };
}

/** The arrays, typed as if they were of one kind: values only move within their own array. */
function arraysOf({ length: _, ...arrays }: TransactionColumns): Float64Array[] {
  return Object.values(arrays) as unknown as Float64Array[];
}

function copyRows(from: Growing, to: Growing): void {
  const targets = arraysOf(to);
  for (const [i, values] of arraysOf(from).entries()) targets[i]!.set(values);
  to.length = from.length;
}
