/**
 * Queries of a shipper to a server: whether the tables fit, which shipper has claimed the recording, when the server
 * started, and its clock.
 */
import { type Connection, QUESTION_MS } from '../clickhouse/connection/connection.ts';
import { FEW_ROWS, type RowOf, readTypedRows, type Shape } from '../clickhouse/connection/rows.ts';
import { ServerError } from '../clickhouse/connection/server_error.ts';
import { identifier, type Sql, sql } from '../clickhouse/statements/sql.ts';
import { type Meta, readMeta } from '../clickhouse/tables/meta.ts';
import { SCHEMA_VERSION } from '../clickhouse/tables/schema.ts';
import { parseServerVersion, type ServerVersion } from '../clickhouse/tables/server_version.ts';
import type { ShippingPosition } from './position.ts';

export interface ServerStart {
  host: string;
  startedMs: number;
}

export interface ClockEstimate {
  /** The server's clock minus this node's clock. */
  offsetNs: bigint;
  uncertaintyNs: bigint;
}

/** Returns the version of the server. Throws a ServerError. */
export async function askVersion(connection: Connection, signal: AbortSignal): Promise<ServerVersion> {
  const row = await readAnswerRow(connection, sql`SELECT version() AS version`, { version: 'text' }, signal);
  return parseServerVersion(row.version);
}

/** Reads the metadata of the tables. Throws a ServerError if the rows of this kreplay do not fit the tables. */
export async function checkSchema(connection: Connection, signal: AbortSignal): Promise<Meta> {
  const meta = await readMeta(connection, { signal, ...FEW_ROWS });
  const where = `the database ${connection.database}`;
  if (!meta) throw new ServerError(60, 'blocked', `${where} has no tables of kreplay: run \`kreplay fleet init\``);
  if (meta.schemaVersion < SCHEMA_VERSION)
    throw new ServerError(
      'malformed',
      'blocked',
      `${where} has schema ${meta.schemaVersion}, older than ${SCHEMA_VERSION}: run \`kreplay fleet upgrade\``,
    );
  return meta;
}

/** Returns the name of the server's shard, '' for servers without replication. Throws a ServerError. */
export async function askShard(
  connection: Connection,
  { isCurrent }: ServerVersion,
  { cluster }: Meta,
  signal: AbortSignal,
): Promise<string> {
  if (cluster === undefined) return '';
  // The macro `shard` also names the shard in the paths of the tables. An account needs no right to call getMacro().
  const asked = isCurrent
    ? sql`SELECT getMacro('shard') AS shard`
    : sql`SELECT substitution AS shard FROM system.macros WHERE macro = 'shard'`;
  return (await readAnswerRow(connection, asked, { shard: 'text' }, signal)).shard;
}

/**
 * Throws a ServerError if a part of the group that is being sent may be on another shard, because sums would count its
 * events twice.
 */
export function checkShard({ shard: before, group }: Pick<ShippingPosition, 'shard' | 'group'>, shard: string): void {
  if (before === undefined || before === shard || group === null) return;
  throw new ServerError(
    'moved',
    'blocked',
    `shard ${before} may have a part of the events that go next, and this is another shard, ${shard}: set the URL from before until they have arrived, or run \`kreplay ship --claim\` here if it is gone`,
  );
}

/** The latest report that a server has about a recording. */
export interface KnownNode {
  node: string;
  claim: string;
  /** Events with lower numbers have arrived. */
  shippedNumber: number;
  /** Time of the report, by the clock of the node. */
  atNs: bigint;
}

