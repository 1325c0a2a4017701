/** Reads names and the reports of nodes from the tables of a fleet. */

import { type RowOf, readTypedRows, requireSingleRow, type Shape } from '../../../agent/clickhouse/connection/rows.ts';
import { and, list, type Sql, sql, text } from '../../../agent/clickhouse/statements/sql.ts';
import { parseServerVersion } from '../../../agent/clickhouse/tables/server_version.ts';
import { UNKNOWN_UNLISTED } from '../../../agent/recording/format/in_progress.ts';
import {
  type ClockStep,
  type LossParts,
  listScopes,
  parseReason,
  parseScope,
  parseSums,
} from '../../../agent/recording/format/losses.ts';
import { parseUnended } from '../../../agent/recording/read/unended_text.ts';
import { max, U64_MAX } from '../../base/bigints.ts';
import {
  type FleetHealth,
  type FleetNodes,
  type FleetState,
  type MeasuredClock,
  NODE_GONE_NS,
  NODE_SILENT_NS,
} from '../fleet_state.ts';
import type { NodeLoss, NodeSpan, UnendedEvents } from '../store.ts';
import { joinUnended } from '../unended.ts';
import { formatRecordingId } from './answer_blocks.ts';
import { chooseTableSql, type Fleet, isWithoutShard, readRows, withFleetErrors } from './fleet.ts';

export async function readFleetServices(fleet: Fleet): Promise<string[]> {
  const statement = sql`SELECT DISTINCT text FROM ${chooseTableSql(fleet, 'name')} WHERE kind = 'service'`;
  const names = (await readRows(fleet, statement, { text: 'text' })).map((row) => row.text);
  const isDropped = (await fleet.oldestNs()) > 0n;
  const pinned = sql`SELECT DISTINCT service FROM ${chooseTableSql(fleet, 'pinned_transaction')} WHERE service != ''`;
  const kept = isDropped ? (await readRows(fleet, pinned, { service: 'text' })).map((row) => row.service) : [];
  return [...new Set([...names, ...kept])].sort();
}

/** Reads the names of all nodes. A node that has sent no events is known from its reports. */
export async function readFleetNodes(fleet: Fleet): Promise<string[]> {
  const said = chooseTableSql(fleet, 'node');
  const sent = chooseTableSql(fleet, 'segment');
  const rows = await readRows(
    fleet,
    sql`SELECT DISTINCT node FROM ${said} UNION ALL SELECT DISTINCT node FROM ${sent}`,
    { node: 'text' },
  );
  return [...new Set(rows.map((row) => row.node))].sort();
}

export async function readFleetLosses(
  fleet: Fleet,
  fromNs: bigint | undefined,
  toNs: bigint | undefined,
  nodes: readonly string[] | undefined,
  parts?: LossParts,
): Promise<NodeLoss[]> {
  if (nodes?.length === 0) return [];
  const conditions = [
    ...(fromNs !== undefined ? [sql`to_ns >= ${clampTime(fromNs)}`] : []),
    ...(toNs !== undefined ? [sql`from_ns < ${clampTime(toNs)}`] : []),
    ...buildNodeConditions(nodes),
    ...(parts === 'all' ? [] : [sql`scope IN (${list(listScopes(parts).map(text))})`]),
  ];
  // A loss may have several rows, because its count may grow.
  const statement = sql`SELECT min(from_ns) AS began_ns, max(to_ns) AS ended_ns, max(count) AS lost, any(cause) AS why, any(node) AS whose, any(scope) AS part, any(sums) AS more
FROM ${chooseTableSql(fleet, 'loss')} WHERE ${and(conditions)} GROUP BY recording, loss_id ORDER BY recording, loss_id`;
  const shape = {
    began_ns: 'number',
    ended_ns: 'number',
    lost: 'number',
    why: 'text',
    whose: 'text',
    part: 'text',
    more: 'text',
  } as const;
  const rows = await readRows(fleet, statement, shape);
  return rows.map((row) => ({
    fromNs: row.began_ns,
    toNs: row.ended_ns,
    lost: Number(row.lost),
    ...parseReason(row.why),
    ...parseScope(row.part),
    ...parseSums(row.more),
    node: row.whose,
  }));
}

