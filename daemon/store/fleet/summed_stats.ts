/**
 * Sums of events by time and group. Senders store sums for each minute of their segments. The stored sums suffice if
 * the query groups and filters only by fields that they distinguish. Events outside whole minutes are read and added.
 * If the filter selects or excludes services, events of several owners are also read and added:
 *
 *   time     from | | whole minutes ............................. | | to
 *   read     events | sums of one owner, events of several owners | events
 */

import type { RowOf } from '../../../agent/clickhouse/connection/rows.ts';
import { and, identifier, list, type Sql, sql, text } from '../../../agent/clickhouse/statements/sql.ts';
import { SEVERAL_OWNERS } from '../../../agent/clickhouse/tables/schema.ts';
import type { EventFilter } from '../../../agent/recording/read/event_filter.ts';
import { EVENT_TYPES } from '../../../bpf/schema/index.ts';
import { addCell, type Cell } from '../../sums/cells.ts';
import { buildHistogram } from '../../sums/histogram.ts';
import {
  createStats,
  createStatsTable,
  type GroupCell,
  gatherCells,
  listStatsColumns,
  STATS_ROWS_MAX,
  type StatsOptions,
  type StatsTable,
} from '../../sums/stats.ts';
import { addBlocks, type StatsRequest } from '../passes.ts';
import { computeTimeRange, dropEmptyNames } from './event_condition.ts';
import { chooseTableSql, type Fleet, readRows } from './fleet.ts';
import { scanFleet } from './scan.ts';

const MINUTE_NS = 60_000_000_000n;
const MINUTES_MAX = 2n ** 32n;
const GROUPS = ['service', 'node', 'event_type'] as const;
/** Fields of a filter that the stored sums distinguish. */
const FIELDS = ['services', 'nodes', 'eventTypes', 'fromNs', 'toNs', 'excluded'];
const EXCLUDED_FIELDS = ['services', 'nodes', 'eventTypes'];

export async function* computeFleetStats(fleet: Fleet, request: StatsRequest): AsyncGenerator<void, StatsTable> {
  const { filter, bucketNs, groupBy } = request;
  const minutes = areSummed(request) ? computeWholeMinutes(filter) : undefined;
  const columns = listStatsColumns(groupBy);
  if (!minutes) {
    const stats = createStats(request);
    yield* addBlocks(stats, scanFleet(fleet, { filter, columns, order: 'asc' }));
    return stats.finish();
  }
  const merged = createCellMerger({ bucketNs, groupBy });
  const groups = Object.fromEntries(groupBy.map((name) => [name, 'text'] as const));
  for (const row of await readRows(fleet, buildSummedSql(fleet, request, minutes), { ...SUMMED, ...groups })) {
    const cell = toSummedCell(row);
    // A statement without groups returns a row even if no row matches.
    if (cell.durations.count === 0) continue;
    merged.add(computeBucketNs(request, row), [
      { group: groupBy.map((name) => (row as Record<string, unknown>)[name] as string), cell },
    ]);
  }
  for (const { within, also } of listRemainders(filter, minutes)) {
    const cells = gatherCells({ bucketNs, groupBy }, merged.add);
    yield* addBlocks(cells, scanFleet(fleet, { filter: within, columns, order: 'asc' }, also));
    cells.finish();
  }
  return merged.finish();
}

/** Whether the stored sums fit the groups, the buckets and the filter. */
function areSummed({ filter, bucketNs, groupBy }: StatsRequest): boolean {
  const hasOnly = (of: object, names: readonly string[]) =>
    Object.entries(of).every(([name, value]) => value === undefined || names.includes(name));
  return (
    groupBy.every((name) => (GROUPS as readonly string[]).includes(name)) &&
    (bucketNs === undefined || bucketNs % MINUTE_NS === 0n) &&
    hasOnly(filter, FIELDS) &&
    hasOnly(filter.excluded ?? {}, EXCLUDED_FIELDS)
  );
}

/** Half-open range of whole minutes. If the filter has no end, `end` is MINUTES_MAX. */
interface Minutes {
  from: bigint;
  end: bigint;
}

function computeWholeMinutes(filter: EventFilter): Minutes | undefined {
  const times = computeTimeRange(filter);
  if (!times) return undefined;
  const from = (times.firstNs + MINUTE_NS - 1n) / MINUTE_NS;
  const end = filter.toNs === undefined ? MINUTES_MAX : (times.lastNs + 1n) / MINUTE_NS;
  return end > from ? { from, end } : undefined;
}

function buildSummedSql(fleet: Fleet, { filter, bucketNs, groupBy }: StatsRequest, { from, end }: Minutes): Sql {
  const { services, nodes, eventTypes, excluded = {} } = filter;
  const bucket = bucketNs === undefined ? sql`toUInt32(0)` : sql`intDiv(minute, ${bucketNs / MINUTE_NS})`;
  const conditions = [
    sql`minute >= ${from} AND minute < ${end}`,
    // A newer kreplay may have stored event types that this version does not know.
    buildInSql(sql`event_type`, EVENT_TYPES),
    ...(eventTypes ? [buildInSql(sql`event_type`, eventTypes)] : []),
    ...(nodes ? [buildInSql(sql`node`, nodes)] : []),
    ...(services ? [buildInSql(sql`owner`, dropEmptyNames(services))] : []),
    ...(excluded.eventTypes ? [sql`NOT ${buildInSql(sql`event_type`, excluded.eventTypes)}`] : []),
    ...(excluded.nodes ? [sql`NOT ${buildInSql(sql`node`, excluded.nodes)}`] : []),
    ...(excluded.services ? [sql`NOT ${buildInSql(sql`owner`, dropEmptyNames(excluded.services))}`] : []),
    ...(isOfOwners(filter) ? [sql`owner != ${text(SEVERAL_OWNERS)}`] : []),
  ];
  const groups = groupBy.map((name) => identifier(name));
  return sql`SELECT ${list([sql`${bucket} AS bucket`, ...groups, ...SUMS])} FROM ${chooseTableSql(fleet, 'stat')} FINAL
WHERE ${and(conditions)} GROUP BY ${list([sql`bucket`, ...groups])} LIMIT ${STATS_ROWS_MAX + 1}`;
}

