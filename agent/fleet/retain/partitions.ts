/** Lists the partitions of a fleet's tables, selects the partitions to drop, and drops them. */

import type { Connection } from '../../clickhouse/connection/connection.ts';
import { createUnexpectedAnswerError, readTypedRows } from '../../clickhouse/connection/rows.ts';
import { list, sql, text, word } from '../../clickhouse/statements/sql.ts';
import { dropPartition } from '../../clickhouse/tables/ddl.ts';
import { HOUR_NS } from './plan.ts';

export interface Partition {
  table: string;
  number: bigint;
  /**
   * The first hour after all rows of the partition. The partition may be dropped if this hour, or a later one, is the
   * first hour that is kept.
   */
  endHour: bigint;
  bytes: bigint;
}

const HOURS_OF_DAY = 24n;

/** Tables that are partitioned by the hour of their rows. */
const BY_HOUR = ['event', 'transaction', 'stat'];
/** Tables that are partitioned by the hour in which a segment begins. A segment may continue into later hours. */
const BY_SEGMENT = ['segment', 'name'];
const BY_DAY = ['by_id', 'loss'];

/** The partition of the table `loss` that has the losses caused by retention itself; it is never dropped. */
const KEPT_LOSSES = 0n;

const TIMEOUT_MS = 600_000;

/** Lists the partitions of all tables under retention. Throws a ServerError. */
export async function readPartitions(connection: Connection): Promise<Partition[]> {
  const tables = list([...BY_HOUR, ...BY_SEGMENT, ...BY_DAY].map(word));
  const statement = sql`SELECT table, partition, toUInt64(sum(bytes_on_disk)) AS size FROM system.parts
WHERE active AND database = ${text(connection.database)} AND table IN (${tables}) GROUP BY table, partition`;
  const rows = await readTypedRows(connection, statement, { table: 'text', partition: 'text', size: 'number' });
  const segmentEnds = await readSegmentEnds(connection);
  return rows.map((row) => {
    const table = row.table;
    const number = parsePartitionNumber(row.partition);
    const lastHour = (BY_SEGMENT.includes(table) && segmentEnds.get(number)) || number;
    const endHour = BY_DAY.includes(table) ? (number + 1n) * HOURS_OF_DAY : lastHour + 1n;
    return { table, number, endHour, bytes: row.size };
  });
}

/** Parses the name of a partition, which is a number in kreplay's tables. */
export function parsePartitionNumber(partition: string): bigint {
  if (/^\d{1,20}$/.test(partition)) return BigInt(partition);
  throw createUnexpectedAnswerError('a partition has no number');
}

/** Returns, for each hour, the hour of the last event in the segments that begin in that hour. */
async function readSegmentEnds(connection: Connection): Promise<Map<bigint, bigint>> {
  const hours = sql`SELECT intDiv(t_min, ${HOUR_NS}) AS hour, intDiv(max(t_max), ${HOUR_NS}) AS last FROM segment GROUP BY hour`;
  return new Map(
    (await readTypedRows(connection, hours, { hour: 'number', last: 'number' })).map(({ hour, last }) => [hour, last]),
  );
}

/** Returns the partitions to drop if `firstHour` is the first hour that is kept, oldest first. */
export function selectDropped(firstHour: bigint, partitions: readonly Partition[]): Partition[] {
  return partitions
    .filter(({ table, number, endHour }) => endHour <= firstHour && !(table === 'loss' && number === KEPT_LOSSES))
    .sort((a, b) => (a.endHour < b.endHour ? -1 : a.endHour > b.endHour ? 1 : 0));
}

/** Drops the partitions. Throws a ServerError. */
export async function dropAll(connection: Connection, partitions: readonly Partition[]): Promise<void> {
  for (const { table, number } of partitions)
    await connection.run(dropPartition(table, number), { timeoutMs: TIMEOUT_MS });
}
