/**
 * Keeps a table of a recording's transactions up to date, a little at each step. The whole file is read once; after
 * that, only what later events can have changed. An event refers to none but the latest `IDS_IN_USE_MAX` contexts, so
 *
 *   contexts   0 ........ changedFrom ........ context_from of the first new segment ........ newest
 *              | only those whose newer        | read again
 *              | contexts say that they go on  |
 */
import type Database from 'better-sqlite3';
import { corrupt } from '../format/errors.ts';
import { IDS_IN_USE_MAX } from '../format/ids.ts';
import { END_NUMBER, unpackIds } from '../format/schema.ts';
import { textHash53 } from '../format/text_hash.ts';
import type { Lookup } from './lookup.ts';
import { createTransactionTable, type TransactionColumns } from './transaction_table.ts';

/** Number of rows read in a step, which takes some milliseconds. */
const ROWS_A_STEP = 2048;

/** Services are read as hex: making a buffer of each blob would take longer than everything else. */
const COLUMNS = `
  transaction_key, transaction_id, first_timestamp_ns, last_end_ns, event_count, error_count > 0, hex(services)`;

const ROWS = `
SELECT ${COLUMNS}
FROM transaction_summary
WHERE transaction_key > ?
ORDER BY transaction_key
LIMIT ${ROWS_A_STEP}`;

/** Older transactions that continue under a newer context. */
const CONTINUED = `
SELECT ${COLUMNS}
FROM transaction_summary
WHERE transaction_key IN (
  SELECT transaction_key FROM context WHERE context_id >= :changedFrom AND transaction_key BETWEEN 1 AND :changedFrom - 1
)`;

const CONTEXT_FROM = `
SELECT context_from FROM segment WHERE first_number <= ? ORDER BY first_number DESC LIMIT 1`;

/** Retention removes summaries from this end. */
const OLDEST_KEYS = `
SELECT transaction_key FROM transaction_summary ORDER BY transaction_key LIMIT ${ROWS_A_STEP}`;

/** The largest context id. */
const KEY_MAX = 2n ** 32n - 1n;

type Row = [bigint, string, bigint, bigint, bigint, bigint, string];

/** The key after which rows are still to be read, and the number up to which events were there when reading began. */
interface Reading {
  after: number;
  end: number;
}

export interface TransactionIndex {
  columns(): TransactionColumns;
  /** Stays the same as long as the columns do. */
  version(): number;
  /** The services of each set, by its number. */
  serviceSets(): readonly (readonly string[])[];
  /**
   * Continues to read; returns false while there is more to read before the columns are as the file was at the first
   * step.
   */
  step(): boolean;
  /** Marks a row whose transaction is gone from the file. */
  setGone(place: number): void;
}

export interface IndexedRecording {
  database: Database.Database;
  lookup: Pick<Lookup, 'name'>;
  inTransaction<T>(work: () => T): T;
}

export function openTransactionIndex({ database, lookup, inTransaction }: IndexedRecording): TransactionIndex {
  const rows = database.prepare<[number], Row>(ROWS).raw().safeIntegers();
  const continued = database.prepare<[object], Row>(CONTINUED).raw().safeIntegers();
  const contextFrom = database.prepare<[number], number>(CONTEXT_FROM).pluck();
  const oldestKeys = database.prepare<[], number>(OLDEST_KEYS).pluck();
  const endNumber = database.prepare<[], number>(END_NUMBER).pluck();
  const dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck();

  const table = createTransactionTable();
  const serviceSets: string[][] = [];
  const setNumbers = new Map<string, number>();
  let seenVersion: number | undefined;
  /** Events below this number are in the table. */
  let seenEnd = 0;
  /** The reading that is not finished. */
  let reading: Reading | undefined;

  /** All transactions share a few sets of services. */
  function serviceSetOf(ids: string): number {
    let number = setNumbers.get(ids);
    if (number === undefined) {
      // A service may have got a new id because of its age; its old one may be gone.
      const names = Array.from(unpackIds(Buffer.from(ids, 'hex')), lookup.name).filter((name) => name !== '');
      number = serviceSets.push([...new Set(names)].sort()) - 1;
      setNumbers.set(ids, number);
    }
    return number;
  }

  function put(row: Row): void {
    if (!isSound(row)) throw corrupt('a summary of a transaction cannot be read');
    const [key, transactionId, first, end, events, hasError, services] = row;
    table.put({
      key: Number(key),
      hash: textHash53(transactionId),
      firstNs: first,
      endNs: end,
      eventCount: Number(events),
      hasError: hasError === 1n,
      serviceSet: serviceSetOf(services),
    });
  }

  function begin(): Reading {
    const changedFrom = seenEnd === 0 ? 0 : Math.max(0, (contextFrom.get(seenEnd) ?? 0) - IDS_IN_USE_MAX);
    table.truncate(table.placeOf(changedFrom));
    leaveOutRemoved();
    for (const row of changedFrom > 1 ? continued.iterate({ changedFrom }) : []) put(row);
    return { after: changedFrom - 1, end: endNumber.get() ?? 0 };
  }

  function leaveOutRemoved(): void {
    const kept = oldestKeys.all();
    const { keys, length } = table.columns;
    const last = kept.length < ROWS_A_STEP ? Number.POSITIVE_INFINITY : kept.at(-1)!;
    for (let place = 0, next = 0; place < length && keys[place]! <= last; place++) {
      while (next < kept.length && kept[next]! < keys[place]!) next++;
      if (kept[next] !== keys[place]) table.setGone(place);
    }
  }

  function step(): boolean {
    if (!reading) {
      const current = dataVersion.get()!;
      if (current === seenVersion) return true;
      reading = begin();
      seenVersion = current;
    }
    const found = rows.all(reading.after);
    for (const row of found) put(row);
    if (found.length === ROWS_A_STEP) {
      const last = Number(found.at(-1)![0]);
      // A damaged file might make this go on forever.
      if (last <= reading.after) throw corrupt('its list of transactions is not in order');
      reading.after = last;
      return false;
    }
    seenEnd = reading.end;
    reading = undefined;
    return true;
  }

  return {
    columns: () => table.columns,
    version: () => table.version,
    serviceSets: () => serviceSets,
    setGone: table.setGone,
    step: () => inTransaction(step),
  };
}

/** A damaged page may contain values of any type, whatever the table declares. */
function isSound([key, transactionId, first, end, events, hasError]: Row): boolean {
  return (
    [key, first, end, events, hasError].every((value) => typeof value === 'bigint' && value >= 0n) &&
    key <= KEY_MAX &&
    typeof transactionId === 'string'
  );
}