function buildInSql(column: Sql, texts: readonly string[]): Sql {
  return texts.length === 0 ? sql`0` : sql`(${column} IN (${list([...new Set(texts)].map(text))}))`;
}

/** Whether the filter selects events by their owning services. */
function isOfOwners({ services, excluded }: EventFilter): boolean {
  return services !== undefined || excluded?.services !== undefined;
}

/** Builds three sums of parts, which together give a 128-bit sum, because a 64-bit sum would overflow. */
function buildWideSumSql(name: 'bytes' | 'duration'): Sql[] {
  const low = identifier(`${name}_low`);
  const high = identifier(`${name}_high`);
  return [
    sql`sum(bitAnd(${low}, 4294967295)) AS ${identifier(`${name}_0`)}`,
    sql`sum(bitShiftRight(${low}, 32)) AS ${identifier(`${name}_1`)}`,
    sql`sum(${high}) AS ${identifier(`${name}_2`)}`,
  ];
}

const HISTOGRAM = sql`sumMap(slots, arrayMap(one -> toUInt64(one), counts))`;
const SUMS: readonly Sql[] = [
  sql`sum(errors) AS failed`,
  sql`max(duration_max) AS longest`,
  ...buildWideSumSql('bytes'),
  ...buildWideSumSql('duration'),
  sql`tupleElement(${HISTOGRAM}, 1) AS used_slots`,
  sql`tupleElement(${HISTOGRAM}, 2) AS used_counts`,
];

const SUMMED = {
  bucket: 'number',
  failed: 'number',
  longest: 'number',
  used_slots: 'numbers',
  used_counts: 'numbers',
  bytes_0: 'number',
  bytes_1: 'number',
  bytes_2: 'number',
  duration_0: 'number',
  duration_1: 'number',
  duration_2: 'number',
} as const;
type SummedRow = RowOf<typeof SUMMED>;

function computeBucketNs({ bucketNs }: StatsRequest, row: SummedRow): bigint | null {
  return bucketNs === undefined ? null : row.bucket * bucketNs;
}

function toSummedCell(row: SummedRow): Cell {
  const joinWide = (name: 'bytes' | 'duration') =>
    row[`${name}_0`] + (row[`${name}_1`] << 32n) + (row[`${name}_2`] << 64n);
  const toNumbers = (name: 'used_slots' | 'used_counts') => row[name].map(Number);
  return {
    errorCount: Number(row.failed),
    durations: buildHistogram(row.longest, toNumbers('used_slots'), toNumbers('used_counts')),
    bytes: joinWide('bytes'),
    durationNs: joinWide('duration'),
  };
}

/**
 * Lists the events that the stored sums lack: events in partial minutes at either end, and events of several services.
 */
function listRemainders(filter: EventFilter, { from, end }: Minutes): { within: EventFilter; also: Sql[] }[] {
  const fromNs = from * MINUTE_NS;
  const toNs = end * MINUTE_NS;
  const isOpen = filter.toNs === undefined;
  const whole = { ...filter, ...(filter.fromNs !== undefined && { fromNs }), ...(!isOpen && { toNs }) };
  return [
    ...(filter.fromNs !== undefined && filter.fromNs < fromNs
      ? [{ within: { ...filter, toNs: fromNs }, also: [] }]
      : []),
    ...(isOfOwners(filter) ? [{ within: whole, also: [sql`owner = ${text(SEVERAL_OWNERS)}`] }] : []),
    ...(!isOpen && filter.toNs! > toNs ? [{ within: { ...filter, fromNs: toNs }, also: [] }] : []),
  ];
}

/** Creates a merger that adds up equal groups of equal buckets from several sources. */
function createCellMerger({ groupBy }: StatsOptions) {
  const buckets = new Map<bigint | null, Map<string, GroupCell>>();
  return {
    add(startNs: bigint | null, groups: readonly GroupCell[]): void {
      const known = buckets.get(startNs) ?? new Map<string, GroupCell>();
      for (const one of groups) {
        const key = JSON.stringify(one.group);
        const same = known.get(key);
        if (same) addCell(same.cell, one.cell);
        else known.set(key, one);
      }
      if (known.size > 0) buckets.set(startNs, known);
    },
    finish(): StatsTable {
      const table = createStatsTable(groupBy);
      const inOrder = [...buckets].sort(([a], [b]) => ((a ?? 0n) < (b ?? 0n) ? -1 : 1));
      for (const [startNs, groups] of inOrder) table.add(startNs, [...groups.values()]);
      return table.finish();
    },
  };
}