/** A recording of a node on a shard. If a node has moved to another shard, both shards may have the same recording. */
export interface KnownRecording {
  node: string;
  recording: bigint;
}

export async function readFleetRecordings(fleet: Fleet): Promise<KnownRecording[]> {
  const rows = await readRows(fleet, sql`SELECT node, recording FROM ${chooseTableSql(fleet, 'node')} FINAL`, {
    node: 'text',
    recording: 'number',
  });
  return rows.map(({ node, recording }) => ({ node, recording }));
}

/**
 * Reads the spans in which nodes were recorded. A node whose last contact is longer ago than `forgetNs` counts as gone,
 * because hosts of a fleet come and go.
 */
export async function readFleetSpans(
  fleet: Fleet,
  nodes: readonly string[] | undefined,
  forgetNs: bigint,
): Promise<(NodeSpan & KnownRecording)[]> {
  const nowNs = BigInt(Date.now()) * 1_000_000n;
  if (nodes?.length === 0) return [];
  const statement = sql`SELECT node, recording, at, clock_offset_ns, created_ns, watermark_ns, ended_ns FROM ${chooseTableSql(fleet, 'node')} FINAL
WHERE ${and(buildNodeConditions(nodes))} ORDER BY recording`;
  const shape = {
    node: 'text',
    recording: 'number',
    at: 'number',
    clock_offset_ns: 'number',
    created_ns: 'number',
    watermark_ns: 'number',
    ended_ns: 'number',
  } as const;
  const rows = await readRows(fleet, statement, shape);
  return rows.map((row) => {
    const fromNs = row.created_ns;
    const toNs = row.watermark_ns;
    const isOver = hasEnded(row);
    // A node reports times according to its own clock.
    const atNs = row.at + row.clock_offset_ns;
    const heardOf = { atNs, isGone: isOver || nowNs - atNs > forgetNs };
    const { node, recording } = row;
    return { node, recording, fromNs, toNs, end: isOver ? 'closed' : 'open', isWholeFile: false, heardOf };
  });
}

/** Whether a recording's writer has ended, and all its events have arrived. */
const hasEnded = ({ ended_ns, watermark_ns }: { ended_ns: bigint; watermark_ns: bigint }): boolean =>
  ended_ns !== 0n && ended_ns <= watermark_ns;

const UNREADABLE = { events: [], lost: [], unlisted: UNKNOWN_UNLISTED };

/**
 * Reads the calls and requests in progress from each node's last report. All of them were still in progress at the time
 * up to which the node's events have arrived.
 */
export async function readFleetUnended(fleet: Fleet, nodes: readonly string[] | undefined): Promise<UnendedEvents> {
  if (nodes?.length === 0) return { events: [], lost: [], unlisted: [] };
  const statement = sql`SELECT node, created_ns, watermark_ns, ended_ns, in_progress FROM ${chooseTableSql(fleet, 'node')} FINAL
WHERE ${and(buildNodeConditions(nodes))} ORDER BY recording`;
  const shape = {
    node: 'text',
    in_progress: 'text',
    created_ns: 'number',
    watermark_ns: 'number',
    ended_ns: 'number',
  } as const;
  const rows = await readRows(fleet, statement, shape);
  const byNode = Map.groupBy(rows, ({ node }) => node);
  const begunNs = new Map([...byNode].map(([node, own]) => [node, own.map((row) => row.created_ns).reduce(max)]));
  return joinUnended(
    rows.map((row) => ({
      node: row.node,
      untilNs: row.watermark_ns,
      // A killed agent reports no end, so its recording counts as ended when the node has begun another recording.
      isOpen: !hasEnded(row) && begunNs.get(row.node)! <= max(row.created_ns, row.watermark_ns),
      ...(parseUnended(row.in_progress) ?? UNREADABLE),
    })),
  );
}

