/** Reads the summaries of transactions, and which transactions are pinned. */
import type Database from 'better-sqlite3';
import { max, min } from '../../../daemon/base/bigints.ts';
import { findFirstNotBelow } from '../../../daemon/base/binary_search.ts';
import { createCorruptError } from '../format/errors.ts';
import { IDS_IN_USE_MAX } from '../format/ids.ts';
import { END_NUMBER, unpackIds } from '../format/schema.ts';
import { hashText53 } from '../format/text_hash.ts';
import type { Lookup } from './lookup.ts';
import { TEXT_MAX } from './sizes.ts';

const SUMMARY_COLUMNS = `
  transaction_key, transaction_id, trace_id, first_timestamp_ns, last_end_ns, event_count, error_count,
  slowest_duration_ns, slowest_number, services, written_back_count, written_back_bytes, written_back_end_ns`;

const SUMMARY = `SELECT ${SUMMARY_COLUMNS} FROM transaction_summary WHERE transaction_key = ?`;

const NEWEST = `
SELECT ${SUMMARY_COLUMNS}
FROM transaction_summary
WHERE transaction_key < :before
ORDER BY transaction_key DESC
LIMIT :limit`;

const PINS = 'SELECT transaction_id, from_ns, pinned_ns FROM pin ORDER BY pinned_ns, transaction_id';

export interface RecordingTransaction {
  /** Position in the order of first appearance. A request with this key as `beforeKey` continues the list. */
  key: number;
  transactionId: string;
  /** Trace id of the transaction's first context. */
  traceId: string | null;
  /** Start of the transaction's first own event, or of its first event if it has no own events. */
  firstTimestampNs: bigint;
  /** End of the transaction's last own event; equal to `firstTimestampNs` if it has no own events. */
  lastEndNs: bigint;
  writtenBack: WrittenBack;
  eventCount: number;
  errorCount: number;
  /** Duration of the transaction's longest own event, or of its longest write-back if it has no own events. */
  slowestDurationNs: bigint;
  slowestNumber: bigint;
  services: string[];
}

/** Requests that wrote back a transaction's data, and are not its own events. */
export interface WrittenBack {
  count: number;
  bytes: bigint;
  /** End of the last of these requests; 0n if there are none. */
  lastEndNs: bigint;
}

export interface RecordingTransactionsRequest {
  limit: number;
  /** Key of a transaction; only transactions that appeared before it are returned. */
  beforeKey?: number;
}

export interface TransactionReader {
  readTransaction(id: string): RecordingTransaction | undefined;
  /** Reads a transaction by the keys of its summaries. */
  readTransactionByKeys(keys: readonly number[]): RecordingTransaction | undefined;
  /** Returns transactions in the order of their first appearance, the newest first. */
  listTransactions(request: RecordingTransactionsRequest): RecordingTransaction[];
}

export interface RecordingPin {
  transactionId: string;
  /** Start of the period whose events are kept, in nanoseconds since the epoch. */
  fromNs: bigint;
  /** Time at which the transaction was first pinned. */
  pinnedNs: bigint;
}

export interface PinReader {
  /** Returns all pins, the oldest first. */
  pins(): RecordingPin[];
}

type SummaryRow = [
  bigint,
  string,
  string | null,
  ...[bigint, bigint, bigint, bigint, bigint, bigint],
  Buffer,
  ...[bigint, bigint, bigint],
];

export function openTransactions(database: Database.Database, lookup: Lookup): TransactionReader {
  const summary = database.prepare<[number], SummaryRow>(SUMMARY).raw().safeIntegers();
  const newest = database.prepare<[object], SummaryRow>(NEWEST).raw().safeIntegers();

  function parseSummary(row: SummaryRow): RecordingTransaction {
    const [key, transactionId, traceId, first, end, events, errors, slowest, slowestNumber, services, ...written] = row;
    const [writtenCount, writtenBytes, writtenEnd] = written;
    const numbers = [key, first, end, events, errors, slowest, slowestNumber, ...written];
    if (!numbers.every((value) => typeof value === 'bigint' && value >= 0n) || typeof transactionId !== 'string')
      throw createCorruptError('a summary of a transaction is malformed');
    if (services.length > TEXT_MAX) throw createCorruptError('a transaction has more services than any has');
    // A service may have several ids: it gets a new id when its old one is too old. Retention may have removed the old
    // id's name.
    const names = Array.from(unpackIds(services), lookup.name).filter((name) => name !== '');
    return {
      key: Number(key),
      transactionId,
      traceId,
      firstTimestampNs: first,
      lastEndNs: end > first ? end : first,
      writtenBack: { count: Number(writtenCount), bytes: writtenBytes, lastEndNs: writtenEnd },
      eventCount: Number(events),
      errorCount: Number(errors),
      slowestDurationNs: slowest,
      slowestNumber,
      services: [...new Set(names)].sort(),
    };
  }

  function readTransactionByKeys(keys: readonly number[]): RecordingTransaction | undefined {
    const rows = keys.map((key) => summary.get(key));
    const known = rows.filter((row) => row !== undefined).map(parseSummary);
    return known.length === 0 ? undefined : known.reduce(joinSummaries);
  }

  return {
    // A transaction has several keys if the writer had dropped it from its cache before its next event.
    readTransaction: (id) => readTransactionByKeys(lookup.findTransactionKeys(id)),
    readTransactionByKeys,
    listTransactions: ({ limit, beforeKey = Number.MAX_SAFE_INTEGER }) =>
      newest.all({ limit, before: beforeKey }).map(parseSummary),
  };
}

