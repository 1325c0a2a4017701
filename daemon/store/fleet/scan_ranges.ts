/** Where in the table `event` a filter's rows can be: ranges of time, and what is known of the rows there. */
import type { RowOf } from '../../../agent/clickhouse/connection/rows.ts';
import { readPins } from '../../../agent/clickhouse/pins/pins.ts';
import { and, list, type Sql, sql, text } from '../../../agent/clickhouse/statements/sql.ts';
import { TRACE_ID, TRANSACTION_ID } from '../../../agent/clickhouse/tables/schema.ts';
import type { EventFilter } from '../../../agent/recording/read/event_filter.ts';
import { type TimeRange, traceBytes } from './event_condition.ts';
import { type Fleet, readRows, tableOf } from './fleet.ts';
import { rowsOfTransaction } from './transactions_by_id.ts';

export interface ScanRanges {
  /** Ascending, without any two that touch. */
  ranges: TimeRange[];
  /** Conditions beside those of the filter, which let the server find the rows by its key. */
  more: Sql[];
  /** Number of events in the ranges, of all filters; undefined for ranges that are short, which need no steps. */
  events: bigint | undefined;
}

/** Ranges that are closer than this many buckets are read as one. */
const GAP_BUCKETS = 2n;
const TOUCHED = { t_min: 'number', t_max: 'number', owners: 'texts' } as const;

/** What began before `oldestNs` is only there as far as pins keep it. */
export async function scanRanges(
  fleet: Fleet,
  filter: EventFilter,
  times: TimeRange,
  oldestNs: bigint,
): Promise<ScanRanges> {
  const { transactionId, traceId } = filter;
  if (transactionId !== undefined) return rangesOfId(fleet, TRANSACTION_ID, transactionId, times, oldestNs);
  const trace = traceId === undefined ? undefined : traceBytes(traceId);
  if (trace) return rangesOfId(fleet, TRACE_ID, traceId!, times, oldestNs);
  const nodes = filter.nodes?.length ? [sql`node IN (${list(filter.nodes.map(text))})`] : [];
  const { ranges, ...rest } = await rangeOfSegments(fleet, nodes, times);
  if (times.firstNs >= oldestNs) return { ranges, ...rest };
  const all = [...ranges, ...(await rangesOfPins(fleet, times))].sort(byStart);
  return { ranges: joined(all, GAP_BUCKETS * fleet.bucketNs), ...rest };
}

async function rangesOfId(
  fleet: Fleet,
  kind: number,
  id: string,
  times: TimeRange,
  oldestNs: bigint,
): Promise<ScanRanges> {
  const rows: RowOf<typeof TOUCHED>[] = [];
  const tables = times.firstNs < oldestNs ? (['by_id', 'pinned_by_id'] as const) : (['by_id'] as const);
  for (const table of tables) rows.push(...(await rowsOfId(fleet, table, { kind, id, times })));
  const owners = new Set(rows.flatMap((row) => row.owners));
  const found = rows.map(({ t_min, t_max }) => ({ firstNs: t_min, lastNs: t_max })).sort(byStart);
  return {
    ranges: joined(found, GAP_BUCKETS * fleet.bucketNs).map((range) => within(range, times)),
    more: owners.size > 0 ? [sql`owner IN (${list([...owners].map(text))})`] : [],
    events: undefined,
  };
}

async function rowsOfId(
  fleet: Fleet,
  table: 'by_id' | 'pinned_by_id',
  { kind, id, times }: { kind: number; id: string; times: TimeRange },
): Promise<RowOf<typeof TOUCHED>[]> {
  if (fleet.answered && kind === TRANSACTION_ID) {
    const { firstNs, lastNs } = times;
    const rows = await rowsOfTransaction(fleet, table, id);
    return rows.filter(({ t_min, t_max }) => t_max >= firstNs && t_min <= lastNs);
  }
  const statement = sql`SELECT t_min, t_max, owners FROM ${tableOf(fleet, table)}
PREWHERE kind = ${kind} AND id = ${text(id)} AND ${touches(times)}`;
  return readRows(fleet, statement, TOUCHED);
}

/** What is committed: rows of a segment that is not are no part of an answer yet. */
async function rangeOfSegments(fleet: Fleet, conditions: readonly Sql[], times: TimeRange): Promise<ScanRanges> {
  const statement = sql`SELECT sum(n) AS events, min(t_min) AS first_ns, max(t_max) AS last_ns
FROM ${tableOf(fleet, 'segment')} WHERE ${and([...conditions, touches(times)])}`;
  const [row] = await readRows(fleet, statement, { events: 'number', first_ns: 'number', last_ns: 'number' });
  if (!row || row.events === 0n) return { ranges: [], more: [], events: 0n };
  const whole = { firstNs: row.first_ns, lastNs: row.last_ns };
  const range = within(whole, times);
  // Events are taken to be spread evenly.
  const share = (lengthOf(range) * row.events) / lengthOf(whole);
  return { ranges: [range], more: [], events: share };
}

/** The times in which pins keep something. */
async function rangesOfPins(fleet: Fleet, times: TimeRange): Promise<TimeRange[]> {
  const pins = await readPins(fleet.connection, fleet);
  return pins
    .filter(({ fromNs, endNs }) => endNs >= times.firstNs && fromNs <= times.lastNs)
    .map(({ fromNs, endNs }) => within({ firstNs: fromNs, lastNs: endNs }, times));
}

function byStart(a: TimeRange, b: TimeRange): number {
  return a.firstNs < b.firstNs ? -1 : a.firstNs > b.firstNs ? 1 : 0;
}

function touches({ firstNs, lastNs }: TimeRange): Sql {
  return sql`t_max >= ${firstNs} AND t_min <= ${lastNs}`;
}

/** Both bounds are inclusive, and the two overlap. */
function within(range: TimeRange, { firstNs, lastNs }: TimeRange): TimeRange {
  return {
    firstNs: range.firstNs > firstNs ? range.firstNs : firstNs,
    lastNs: range.lastNs < lastNs ? range.lastNs : lastNs,
  };
}

function lengthOf({ firstNs, lastNs }: TimeRange): bigint {
  return lastNs - firstNs + 1n;
}

/** Joins ranges, which are in order of their starts, where the gap is short. */
function joined(ranges: readonly TimeRange[], gapNs: bigint): TimeRange[] {
  const found: TimeRange[] = [];
  for (const range of ranges) {
    const last = found.at(-1);
    if (!last || range.firstNs > last.lastNs + gapNs) found.push({ ...range });
    else if (range.lastNs > last.lastNs) last.lastNs = range.lastNs;
  }
  return found;
}