/** Returns the latest report about the recording; undefined if there is none. Throws a ServerError. */
export async function askNode(
  connection: Connection,
  recordingId: string,
  signal: AbortSignal,
): Promise<KnownNode | undefined> {
  const id = BigInt(`0x${recordingId}`);
  const latest = sql`SELECT argMax(claim, at) AS claim, argMax(node, at) AS node, max(shipped_number) AS shipped, max(at) AS latest FROM ${identifier('node')} WHERE recording = ${id} HAVING count() > 0`;
  const shape = { claim: 'text', node: 'text', shipped: 'number', latest: 'number' } as const;
  const [row] = await readTypedRows(connection, latest, shape, { signal, timeoutMs: QUESTION_MS, ...FEW_ROWS });
  if (!row) return undefined;
  const { claim, node, shipped, latest: atNs } = row;
  return { claim, node, shippedNumber: Number(shipped), atNs };
}

/**
 * Throws a ServerError if another shipper has claimed the recording, because both would give the same numbers to
 * different events. A copied machine, or a machine restored to an earlier state, has the same claim. There, a report
 * later than this shipper's own reports reveals the other shipper.
 */
export function checkClaim(
  known: KnownNode | undefined,
  recordingId: string,
  { claim, saidNs }: Pick<ShippingPosition, 'claim' | 'saidNs'>,
): void {
  if (!known || known.claim === '') return;
  if (known.claim === claim && (saidNs === undefined || known.atNs <= BigInt(saidNs))) return;
  throw new ServerError(
    'claimed',
    'blocked',
    `recording ${recordingId} is shipped by another process, for node ${known.node}: if this machine is a copy, remove its recording; if not, run \`kreplay ship --claim\` here`,
  );
}

/** Returns the host and the start time of the server. Throws a ServerError. */
export async function askStart(connection: Connection, signal: AbortSignal): Promise<ServerStart> {
  const { host, uptime } = await readAnswerRow(
    connection,
    sql`SELECT hostName() AS host, toUInt64(uptime()) AS uptime`,
    { host: 'text', uptime: 'number' },
    signal,
  );
  return { host, startedMs: Date.now() - Number(uptime) * 1000 };
}

const TRIES = 4;

/**
 * Measures the offset of the server's clock several times and returns the most certain result. Throws a ServerError.
 */
export async function askClock(
  connection: Connection,
  { isCurrent }: ServerVersion,
  signal: AbortSignal,
): Promise<ClockEstimate> {
  const precise = sql`SELECT toUInt64(toUnixTimestamp64Nano(now64(9))) AS ns, toUInt64(1) AS tick_ns`;
  const seconds = sql`SELECT toUInt64(toUnixTimestamp(now())) * 1000000000 AS ns, toUInt64(1000000000) AS tick_ns`;
  let best: ClockEstimate | undefined;
  for (let tries = 0; tries < TRIES; tries++) {
    const estimate = await measure(connection, isCurrent ? precise : seconds, signal);
    if (!best || estimate.uncertaintyNs < best.uncertaintyNs) best = estimate;
  }
  return best!;
}

async function measure(connection: Connection, statement: Sql, signal: AbortSignal) {
  const beforeNs = process.hrtime.bigint();
  const { ns, tick_ns: tick } = await readAnswerRow(connection, statement, { ns: 'number', tick_ns: 'number' }, signal);
  const tripNs = process.hrtime.bigint() - beforeNs;
  // The server read its clock at an unknown moment of the round trip, so the middle is assumed. Its clock shows the
  // start of a tick.
  const nowNs = BigInt(Date.now()) * 1_000_000n + MILLISECOND_NS / 2n;
  return {
    offsetNs: ns + tick / 2n - (nowNs - tripNs / 2n),
    uncertaintyNs: (tripNs + tick + MILLISECOND_NS) / 2n,
  };
}

const MILLISECOND_NS = 1_000_000n;

async function readAnswerRow<const Own extends Shape>(
  connection: Connection,
  statement: Sql,
  shape: Own,
  signal: AbortSignal,
): Promise<RowOf<Own>> {
  const [row] = await readTypedRows(connection, statement, shape, { signal, timeoutMs: QUESTION_MS, ...FEW_ROWS });
  if (row) return row;
  throw new ServerError('malformed', 'wait', 'the server answers a question with nothing');
}