/**
 * Reads the measured clock of each node from its latest row. A node may have several recordings, and a recording may
 * have several rows until the server merges them.
 */
export async function readFleetClocks(fleet: Fleet, nodes: readonly string[]): Promise<MeasuredClock[]> {
  if (nodes.length === 0) return [];
  const statement = sql`SELECT node, argMax(clock_offset_ns, at) AS offset, argMax(clock_uncertainty_ns, at) AS uncertainty
FROM ${chooseTableSql(fleet, 'node')} WHERE ${and(buildNodeConditions(nodes))} GROUP BY node ORDER BY node`;
  const rows = await readRows(fleet, statement, { node: 'text', offset: 'number', uncertainty: 'number' });
  return rows.map((row) => ({
    node: row.node,
    offsetNs: row.offset,
    uncertaintyNs: row.uncertainty,
  }));
}

function buildNodeConditions(nodes: readonly string[] | undefined): Sql[] {
  return nodes ? [sql`node IN (${list([...new Set(nodes)].map(text))})`] : [];
}

function clampTime(time: bigint): bigint {
  return time < 0n ? 0n : time > U64_MAX ? U64_MAX : time;
}

/** Returns all clock steps of the nodes that made these recordings, by recording id. */
export async function readFleetClockSteps(
  fleet: Fleet,
  recordingIds: readonly string[],
): Promise<Map<string, ClockStep[]>> {
  if (recordingIds.length === 0) return new Map();
  const ids = list(recordingIds.map((id) => sql`${BigInt(`0x${id}`)}`));
  const statement = sql`SELECT recording, clock_id, any(boot_ns) AS boot, any(offset_ns) AS offset, any(kind) AS what, any(suspended_ns) AS slept
FROM ${chooseTableSql(fleet, 'clock')} WHERE recording IN (${ids}) GROUP BY recording, clock_id ORDER BY recording, clock_id`;
  const shape = {
    recording: 'number',
    clock_id: 'number',
    boot: 'number',
    offset: 'number',
    what: 'text',
    slept: 'number',
  } as const;
  const rows = Map.groupBy(await readRows(fleet, statement, shape), ({ recording }) => formatRecordingId(recording));
  return new Map(
    [...rows].map(([recordingId, own]) => [
      recordingId,
      own.map((row) => ({
        bootNs: row.boot,
        offsetNs: row.offset,
        kind: row.what as ClockStep['kind'],
        suspendedNs: row.slept,
      })),
    ]),
  );
}

/* Health of a fleet: its nodes, parts and disks. */

/** Time limit of each statement about health, because load balancers and scrapes of metrics do not wait long. */
const ANSWER_MS = 5_000;

const HOUR_NS = 3_600_000_000_000n;

export function createFleetHealth(fleet: Fleet): Omit<FleetHealth, 'watchShards'> {
  return {
    countNodes: () => withFleetErrors(() => countFleetNodes(fleet)),
    readState: () => withFleetErrors(() => readFleetState(fleet)),
    readClocks: (nodes) => withFleetErrors(() => readFleetClocks(fleet, nodes)),
  };
}

function readHealthRows<const Own extends Shape>(
  { connection }: Fleet,
  statement: Sql,
  shape: Own,
): Promise<RowOf<Own>[]> {
  return readTypedRows(connection, statement, shape, { timeoutMs: ANSWER_MS });
}

