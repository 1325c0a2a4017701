/** Reads the summaries of transactions that the writer keeps, and which transactions are pinned. */

import type Database from 'better-sqlite3';
import { max, min } from '../../../daemon/base/bigints.ts';
import { corrupt } from '../format/errors.ts';
import { unpackIds } from '../format/schema.ts';
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

export interface TransactionSummary {
  /** Position in the order of first appearance, from which a list continues. */
  key: number;
  transactionId: string;
  /** Trace id of the first context that the transaction was seen with. */
  traceId: string | null;
  /** Start of the first of its own events; of the first event when it has none. */
  firstTimestampNs: bigint;
  /** The last end of its own events; `firstTimestampNs` when it has none. */
  lastEndNs: bigint;
  writtenBack: WrittenBack;
  eventCount: number;
  errorCount: number;
  /** The longest of its own events, or of the write-back when it has none. */
  slowestDurationNs: bigint;
  slowestNumber: bigint;
  services: string[];
}

/** Requests that carried a transaction's data but are not its own events. */
export interface WrittenBack {
  count: number;
  bytes: bigint;
  /** 0n when there are none. */
  lastEndNs: bigint;
}

export interface TransactionsRequest {
  limit: number;
  /** Only transactions that appeared before the one with this key are returned. */
  beforeKey?: number;
}

export interface Transactions {
  transaction(id: string): TransactionSummary | undefined;
  /** Returns the same for the keys of the transaction's summaries. */
  transactionOfKeys(keys: readonly number[]): TransactionSummary | undefined;
  /** Returns the newest first, by first appearance. */
  transactions(request: TransactionsRequest): TransactionSummary[];
}

export interface Pin {
  transactionId: string;
  /** Start of the time that is kept, in nanoseconds since the epoch. */
  fromNs: bigint;
  /** When the transaction was first pinned. */
  pinnedNs: bigint;
}

export interface PinReader {
  /** All pins, the oldest first. */
  pins(): Pin[];
}

type Row = [
  bigint,
  string,
  string | null,
  ...[bigint, bigint, bigint, bigint, bigint, bigint],
  Buffer,
  ...[bigint, bigint, bigint],
];

export function openTransactions(database: Database.Database, lookup: Lookup): Transactions {
  const summary = database.prepare<[number], Row>(SUMMARY).raw().safeIntegers();
  const newest = database.prepare<[object], Row>(NEWEST).raw().safeIntegers();

  function summaryOf(row: Row): TransactionSummary {
    const [key, transactionId, traceId, first, end, events, errors, slowest, slowestNumber, services, ...written] = row;
    const [writtenCount, writtenBytes, writtenEnd] = written;
    const numbers = [key, first, end, events, errors, slowest, slowestNumber, ...written];
    if (!numbers.every((value) => typeof value === 'bigint' && value >= 0n) || typeof transactionId !== 'string')
      throw corrupt('a summary of a transaction is malformed');
    if (services.length > TEXT_MAX) throw corrupt('a transaction has more services than any has');
    // A service may have got a new id because of its age; its old one may be gone.
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

  function transactionOfKeys(keys: readonly number[]): TransactionSummary | undefined {
    const rows = keys.map((key) => summary.get(key));
    const known = rows.filter((row) => row !== undefined).map(summaryOf);
    return known.length === 0 ? undefined : known.reduce(joinSummaries);
  }

  return {
    // There are several keys when the writer had forgotten the transaction and met it again.
    transaction: (id) => transactionOfKeys(lookup.transactionKeys(id)),
    transactionOfKeys,
    transactions: ({ limit, beforeKey = Number.MAX_SAFE_INTEGER }) =>
      newest.all({ limit, before: beforeKey }).map(summaryOf),
  };
}

export function openPinReader(database: Database.Database): PinReader {
  const pins = database.prepare<[], [string, bigint, bigint]>(PINS).raw().safeIntegers();
  return {
    pins: () => pins.all().map(([transactionId, fromNs, pinnedNs]) => ({ transactionId, fromNs, pinnedNs })),
  };
}

/** Joins what a recording has of a transaction; `a` is what it had first. */
export function joinSummaries(a: TransactionSummary, b: TransactionSummary): TransactionSummary {
  const slower = slowerOf(a, b);
  const firstTimestampNs = firstOf([a, b]);
  return {
    ...a,
    firstTimestampNs,
    lastEndNs: lastEndOf([a, b], firstTimestampNs),
    writtenBack: joinWrittenBack([a, b]),
    eventCount: a.eventCount + b.eventCount,
    errorCount: a.errorCount + b.errorCount,
    slowestDurationNs: slower.slowestDurationNs,
    slowestNumber: slower.slowestNumber,
    services: [...new Set([...a.services, ...b.services])].sort(),
  };
}

type Ends = Pick<TransactionSummary, 'lastEndNs' | 'writtenBack' | 'eventCount'>;

/** Whether the transaction has events that are not write-back. */
function hasOwn({ writtenBack, eventCount }: Pick<TransactionSummary, 'writtenBack' | 'eventCount'>): boolean {
  return eventCount > writtenBack.count;
}

/** When the first own event of all parts began; the first of all events without own ones. */
export function firstOf(parts: readonly (Ends & Pick<TransactionSummary, 'firstTimestampNs'>)[]): bigint {
  const own = parts.filter(hasOwn);
  const starts = (own.length > 0 ? own : parts).map(({ firstTimestampNs }) => firstTimestampNs);
  return starts.reduce(min);
}

/** When the own events of all parts ended; at least `firstNs`. */
export function lastEndOf(parts: readonly Ends[], firstNs: bigint): bigint {
  const ends = parts.filter(hasOwn).map(({ lastEndNs }) => lastEndNs);
  return ends.reduce(max, firstNs);
}

export function slowerOf<T extends TransactionSummary>(a: T, b: T): T {
  if (hasOwn(a) !== hasOwn(b)) return hasOwn(a) ? a : b;
  return b.slowestDurationNs > a.slowestDurationNs ? b : a;
}

export function joinWrittenBack(parts: readonly Pick<TransactionSummary, 'writtenBack'>[]): WrittenBack {
  const joined: WrittenBack = { count: 0, bytes: 0n, lastEndNs: 0n };
  for (const { count, bytes, lastEndNs } of parts.map(({ writtenBack }) => writtenBack)) {
    joined.count += count;
    joined.bytes += bytes;
    if (lastEndNs > joined.lastEndNs) joined.lastEndNs = lastEndNs;
  }
  return joined;
}

/** When the last of all events of the transaction ended. */
export function wholeEndOf({ lastEndNs, writtenBack }: Pick<TransactionSummary, 'lastEndNs' | 'writtenBack'>): bigint {
  return writtenBack.lastEndNs > lastEndNs ? writtenBack.lastEndNs : lastEndNs;
}
