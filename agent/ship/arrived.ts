/**
 * Asks a server which events it has of those that were removed from the recording. An insert whose answer was lost may
 * have been executed, so removed events are lost only if the server does not have them.
 */
import type { Connection } from '../clickhouse/connection/connection.ts';
import { FEW_ROWS, type RowOf, readTypedRows, type Shape } from '../clickhouse/connection/rows.ts';
import { ServerError } from '../clickhouse/connection/server_error.ts';
import { identifier, type Sql, sql, text } from '../clickhouse/statements/sql.ts';
import type { SealedSegment } from '../recording/read/sealed_segments.ts';

/** The events to ask about: their numbers are in [from, end), and they began from `fromNs` to `toNs`. */
export interface Sought {
  from: number;
  end: number;
  fromNs: bigint;
  toNs: bigint;
}

/** Describes events that a server has, in the form of a segment. */
export type DeliveredSegment = Omit<SealedSegment, 'typeMask'>;

export interface ArrivalQuestion {
  recordingId: string;
  /** Id prefix of the inserts that may have sent the events. */
  insertId: string;
  /**
   * Whether to throw while the server may still receive some of the events. Otherwise, the events that it has now are
   * counted.
   */
  waits: boolean;
  signal: AbortSignal;
}

/**
 * Returns the events of the range that the server has; undefined if it has none. Throws a ServerError. With `waits`,
 * throws a ServerError with the code `behind` while the server still stores an earlier insert, or has not yet copied
 * all rows of another replica.
 */
export async function askArrived(
  connection: Connection,
  { recordingId, insertId, waits, signal }: ArrivalQuestion,
  { from, end, fromNs, toNs }: Sought,
): Promise<DeliveredSegment | undefined> {
  // A server answers both subqueries before it reads the table, so its rows are at least as recent as the answers.
  const copying = sql`SELECT count() FROM system.replicas
    WHERE database = ${text(connection.database)} AND table = 'event'
      AND (is_readonly OR inserts_in_queue > 0 OR log_max_index >= log_pointer AND log_max_index > 0)`;
  const storing = sql`SELECT count() FROM system.processes WHERE position(query_id, ${text(insertId)}) = 1`;
  const statement = sql`SELECT uniqExact(number) AS n, min(number) AS first, max(number) AS last,
      min(timestamp_ns) AS min_ns, max(timestamp_ns) AS max_ns, max(timestamp_ns + toUInt64(duration_ns)) AS end_ns,
      toUInt64((${copying})) + toUInt64((${storing})) AS pending
    FROM ${identifier('event')}
    WHERE recording = ${BigInt(`0x${recordingId}`)} AND number >= ${from} AND number < ${end}
      AND timestamp_ns >= ${fromNs} AND timestamp_ns <= ${toNs}`;
  const shape = {
    n: 'number',
    first: 'number',
    last: 'number',
    pending: 'number',
    min_ns: 'number',
    max_ns: 'number',
    end_ns: 'number',
  } as const;
  const row = await readFirstRow(connection, statement, shape, signal);
  if (!row) return undefined;
  if (waits && row.pending > 0n)
    throw new ServerError('behind', 'wait', 'the server does not have all yet that was sent to it or to its replicas');
  if (row.n === 0n) return undefined;
  return {
    firstNumber: Number(row.first),
    endNumber: Number(row.last) + 1,
    eventCount: Number(row.n),
    minNs: row.min_ns,
    maxNs: row.max_ns,
    maxDurationNs: row.end_ns - row.max_ns,
  };
}

/**
 * Returns the number, at least `from`, below which the server's table `segment` already lists the events. Segments are
 * listed in the order of their numbers, all segments of a group at once.
 */
export async function askListed(
  connection: Connection,
  { recordingId, signal }: Pick<ArrivalQuestion, 'recordingId' | 'signal'>,
  { from, end }: Pick<Sought, 'from' | 'end'>,
): Promise<number> {
  const statement = sql`SELECT max(end_number) AS last FROM ${identifier('segment')}
    WHERE recording = ${BigInt(`0x${recordingId}`)} AND first_number < ${end} AND end_number > ${from}`;
  const row = await readFirstRow(connection, statement, { last: 'number' }, signal);
  return Math.max(from, Number(row?.last ?? 0n));
}

/** ClickHouse's error code for a missing right. */
const NO_RIGHT = 497;

/**
 * Returns the first row; undefined if the account has no right to query, like an account of an older schema. All events
 * then count as lost.
 */
async function readFirstRow<const Own extends Shape>(
  connection: Connection,
  statement: Sql,
  shape: Own,
  signal: AbortSignal,
): Promise<RowOf<Own> | undefined> {
  try {
    const [row] = await readTypedRows(connection, statement, shape, { signal, ...FEW_ROWS });
    return row;
  } catch (error) {
    if (error instanceof ServerError && error.code === NO_RIGHT) return undefined;
    throw error;
  }
}