export function openPinReader(database: Database.Database): PinReader {
  const pins = database.prepare<[], [string, bigint, bigint]>(PINS).raw().safeIntegers();
  return {
    pins: () => pins.all().map(([transactionId, fromNs, pinnedNs]) => ({ transactionId, fromNs, pinnedNs })),
  };
}

/** Joins two summaries of one transaction; `a` is the earlier summary. */
export function joinSummaries(a: RecordingTransaction, b: RecordingTransaction): RecordingTransaction {
  const slower = chooseSlower(a, b);
  const firstTimestampNs = computeFirstStartNs([a, b]);
  return {
    ...a,
    firstTimestampNs,
    lastEndNs: computeLastEndNs([a, b], firstTimestampNs),
    writtenBack: joinWrittenBack([a, b]),
    eventCount: a.eventCount + b.eventCount,
    errorCount: a.errorCount + b.errorCount,
    slowestDurationNs: slower.slowestDurationNs,
    slowestNumber: slower.slowestNumber,
    services: [...new Set([...a.services, ...b.services])].sort(),
  };
}

type Ends = Pick<RecordingTransaction, 'lastEndNs' | 'writtenBack' | 'eventCount'>;

/** Returns whether the transaction has events that are not write-back. */
function hasOwn({ writtenBack, eventCount }: Pick<RecordingTransaction, 'writtenBack' | 'eventCount'>): boolean {
  return eventCount > writtenBack.count;
}

/** Returns the start of the first own event in any part, or of the first event if no part has own events. */
export function computeFirstStartNs(parts: readonly (Ends & Pick<RecordingTransaction, 'firstTimestampNs'>)[]): bigint {
  const own = parts.filter(hasOwn);
  const starts = (own.length > 0 ? own : parts).map(({ firstTimestampNs }) => firstTimestampNs);
  return starts.reduce(min);
}

/** Returns the end of the last own event in any part, but at least `firstNs`. */
export function computeLastEndNs(parts: readonly Ends[], firstNs: bigint): bigint {
  const ends = parts.filter(hasOwn).map(({ lastEndNs }) => lastEndNs);
  return ends.reduce(max, firstNs);
}

export function chooseSlower<T extends RecordingTransaction>(a: T, b: T): T {
  if (hasOwn(a) !== hasOwn(b)) return hasOwn(a) ? a : b;
  return b.slowestDurationNs > a.slowestDurationNs ? b : a;
}

export function joinWrittenBack(parts: readonly Pick<RecordingTransaction, 'writtenBack'>[]): WrittenBack {
  const joined: WrittenBack = { count: 0, bytes: 0n, lastEndNs: 0n };
  for (const { count, bytes, lastEndNs } of parts.map(({ writtenBack }) => writtenBack)) {
    joined.count += count;
    joined.bytes += bytes;
    if (lastEndNs > joined.lastEndNs) joined.lastEndNs = lastEndNs;
  }
  return joined;
}

/** Returns the end of the transaction's last event, including write-back. */
export function computeWholeEndNs({
  lastEndNs,
  writtenBack,
}: Pick<RecordingTransaction, 'lastEndNs' | 'writtenBack'>): bigint {
  return writtenBack.lastEndNs > lastEndNs ? writtenBack.lastEndNs : lastEndNs;
}

/*
 * A table of transactions in memory, with columns sorted by key, for filtering and sorting lists of transactions. A
 * row takes about 50 bytes, so even a million transactions fit, and a search does not read the file.
 */

