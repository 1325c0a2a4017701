/** Access to the tables of a fleet: a connection, and the properties that all tables share. */
import type { Connection } from '../../../agent/clickhouse/connection/connection.ts';
import { type RowOf, readTypedRows, type Shape } from '../../../agent/clickhouse/connection/rows.ts';
import { ServerError } from '../../../agent/clickhouse/connection/server_error.ts';
import { identifier, type Sql } from '../../../agent/clickhouse/statements/sql.ts';
import { nameDistributedTable } from '../../../agent/clickhouse/tables/ddl.ts';
import { createOldestReader } from '../../../agent/clickhouse/tables/oldest.ts';
import { Problem } from '../../base/problem.ts';
import type { ByIdRow } from './by_id_rows.ts';

export interface Fleet {
  readonly connection: Connection;
  /** Connection of the account that may write pins. */
  readonly pinning: Connection;
  /** Length of the time buckets by which events are sorted. */
  readonly bucketNs: bigint;
  /** Whether the rows are distributed over shards. */
  readonly isCluster: boolean;
  /** The rows of transactions that an answer has read so far. Other queries of the same answer reuse these rows. */
  readonly answered?: Map<string, Promise<ByIdRow[]>>;
  /**
   * Time from which the fleet has all events; 0 if none were dropped. Of the events that start earlier, it has only the
   * pinned ones.
   */
  oldestNs(): Promise<bigint>;
}

/** Creates a fleet from its connections. If `pinning` is omitted, the account of `connection` also writes pins. */
export function createFleet(
  connection: Connection,
  about: Pick<Fleet, 'bucketNs' | 'isCluster'>,
  pinning = connection,
): Fleet {
  return { connection, pinning, ...about, oldestNs: createOldestReader(connection) };
}

export function closeFleet({ connection, pinning }: Fleet): void {
  connection.close();
  if (pinning !== connection) pinning.close();
}

/** Returns the table to read from. In a cluster, it is the distributed table, which covers all shards. */
export function chooseTableSql({ isCluster }: Fleet, name: string): Sql {
  return identifier(isCluster ? nameDistributedTable(name) : name);
}

export function readRows<const Own extends Shape>(
  { connection }: Fleet,
  statement: Sql,
  shape: Own,
): Promise<RowOf<Own>[]> {
  return readTypedRows(connection, statement, shape);
}

/** Error code for a shard of which no replica answers. */
export const NO_SHARD = 279;
/** Error codes of a statement whose shard becomes unavailable while the statement runs. */
const SHARD_LOST: readonly unknown[] = [NO_SHARD, 32, 209, 210];

export function isWithoutShard(error: unknown): error is ServerError {
  return error instanceof ServerError && SHARD_LOST.includes(error.code);
}

/** Converts an error of the server to the problem that a client gets. */
function toFleetError(error: unknown): unknown {
  return error instanceof ServerError ? new Problem('recording_unavailable', error.message) : error;
}

export async function withFleetErrors<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw toFleetError(error);
  }
}

/** Does the same as `withFleetErrors` for work that runs in steps. */
export async function* withFleetStepErrors<Value, Result>(
  work: AsyncGenerator<Value, Result>,
): AsyncGenerator<Value, Result> {
  try {
    return yield* work;
  } catch (error) {
    throw toFleetError(error);
  }
}
