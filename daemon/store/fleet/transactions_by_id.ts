/** Summaries of transactions by id, each joined from the transaction's rows in all segments. */
import { list, sql, text } from '../../../agent/clickhouse/statements/sql.ts';
import { TRANSACTION_ID } from '../../../agent/clickhouse/tables/schema.ts';
import { toStored } from '../../../agent/recording/format/schema.ts';
import { joinSummaries, type RecordingTransaction } from '../../../agent/recording/read/transactions.ts';
import { joinParts } from '../joined_transaction.ts';
import type { TransactionSummary } from '../store.ts';
import { formatRecordingId } from './answer_blocks.ts';
import { BY_ID, type ByIdRow } from './by_id_rows.ts';
import { chooseTableSql, type Fleet, readRows } from './fleet.ts';

/**
 * Maximum size of the ids in one statement, in bytes. A server accepts statements of 256 KiB, in which each byte takes
 * two digits.
 */
const IDS_BYTES_MAX = 64 * 1024;
type ById = 'by_id' | 'pinned_by_id';
const NO_TRACE = '0'.repeat(32);

/** Returns a map from id to summary, without unknown transactions. */
export async function findFleetTransactions(
  fleet: Fleet,
  ids: readonly string[],
): Promise<Map<string, TransactionSummary>> {
  const found = new Map<string, TransactionSummary>();
  const oldestNs = await fleet.oldestNs();
  for (const some of splitIds(ids.filter((id) => id !== ''))) {
    const kept = (await readIdRows(fleet, 'by_id', some)).filter(({ t_max }) => t_max >= oldestNs);
    const pinned = oldestNs > 0n ? await readIdRows(fleet, 'pinned_by_id', some) : [];
    const rows = Map.groupBy(pinned.length > 0 ? dropDuplicates([...kept, ...pinned]) : kept, ({ id }) => id);
    for (const [id, own] of rows) found.set(id, buildSummary(own));
  }
  return found;
}

/**
 * Reads the rows of a transaction from a table: `by_id` for all transactions that are kept, `pinned_by_id` for pinned
 * transactions.
 */
export function readTransactionRows(fleet: Fleet, table: ById, id: string): Promise<ByIdRow[]> {
  const name = `${table} ${id}`;
  const known = fleet.answered?.get(name);
  if (known) return known;
  const rows = readIds(fleet, table, [id]);
  fleet.answered?.set(name, rows);
  rows.catch(() => fleet.answered?.delete(name));
  return rows;
}

function readIdRows(fleet: Fleet, table: ById, ids: readonly string[]): Promise<ByIdRow[]> {
  return ids.length === 1 ? readTransactionRows(fleet, table, ids[0]!) : readIds(fleet, table, ids);
}

/**
 * Reads the rows of these ids. PREWHERE makes the server read only the ids first, because reading all columns of
 * unwanted rows would take longer.
 */
async function readIds(fleet: Fleet, table: ById, ids: readonly string[]): Promise<ByIdRow[]> {
  return readRows(
    fleet,
    sql`SELECT * FROM ${chooseTableSql(fleet, table)}
PREWHERE kind = ${TRANSACTION_ID} AND id IN (${list(ids.map(text))}) ORDER BY recording, first_number, day LIMIT 1 BY id, recording, first_number, day`,
    BY_ID,
  );
}

/** Drops duplicate rows and sorts by key. */
function dropDuplicates(rows: readonly ByIdRow[]): ByIdRow[] {
  const byKey = new Map<string, ByIdRow>();
  for (const row of rows) byKey.set(`${row.recording} ${row.first_number} ${row.day} ${row.id}`, row);
  const buildRowKey = (row: ByIdRow) => [row.recording, row.first_number, row.day];
  return [...byKey.values()].sort((one, other) => {
    const a = buildRowKey(one);
    const b = buildRowKey(other);
    const at = a.findIndex((value, i) => value !== b[i]);
    return at < 0 ? 0 : a[at]! < b[at]! ? -1 : 1;
  });
}

function splitIds(ids: readonly string[]): string[][] {
  const found: string[][] = [];
  let left = 0;
  for (const id of ids) {
    left -= Buffer.byteLength(id) + 1;
    if (left < 0 || found.length === 0) {
      found.push([]);
      left = IDS_BYTES_MAX - Buffer.byteLength(id);
    }
    found.at(-1)!.push(id);
  }
  return found;
}

/** Builds the summary of one transaction from its rows, which are ordered by recording and number. */
function buildSummary(rows: readonly ByIdRow[]): TransactionSummary {
  const byRecording = Map.groupBy(rows, ({ recording }) => recording);
  return joinParts(
    [...byRecording].map(([recording, own]) => ({
      recording: { recordingId: formatRecordingId(recording), node: own[0]!.node },
      summary: own.map(toRecordedSummary).reduce(joinSummaries),
    })),
  );
}

/** Converts a row to a recording's summary, in which times and durations are signed numbers. */
function toRecordedSummary(row: ByIdRow): RecordingTransaction {
  const readStored = (name: 't_min' | 'own_min' | 'end_max' | 'written_back_end_ns' | 'slowest_duration_ns') =>
    toStored(row[name]);
  const start = readStored('t_min');
  const ownStart = readStored('own_min');
  const end = readStored('end_max');
  // Rows without own events, and rows of an older sender, have 0 in `own_min`, so `t_min` counts instead.
  const first = ownStart > 0n ? ownStart : start;
  return {
    key: 0,
    transactionId: row.id,
    traceId: row.trace_id === NO_TRACE ? null : row.trace_id,
    firstTimestampNs: first,
    lastEndNs: end > first ? end : first,
    writtenBack: {
      count: Number(row.written_back_count),
      bytes: row.written_back_bytes,
      lastEndNs: readStored('written_back_end_ns'),
    },
    eventCount: Number(row.n),
    errorCount: Number(row.errors),
    slowestDurationNs: readStored('slowest_duration_ns'),
    slowestNumber: row.slowest_number,
    services: [...row.services],
  };
}