async function readFleetState(fleet: Fleet): Promise<FleetState> {
  const database = text(fleet.connection.database);
  const server = requireSingleRow(await readHealthRows(fleet, sql`SELECT version() AS version`, { version: 'text' }));
  const [parts] = await readHealthRows(
    fleet,
    sql`SELECT toUInt64(max(n)) AS most FROM (
  SELECT count() AS n FROM system.parts WHERE active AND database = ${database} GROUP BY table, partition)`,
    { most: 'number' },
  );
  // A partition's name is its hour since the epoch. Finding the oldest partition is faster than finding the oldest row.
  const [events] = await readHealthRows(
    fleet,
    sql`SELECT toUInt64(count()) AS n, min(toUInt64OrZero(partition)) AS hour
FROM system.parts WHERE active AND database = ${database} AND table = 'event'`,
    { n: 'number', hour: 'number' },
  );
  const nodes = await countNodesIfAllAnswer(fleet);
  const isCurrent = parseServerVersion(server.version).isCurrent;
  return {
    nodes,
    unavailableShards: nodes ? 0 : 1,
    partsMax: Number(parts?.most ?? 0n),
    oldestNs: events && events.n !== 0n ? events.hour * HOUR_NS : undefined,
    // ClickHouse 18.16 has no system.disks.
    diskFreeRatio: isCurrent ? computeFreeRatio(await readHealthRows(fleet, DISKS, DISK)) : undefined,
  };
}

const DISKS = sql`SELECT toUInt64(free_space) AS free, toUInt64(total_space) AS total FROM system.disks`;
const DISK = { free: 'number', total: 'number' } as const;

function computeFreeRatio(disks: readonly RowOf<typeof DISK>[]): number | undefined {
  const sized = disks.filter(({ total }) => total !== 0n);
  return sized.length === 0 ? undefined : Math.min(...sized.map(({ free, total }) => Number(free) / Number(total)));
}

async function countNodesIfAllAnswer(fleet: Fleet): Promise<FleetNodes | undefined> {
  try {
    return await countFleetNodes(fleet);
  } catch (error) {
    if (isWithoutShard(error)) return undefined;
    throw error;
  }
}

const NODES = {
  current: 'number',
  silent: 'number',
  ended: 'number',
  lag_0: 'number',
  lag_1: 'number',
  lag_2: 'number',
  lag_3: 'number',
} as const;

/**
 * Counts each node by its latest recording. A node reports times by its own clock, so the clock's offset is added
 * before a time is compared with the server's time.
 */
async function countFleetNodes(fleet: Fleet): Promise<FleetNodes> {
  const nowNs = sql`toInt64(toUnixTimestamp(now())) * 1000000000`;
  const latest = sql`SELECT node,
  argMax(toInt64(at) + clock_offset_ns, at) AS heard_ns,
  argMax(toInt64(watermark_ns) + clock_offset_ns, at) AS complete_ns,
  argMax(ended_ns != 0 AND ended_ns <= watermark_ns, at) AS is_over
FROM ${chooseTableSql(fleet, 'node')} GROUP BY node`;
  const judged = sql`SELECT ${nowNs} - complete_ns AS lag_ns,
  multiIf(is_over OR ${nowNs} - heard_ns > ${NODE_GONE_NS}, 'ended', ${nowNs} - heard_ns > ${NODE_SILENT_NS}, 'silent', 'current') AS state
FROM (${latest})`;
  const buildLagSql = (level: Sql) => sql`quantileExactIf(${level})(lag_ns, state = 'current')`;
  const found = await readHealthRows(
    fleet,
    sql`SELECT toUInt64(countIf(state = 'current')) AS current, toUInt64(countIf(state = 'silent')) AS silent,
  toUInt64(countIf(state = 'ended')) AS ended,
  ${buildLagSql(sql`0.5`)} AS lag_0, ${buildLagSql(sql`0.9`)} AS lag_1, ${buildLagSql(sql`0.99`)} AS lag_2, ${buildLagSql(sql`1`)} AS lag_3
FROM (${judged})`,
    NODES,
  );
  const row = requireSingleRow(found);
  const counts = { current: Number(row.current), silent: Number(row.silent), ended: Number(row.ended) };
  const lags = [row.lag_0, row.lag_1, row.lag_2, row.lag_3];
  // The server's time is read in whole seconds, so the lag of a node may seem to be negative.
  return { counts, lagNs: counts.current === 0 ? [] : lags.map((value) => (value < 0n ? 0n : value)) };
}
