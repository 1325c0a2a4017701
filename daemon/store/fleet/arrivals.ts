/** What has arrived at a fleet lately: segments and losses, by the clock of the server. */
import { type RowOf, single } from '../../../agent/clickhouse/connection/rows.ts';
import { and, list, or, type Sql, sql, text } from '../../../agent/clickhouse/statements/sql.ts';
import { parseReason } from '../../../agent/recording/format/losses.ts';
import type { EventFilter, NodeLoss } from '../store.ts';
import type { RowKey } from './answer_blocks.ts';
import { type Fleet, readRows, tableOf } from './fleet.ts';

/** A row may be visible only so long after the time that it has for its arrival; servers' clocks differ as well. */
export const OVERLAP_S = 5n;

export interface ArrivedSegment {
  /** The same for a segment that is sent again. */
  name: string;
  recording: bigint;
  firstNumber: bigint;
  endNumber: bigint;
  node: string;
  firstNs: bigint;
  lastNs: bigint;
}

export interface ArrivedLoss extends NodeLoss {
  name: string;
}

export interface Arrivals {
  /** Time of the server when it was asked. */
  nowS: bigint;
  /** In the order in which they arrived. */
  segments: ArrivedSegment[];
  losses: ArrivedLoss[];
}

export async function askNow(fleet: Fleet): Promise<bigint> {
  const asked = sql`SELECT toUInt64(toUnixTimestamp(now())) AS seconds`;
  return single(await readRows(fleet, asked, { seconds: 'number' })).seconds;
}

/** Returns what arrived first at `sinceS` or later. */
export async function arrivedSince(fleet: Fleet, sinceS: bigint, filter: EventFilter): Promise<Arrivals> {
  const nowS = await askNow(fleet);
  const bound = sql`toDateTime(${sinceS > 0n ? sinceS : 0n})`;
  return {
    nowS,
    segments: (await readRows(fleet, segmentsSince(fleet, bound, filter), SEGMENT)).map(segmentOf),
    losses: (await readRows(fleet, lossesSince(fleet, bound, filter), LOSS)).map(lossOf),
  };
}

function segmentsSince(fleet: Fleet, bound: Sql, filter: EventFilter): Sql {
  const table = tableOf(fleet, 'segment');
  return sql`SELECT recording, first_number, max(end_number) AS end, any(node) AS at, min(t_min) AS first, max(t_max) AS last
FROM ${table} WHERE ${among(fleet, sql`recording, first_number`, table, bound)} AND ${ofNodes(filter)}
GROUP BY recording, first_number HAVING min(arrived) >= ${bound} ORDER BY min(arrived), recording, first_number`;
}

/** A loss that has grown arrives again; one that is only sent again has arrived before. */
function lossesSince(fleet: Fleet, bound: Sql, filter: EventFilter): Sql {
  const table = tableOf(fleet, 'loss');
  return sql`SELECT recording, loss_id, any(node) AS at, any(cause) AS why, min(from_ns) AS first, max(to_ns) AS last,
  max(count) AS lost, max(if(arrived < ${bound}, count, 0)) AS before, toUInt64(min(arrived) < ${bound}) AS is_known
FROM ${table} WHERE ${among(fleet, sql`recording, loss_id`, table, bound)} AND ${ofNodes(filter)}
GROUP BY recording, loss_id HAVING lost > before OR is_known = 0 ORDER BY min(arrived), recording, loss_id`;
}

/** Rows with these keys, of which one arrived since. */
function among(fleet: Fleet, key: Sql, table: Sql, bound: Sql): Sql {
  const keys = sql`(SELECT ${key} FROM ${table} WHERE arrived >= ${bound})`;
  return fleet.isCluster ? sql`(${key}) GLOBAL IN ${keys}` : sql`(${key}) IN ${keys}`;
}

/** A tail has nothing of nodes that it excludes, neither events nor losses. */
function ofNodes({ nodes, excluded }: EventFilter): Sql {
  const names = (some: readonly string[]) => list([...new Set(some)].map(text));
  return and([
    ...(nodes ? [nodes.length > 0 ? sql`node IN (${names(nodes)})` : sql`0`] : []),
    ...(excluded?.nodes?.length ? [sql`node NOT IN (${names(excluded.nodes)})`] : []),
  ]);
}

const SEGMENT = {
  recording: 'number',
  first_number: 'number',
  end: 'number',
  at: 'text',
  first: 'number',
  last: 'number',
} as const;

function segmentOf(row: RowOf<typeof SEGMENT>): ArrivedSegment {
  return {
    name: nameOf(row.recording, row.first_number),
    recording: row.recording,
    firstNumber: row.first_number,
    endNumber: row.end,
    node: row.at,
    firstNs: row.first,
    lastNs: row.last,
  };
}

function nameOf(recording: bigint, number: bigint): string {
  return `${recording}:${number}`;
}

const LOSS = {
  recording: 'number',
  loss_id: 'number',
  at: 'text',
  why: 'text',
  first: 'number',
  last: 'number',
  lost: 'number',
} as const;

function lossOf(row: RowOf<typeof LOSS>): ArrivedLoss {
  return {
    name: nameOf(row.recording, row.loss_id),
    fromNs: row.first,
    toNs: row.last,
    lost: Number(row.lost),
    ...parseReason(row.why),
    node: row.at,
  };
}

/** Returns whether an event is of a segment that arrived before `sinceS`, or is one of these. */
export async function arrivedBefore(
  fleet: Fleet,
  keys: readonly RowKey[],
  sinceS: bigint,
  names: ReadonlySet<string>,
): Promise<(key: RowKey) => boolean> {
  if (keys.length === 0) return () => false;
  const wanted = [...Map.groupBy(keys, ({ recording }) => recording)].map(([recording, own]) => {
    const numbers = own.map(({ number }) => number).sort((a, b) => (a < b ? -1 : 1));
    return sql`(recording = ${recording} AND first_number <= ${numbers.at(-1)!} AND end_number > ${numbers[0]!})`;
  });
  const statement = sql`SELECT recording, first_number, max(end_number) AS end, toUInt64(toUnixTimestamp(min(arrived))) AS since
FROM ${tableOf(fleet, 'segment')} WHERE ${or(wanted)} GROUP BY recording, first_number`;
  const shape = { recording: 'number', first_number: 'number', end: 'number', since: 'number' } as const;
  const rows = await readRows(fleet, statement, shape);
  const known = rows.filter((row) => row.since < sinceS || names.has(nameOf(row.recording, row.first_number)));
  const byRecording = Map.groupBy(known, ({ recording }) => recording);
  return ({ recording, number }) =>
    (byRecording.get(recording) ?? []).some((row) => row.first_number <= number && row.end > number);
}
