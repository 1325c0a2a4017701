/** How a fleet is: its nodes, parts and disks. */
import { type RowOf, rowsOf, type Shape, single } from '../../../agent/clickhouse/connection/rows.ts';
import { type Sql, sql, text } from '../../../agent/clickhouse/statements/sql.ts';
import { versionOf } from '../../../agent/clickhouse/tables/server_version.ts';
import { type FleetHealth, type FleetNodes, type FleetState, NODE_GONE_NS, NODE_SILENT_NS } from '../fleet_state.ts';
import { type Fleet, isWithoutShard, tableOf, withFleetErrors } from './fleet.ts';
import { clocksIn } from './fleet_info.ts';

/** A scrape or a load balancer does not wait for long. */
const ANSWER_MS = 5_000;

const HOUR_NS = 3_600_000_000_000n;

export function fleetHealth(fleet: Fleet): Omit<FleetHealth, 'watchShards'> {
  return {
    nodes: () => withFleetErrors(() => fleetNodes(fleet)),
    state: () => withFleetErrors(() => fleetState(fleet)),
    clocks: (nodes) => withFleetErrors(() => clocksIn(fleet, nodes)),
  };
}

function asked<const Own extends Shape>({ connection }: Fleet, statement: Sql, shape: Own): Promise<RowOf<Own>[]> {
  return rowsOf(connection, statement, shape, { timeoutMs: ANSWER_MS });
}

async function fleetState(fleet: Fleet): Promise<FleetState> {
  const database = text(fleet.connection.database);
  const server = single(await asked(fleet, sql`SELECT version() AS version`, { version: 'text' }));
  const [parts] = await asked(
    fleet,
    sql`SELECT toUInt64(max(n)) AS most FROM (
  SELECT count() AS n FROM system.parts WHERE active AND database = ${database} GROUP BY table, partition)`,
    { most: 'number' },
  );
  // Partitions are hours since the epoch, which is quicker to know than the oldest of all rows.
  const [events] = await asked(
    fleet,
    sql`SELECT toUInt64(count()) AS n, min(toUInt64OrZero(partition)) AS hour
FROM system.parts WHERE active AND database = ${database} AND table = 'event'`,
    { n: 'number', hour: 'number' },
  );
  const nodes = await nodesIfAllAnswer(fleet);
  const isCurrent = versionOf(server.version).isCurrent;
  return {
    nodes,
    unavailableShards: nodes ? 0 : 1,
    partsMax: Number(parts?.most ?? 0n),
    oldestNs: events && events.n !== 0n ? events.hour * HOUR_NS : undefined,
    // 18.16 has no system.disks.
    diskFreeRatio: isCurrent ? freeRatio(await asked(fleet, DISKS, DISK)) : undefined,
  };
}

const DISKS = sql`SELECT toUInt64(free_space) AS free, toUInt64(total_space) AS total FROM system.disks`;
const DISK = { free: 'number', total: 'number' } as const;

function freeRatio(disks: readonly RowOf<typeof DISK>[]): number | undefined {
  const sized = disks.filter(({ total }) => total !== 0n);
  return sized.length === 0 ? undefined : Math.min(...sized.map(({ free, total }) => Number(free) / Number(total)));
}

async function nodesIfAllAnswer(fleet: Fleet): Promise<FleetNodes | undefined> {
  try {
    return await fleetNodes(fleet);
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
 * A node is its latest recording. Its times are of its own clock, so they are compared with the server's after its offset
 * is added.
 */
async function fleetNodes(fleet: Fleet): Promise<FleetNodes> {
  const nowNs = sql`toInt64(toUnixTimestamp(now())) * 1000000000`;
  const latest = sql`SELECT node,
  argMax(toInt64(at) + clock_offset_ns, at) AS heard_ns,
  argMax(toInt64(watermark_ns) + clock_offset_ns, at) AS complete_ns,
  argMax(ended_ns != 0 AND ended_ns <= watermark_ns, at) AS is_over
FROM ${tableOf(fleet, 'node')} GROUP BY node`;
  const judged = sql`SELECT ${nowNs} - complete_ns AS lag_ns,
  multiIf(is_over OR ${nowNs} - heard_ns > ${NODE_GONE_NS}, 'ended', ${nowNs} - heard_ns > ${NODE_SILENT_NS}, 'silent', 'current') AS state
FROM (${latest})`;
  const lag = (level: Sql) => sql`quantileExactIf(${level})(lag_ns, state = 'current')`;
  const found = await asked(
    fleet,
    sql`SELECT toUInt64(countIf(state = 'current')) AS current, toUInt64(countIf(state = 'silent')) AS silent,
  toUInt64(countIf(state = 'ended')) AS ended,
  ${lag(sql`0.5`)} AS lag_0, ${lag(sql`0.9`)} AS lag_1, ${lag(sql`0.99`)} AS lag_2, ${lag(sql`1`)} AS lag_3
FROM (${judged})`,
    NODES,
  );
  const row = single(found);
  const counts = { current: Number(row.current), silent: Number(row.silent), ended: Number(row.ended) };
  const lags = [row.lag_0, row.lag_1, row.lag_2, row.lag_3];
  // Clocks are read in whole seconds, so a node that is not behind may seem to be ahead.
  return { counts, lagNs: counts.current === 0 ? [] : lags.map((value) => (value < 0n ? 0n : value)) };
}
