/** Summaries of transactions, as the writer keeps them. */
import type Database from 'better-sqlite3';
import { corrupt } from './errors.ts';
import { unpackIds } from './format.ts';
import type { Lookup } from './lookup.ts';
import { TEXT_MAX } from './sizes.ts';

const SUMMARY_COLUMNS = `
  transaction_key, transaction_id, trace_id, first_timestamp_ns, last_end_ns, event_count, error_count,
  slowest_duration_ns, slowest_number, services`;

const SUMMARY = `SELECT ${SUMMARY_COLUMNS} FROM transaction_summary WHERE transaction_key = ?`;

const NEWEST = `
SELECT ${SUMMARY_COLUMNS}
FROM transaction_summary
WHERE transaction_key < :before
ORDER BY transaction_key DESC
LIMIT :limit`;

export interface TransactionSummary {
  /** Order of first appearance; where a list continues. */
  key: number;
  transactionId: string;
  /** Of the first context that the transaction was seen with. */
  traceId: string | null;
  firstTimestampNs: bigint;
  lastEndNs: bigint;
  eventCount: number;
  errorCount: number;
  slowestDurationNs: bigint;
  slowestNumber: bigint;
  services: string[];
}

export interface TransactionsRequest {
  limit: number;
  /** Only those that appeared before the one with this key. */
  beforeKey?: number;
}

export interface Transactions {
  transaction(id: string): TransactionSummary | undefined;
  /** Of the same by the keys of its summaries. */
  transactionOfKeys(keys: readonly number[]): TransactionSummary | undefined;
  /** Newest first, by first appearance. */
  transactions(request: TransactionsRequest): TransactionSummary[];
}

type Row = [bigint, string, string | null, bigint, bigint, bigint, bigint, bigint, bigint, Buffer];

export function openTransactions(database: Database.Database, lookup: Lookup): Transactions {
  const summary = database.prepare<[number], Row>(SUMMARY).raw().safeIntegers();
  const newest = database.prepare<[object], Row>(NEWEST).raw().safeIntegers();

  function summaryOf(row: Row): TransactionSummary {
    const [key, transactionId, traceId, first, end, events, errors, slowest, slowestNumber, services] = row;
    const numbers = [key, first, end, events, errors, slowest, slowestNumber];
    if (!numbers.every((value) => typeof value === 'bigint' && value >= 0n) || typeof transactionId !== 'string')
      throw corrupt('a summary of a transaction is none');
    if (services.length > TEXT_MAX) throw corrupt('a transaction has more services than any has');
    // Of a service that was renamed by age, the old number may be gone.
    const names = Array.from(unpackIds(services), lookup.name).filter((name) => name !== '');
    return {
      key: Number(key),
      transactionId,
      traceId,
      firstTimestampNs: first,
      lastEndNs: end,
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
    return known.length === 0 ? undefined : known.reduce(joined);
  }

  return {
    // Several keys when the writer had forgotten the transaction and met it again.
    transaction: (id) => transactionOfKeys(lookup.transactionKeys(id)),
    transactionOfKeys,
    transactions: ({ limit, beforeKey = Number.MAX_SAFE_INTEGER }) =>
      newest.all({ limit, before: beforeKey }).map(summaryOf),
  };
}

function joined(a: TransactionSummary, b: TransactionSummary): TransactionSummary {
  const slower = b.slowestDurationNs > a.slowestDurationNs ? b : a;
  return {
    ...a,
    firstTimestampNs: a.firstTimestampNs < b.firstTimestampNs ? a.firstTimestampNs : b.firstTimestampNs,
    lastEndNs: a.lastEndNs > b.lastEndNs ? a.lastEndNs : b.lastEndNs,
    eventCount: a.eventCount + b.eventCount,
    errorCount: a.errorCount + b.errorCount,
    slowestDurationNs: slower.slowestDurationNs,
    slowestNumber: slower.slowestNumber,
    services: [...new Set([...a.services, ...b.services])].sort(),
  };
}