const ROWS_MIN = 1024;
/**
 * Maximum share of rows whose transactions are gone. Above it, these rows are deleted; until then, readers skip them.
 */
const GONE_SHARE_MAX = 1 / 3;

interface TransactionRow {
  key: number;
  /** Hash of the transaction's id. It is the same in every recording. */
  hash: number;
  /** Start of the transaction's first own event, or of its first event if it has no own events. */
  firstNs: bigint;
  /** End of the transaction's last own event; 0n if it has no own events. */
  endNs: bigint;
  eventCount: number;
  hasError: boolean;
  /** Id of the transaction's set of services. Equal sets have the same id. */
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
  /** 1 if retention has removed the transaction. */
  readonly gone: Uint8Array;
}

interface TransactionTable {
  readonly columns: TransactionColumns;
  /** A number that changes whenever a row changes. */
  readonly version: number;
  /** Returns the index of the key's row, or the index at which the row would be inserted. */
  findPlace(key: number): number;
  /**
   * Replaces the row with this key, or adds the row. Adding a row at the end is cheap; elsewhere, all rows after it
   * move.
   */
  put(row: TransactionRow): void;
  /** Removes all rows but the first `length`. */
  truncate(length: number): void;
  setGone(place: number): void;
}

type Growing = { -readonly [Name in keyof TransactionColumns]: TransactionColumns[Name] };

