/** Presents a recording as tables of an in-memory SQLite database. Rows are created on demand while a query runs. */
import type Database from 'better-sqlite3';
import { EVENT_TYPES } from '../../../bpf/schema/index.ts';
import { formatEventId } from '../../base/event_id.ts';
import { stringify } from '../../base/exact_json.ts';
import { ExportError } from '../errors.ts';
import type { FlatValue } from '../flat_columns.ts';
import { toStorable } from '../formats/sqlite.ts';
import type { Source } from '../source.ts';
import { defineEventTables } from './event_tables.ts';

const TRANSACTIONS_AT_ONCE = 1000;

const LOSS_COLUMNS = [
  ...['from_ns', 'to_ns', 'cause', 'event_type', 'lost', 'service_name'],
  ...['transaction_id', 'bytes', 'duration_ns', 'longest_ns'],
];

/** Defines the tables in `database`. `sql` is the query that will use them. */
export function defineTables(database: Database.Database, source: Source, sql: string, nowNs: bigint): void {
  refuseNullArguments(sql);
  defineEventTables(database, source, nowNs);
  define('transactions', TRANSACTION_COLUMNS, () => readTransactionRows(source));
  define('losses', LOSS_COLUMNS, () => readLossRows(source));
  define('clock', ['boot_ns', 'offset_ns', 'kind', 'suspended_ns'], () => readClockRows(source));

  function define(name: string, columns: string[], rows: () => Iterable<FlatValue[]>): void {
    database.table(name, {
      columns,
      *rows() {
        for (const row of rows()) yield row.map(toStorable);
      },
    });
  }
}

/**
 * Matches a NULL argument of an event table. `events(NULL, '-15m')` looks like a query for any transaction, but SQLite
 * compares the transaction id with NULL, which is never true.
 */
const NULL_ARGUMENT = new RegExp(`\\b(events|${EVENT_TYPES.join('|')})\\s*\\([^()]*\\bnull\\b`, 'i');
const LITERAL = /'[^']*'/g;

function refuseNullArguments(sql: string): void {
  if (NULL_ARGUMENT.test(sql.replaceAll(LITERAL, "''")))
    throw new ExportError("sql: NULL equals nothing: name what is given, as in events WHERE since = '-15m'");
}

const TRANSACTION_COLUMNS = [
  'transaction_id',
  'trace_id',
  'first_timestamp_ns',
  'last_end_ns',
  'duration_ns',
  'event_count',
  'error_count',
  'slowest_event_id',
  'slowest_duration_ns',
  'services',
  'written_back_count',
  'written_back_bytes',
  'written_back_end_ns',
];

/** Yields one row per transaction, the newest first. */
function* readTransactionRows({ reader, dictionary }: Source): Generator<FlatValue[]> {
  let beforeKey = Number.MAX_SAFE_INTEGER;
  for (;;) {
    const page = reader.listTransactions({ limit: TRANSACTIONS_AT_ONCE, beforeKey });
    for (const { key, transactionId } of page) {
      // A transaction has several summaries if the writer had dropped it from memory before more of its events came.
      // Only the row with its first summary is kept.
      const whole = reader.readTransaction(transactionId);
      if (whole?.key !== key) continue;
      yield [
        transactionId,
        whole.traceId,
        whole.firstTimestampNs,
        whole.lastEndNs,
        whole.lastEndNs - whole.firstTimestampNs,
        whole.eventCount,
        whole.errorCount,
        formatEventId(dictionary.recordingId, whole.slowestNumber),
        whole.slowestDurationNs,
        stringify(whole.services),
        whole.writtenBack.count,
        whole.writtenBack.bytes,
        whole.writtenBack.count ? whole.writtenBack.lastEndNs : null,
      ];
    }
    if (page.length < TRANSACTIONS_AT_ONCE) return;
    beforeKey = page.at(-1)!.key;
  }
}

function* readLossRows({ reader }: Source): Generator<FlatValue[]> {
  for (const { fromNs, toNs, cause, eventType, count, service = null, transactionId = null, sums } of reader.losses(
    undefined,
    undefined,
    'all',
  )) {
    const { bytes = null, durationNs = null, longestNs = null } = sums ?? {};
    yield [fromNs, toNs, cause, eventType, count, service, transactionId, bytes, durationNs, longestNs];
  }
}

function* readClockRows({ reader }: Source): Generator<FlatValue[]> {
  for (const { bootNs, offsetNs, kind, suspendedNs } of reader.clockSteps())
    yield [bootNs, offsetNs, kind, suspendedNs];
}
