/**
 * A recording as tables of an SQLite database in memory, whose rows are made as a query asks for them. SQLite passes
 * only conditions on parameters: hidden columns that take `=`, or positional arguments: `events('order-1')`. Other
 * conditions are evaluated for every row.
 */
import type Database from 'better-sqlite3';
import { formatEventId } from '../../../agent/recording/format/event_id.ts';
import { EVENT_TYPES, type EventType } from '../../../bpf/schema/index.ts';
import { stringify } from '../../exact_json.ts';
import { parseTime, resolveTime, TIME_FORMATS } from '../../query/time.ts';
import { eventPieces } from '../../store/blocks/event.ts';
import type { EventFilter } from '../../store/store.ts';
import { ExportError } from '../errors.ts';
import { columnsOfType, EVENT_COLUMNS, type FlatColumn, type FlatValue } from '../flat_columns.ts';
import { storable } from '../formats/sqlite.ts';
import type { Source } from '../source.ts';

const TRANSACTIONS_AT_ONCE = 1000;

const PARAMETERS = ['of_transaction', 'since', 'until', 'of_service'];

type Argument = string | number | bigint | undefined;

/** `sql` is the query that the tables are for. */
export function defineTables(database: Database.Database, source: Source, sql: string, nowNs: bigint): void {
  refuseNullArguments(sql);
  defineEvents('events', EVENT_COLUMNS, {});
  for (const type of EVENT_TYPES) defineEvents(type, columnsOfType(type), { eventTypes: [type] });
  define('transactions', TRANSACTION_COLUMNS, () => transactionRows(source));
  define('losses', ['from_ns', 'to_ns', 'cause', 'event_type', 'lost'], () => lossRows(source));
  define('clock', ['boot_ns', 'offset_ns', 'kind', 'suspended_ns'], () => clockRows(source));

  function define(name: string, columns: string[], rows: () => Iterable<FlatValue[]>): void {
    database.table(name, {
      columns,
      *rows() {
        for (const row of rows()) yield row.map(storable);
      },
    });
  }

  function defineEvents(name: string, columns: readonly FlatColumn[], type: { eventTypes?: EventType[] }): void {
    const used = usedColumns(columns, sql);
    database.table(name, {
      columns: columns.map((column) => column.name),
      parameters: PARAMETERS,
      *rows(...given: unknown[]) {
        // A join may pass NULL, which equals nothing.
        if (given.includes(null)) return;
        const filter = { ...filterOf(given as Argument[], nowNs), ...type };
        // better-sqlite3 copies the row, so it can be reused.
        const row: FlatValue[] = columns.map(() => null);
        for (const scanned of source.scan(filter)) {
          for (const events of eventPieces(scanned)) {
            for (const event of events) {
              for (const [place, column] of used) row[place] = storable(column.value(event));
              yield row;
            }
          }
        }
      },
    });
  }
}

/** `events(NULL, '-15m')` looks like a query for any transaction; for SQLite it is a comparison that is never true. */
const NULL_ARGUMENT = new RegExp(`\\b(events|${EVENT_TYPES.join('|')})\\s*\\([^()]*\\bnull\\b`, 'i');
const LITERAL = /'[^']*'/g;

function refuseNullArguments(sql: string): void {
  if (NULL_ARGUMENT.test(sql.replaceAll(LITERAL, "''")))
    throw new ExportError("sql: NULL equals nothing: name what is given, as in events WHERE since = '-15m'");
}

/**
 * Returns the used columns with their places; the others stay null. SQLite does not report which columns a query uses,
 * but its text contains each of them, or a `*`. That halves the time of a query that uses few.
 */
function usedColumns(columns: readonly FlatColumn[], sql: string): [number, FlatColumn][] {
  const text = sql.toLowerCase().replaceAll(/\bcount\s*\(\s*\*\s*\)/g, '');
  const all = text.includes('*') || text.includes('natural');
  return [...columns.entries()].filter(([, { name }]) => all || text.includes(name));
}

function filterOf([transaction, since, until, service]: Argument[], nowNs: bigint): EventFilter {
  return {
    ...(transaction !== undefined && { transactionId: String(transaction) }),
    ...(since !== undefined && { fromNs: timeOf('since', since, nowNs) }),
    ...(until !== undefined && { toNs: timeOf('until', until, nowNs) }),
    ...(service !== undefined && { services: [String(service)] }),
  };
}

function timeOf(name: string, value: string | number | bigint, nowNs: bigint): bigint {
  const time = parseTime(String(value));
  if (!time) throw new ExportError(`${name}: ${TIME_FORMATS}`);
  return resolveTime(time, nowNs);
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

/** Returns the newest first. */
function* transactionRows({ reader, dictionary }: Source): Generator<FlatValue[]> {
  let beforeKey = Number.MAX_SAFE_INTEGER;
  for (;;) {
    const page = reader.transactions({ limit: TRANSACTIONS_AT_ONCE, beforeKey });
    for (const { key, transactionId } of page) {
      // A transaction that the writer had forgotten and met again has several summaries; it is listed once, at its
      // first place.
      const whole = reader.transaction(transactionId);
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
        whole.writtenBack?.count ?? null,
        whole.writtenBack?.bytes ?? null,
        whole.writtenBack?.count ? whole.writtenBack.lastEndNs : null,
      ];
    }
    if (page.length < TRANSACTIONS_AT_ONCE) return;
    beforeKey = page.at(-1)!.key;
  }
}

function* lossRows({ reader }: Source): Generator<FlatValue[]> {
  for (const { fromNs, toNs, cause, eventType, count } of reader.losses())
    yield [fromNs, toNs, cause, eventType, count];
}

function* clockRows({ reader }: Source): Generator<FlatValue[]> {
  for (const { bootNs, offsetNs, kind, suspendedNs } of reader.clockSteps())
    yield [bootNs, offsetNs, kind, suspendedNs];
}