export function createTransactionTable(): TransactionTable {
  let columns = createTransactionColumns(ROWS_MIN);
  let goneCount = 0;
  let version = 0;

  function reserve(length: number): void {
    if (length <= columns.keys.length) return;
    const larger = createTransactionColumns(Math.max(length, columns.keys.length * 2));
    copyRows(columns, larger);
    columns = larger;
  }

  function findPlace(key: number): number {
    const { keys, length } = columns;
    if (length === 0 || key > keys[length - 1]!) return length;
    return findFirstNotBelow(keys, key, 0, length);
  }

  function makeRoom(place: number): void {
    reserve(columns.length + 1);
    if (place < columns.length)
      for (const values of listColumnArrays(columns)) values.copyWithin(place + 1, place, columns.length);
    columns.length++;
  }

  function leaveOutGone(): void {
    let kept = 0;
    const arrays = listColumnArrays(columns);
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
    findPlace,
    put(row) {
      version++;
      const place = findPlace(row.key);
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

function createTransactionColumns(rows: number): Growing {
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

/**
 * Returns all column arrays. The type claims one kind of array, which is safe because values only move within an array.
 */
function listColumnArrays({ length: _, ...arrays }: TransactionColumns): Float64Array[] {
  return Object.values(arrays) as unknown as Float64Array[];
}

function copyRows(from: Growing, to: Growing): void {
  const targets = listColumnArrays(to);
  for (const [i, values] of listColumnArrays(from).entries()) targets[i]!.set(values);
  to.length = from.length;
}

/*
 * Updates a table of a recording's transactions in small steps. The whole file is read once; later passes read only the
 * transactions that new events may have changed.
 *
 * An event refers only to the latest `IDS_IN_USE_MAX` contexts, so `changedFrom` is that many ids before the
 * `context_from` of the first new segment. Transactions whose key is `changedFrom` or larger are read again. Older
 * transactions are read again only if they have a context with such an id.
 */

/** Number of rows that a step reads, which takes some milliseconds. */
const ROWS_A_STEP = 2048;

/**
 * SQL for the columns of a row. Services are read as hex, because creating a buffer for each blob would take longer
 * than everything else.
 */
const COLUMNS = `
  transaction_key, transaction_id, first_timestamp_ns, last_end_ns, event_count, error_count > 0, hex(services)`;

const ROWS = `
SELECT ${COLUMNS}
FROM transaction_summary
WHERE transaction_key > ?
ORDER BY transaction_key
LIMIT ${ROWS_A_STEP}`;

/** SQL for the transactions before `:changedFrom` that have a context with this or a larger id. */
const CONTINUED = `
SELECT ${COLUMNS}
FROM transaction_summary
WHERE transaction_key IN (
  SELECT transaction_key FROM context WHERE context_id >= :changedFrom AND transaction_key BETWEEN 1 AND :changedFrom - 1
)`;

const CONTEXT_FROM = `
SELECT context_from FROM segment WHERE first_number <= ? ORDER BY first_number DESC LIMIT 1`;

/** SQL for the oldest keys. Retention removes the oldest summaries. */
const OLDEST_KEYS = `
SELECT transaction_key FROM transaction_summary ORDER BY transaction_key LIMIT ${ROWS_A_STEP}`;

/**
 * SQL for the keys of transactions whose id contains a text. SQLite's `lower` changes only ASCII letters, and `instr`
 * has no wildcards.
 */
const KEYS_OF_ID_PART = `
SELECT transaction_key
FROM transaction_summary
WHERE transaction_key BETWEEN :first AND :last AND instr(lower(transaction_id), lower(:part)) > 0
ORDER BY transaction_key`;

/** The largest possible key, which is a context id. */
const KEY_MAX = 2n ** 32n - 1n;

type IndexRow = [bigint, string, bigint, bigint, bigint, bigint, string];

/** A pass over the rows: the last key that was read, and the number after the last event when the pass began. */
interface Reading {
  after: number;
  end: number;
}

export interface TransactionIndex {
  columns(): TransactionColumns;
  /** Returns a number that changes whenever the columns change. */
  version(): number;
  /** Returns the service names of each set, indexed by the set's id. */
  serviceSets(): readonly (readonly string[])[];
  /** Reads some rows. Returns true once the columns include all that the file had at the start of the pass. */
  step(): boolean;
  /** Marks the row of a transaction that is gone from the file. */
  setGone(place: number): void;
  /**
   * Returns, in ascending order, the keys from `first` to `last` of the transactions whose ids contain `part`. It reads
   * the file, because the columns do not have the ids.
   */
  findKeysByIdPart(part: string, first: number, last: number): number[];
}

interface IndexedRecording {
  database: Database.Database;
  lookup: Pick<Lookup, 'name'>;
  runInTransaction<T>(work: () => T): T;
}

export function openTransactionIndex({ database, lookup, runInTransaction }: IndexedRecording): TransactionIndex {
  const rows = database.prepare<[number], IndexRow>(ROWS).raw().safeIntegers();
  const continued = database.prepare<[object], IndexRow>(CONTINUED).raw().safeIntegers();
  const contextFrom = database.prepare<[number], number>(CONTEXT_FROM).pluck();
  const oldestKeys = database.prepare<[], number>(OLDEST_KEYS).pluck();
  const keysOfIdPart = database.prepare<[object], number>(KEYS_OF_ID_PART).pluck();
  const endNumber = database.prepare<[], number>(END_NUMBER).pluck();
  const dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck();

  const table = createTransactionTable();
  const serviceSets: string[][] = [];
  const setNumbers = new Map<string, number>();
  let seenVersion: number | undefined;
  /** The table includes all events below this number. */
  let seenEnd = 0;
  /** The current pass; undefined after it has finished. */
  let reading: Reading | undefined;

  /** Returns the id of a set of services. Most transactions share a few sets. */
  function internServiceSet(ids: string): number {
    let number = setNumbers.get(ids);
    if (number === undefined) {
      // A service may have several ids: it gets a new id when its old one is too old. Retention may have removed the
      // old id's name.
      const names = Array.from(unpackIds(Buffer.from(ids, 'hex')), lookup.name).filter((name) => name !== '');
      number = serviceSets.push([...new Set(names)].sort()) - 1;
      setNumbers.set(ids, number);
    }
    return number;
  }

  function put(row: IndexRow): void {
    if (!isSound(row)) throw createCorruptError('a summary of a transaction cannot be read');
    const [key, transactionId, first, end, events, hasError, services] = row;
    table.put({
      key: Number(key),
      hash: hashText53(transactionId),
      firstNs: first,
      endNs: end,
      eventCount: Number(events),
      hasError: hasError === 1n,
      serviceSet: internServiceSet(services),
    });
  }

  function begin(): Reading {
    const changedFrom = seenEnd === 0 ? 0 : Math.max(0, (contextFrom.get(seenEnd) ?? 0) - IDS_IN_USE_MAX);
    table.truncate(table.findPlace(changedFrom));
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
      // Without this check, a damaged file could cause an endless loop.
      if (last <= reading.after) throw createCorruptError('its list of transactions is not in order');
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
    step: () => runInTransaction(step),
    findKeysByIdPart: (part, first, last) => runInTransaction(() => keysOfIdPart.all({ part, first, last })),
  };
}

/**
 * Returns whether a row has possible values. A damaged page may contain values of any type, whatever the table
 * declares.
 */
function isSound([key, transactionId, first, end, events, hasError]: IndexRow): boolean {
  return (
    [key, first, end, events, hasError].every((value) => typeof value === 'bigint' && value >= 0n) &&
    key <= KEY_MAX &&
    typeof transactionId === 'string'
  );
}
