/**
 * Counts the events that began in spans of nodes. Senders store sums for each minute of their segments. Events are
 * counted one by one only in the partial minutes at both ends of a span:
 *
 *   span     from | | whole minutes ... | | to
 *   read     events | sums              | events
 */
import { readTypedRows } from '../../../agent/clickhouse/connection/rows.ts';
import { ServerError } from '../../../agent/clickhouse/connection/server_error.ts';
import { or, type Sql, sql, text } from '../../../agent/clickhouse/statements/sql.ts';
import { buildTimeRangeSql } from '../../../agent/clickhouse/tables/event_times.ts';
import type { SpanOfNode } from '../store.ts';
import { computeTimeRange, type StartRange } from './event_condition.ts';
import { chooseTableSql, type Fleet } from './fleet.ts';

const MINUTE_NS = 60_000_000_000n;

/** Maximum time of a count, because an answer waits for the count although it does not need it. */
const COUNT_MS_MAX = 3_000;

/**
 * Counts the events of each span. A count is undefined if the span begins before the oldest events that are kept. All
 * counts are undefined if the server fails or is too slow, because missing counts must not make the whole answer fail.
 */
export async function countFleetEvents(fleet: Fleet, spans: readonly SpanOfNode[]): Promise<(number | undefined)[]> {
  const signal = AbortSignal.timeout(COUNT_MS_MAX);
  try {
    return await countInTime(fleet, spans, signal);
  } catch (error) {
    if (!(error instanceof ServerError) && error !== signal.reason) throw error;
    return spans.map(() => undefined);
  }
}

async function countInTime(
  fleet: Fleet,
  spans: readonly SpanOfNode[],
  signal: AbortSignal,
): Promise<(number | undefined)[]> {
  const oldestNs = await fleet.oldestNs();
  const counts = spans.map(({ fromNs }) => (fromNs < oldestNs ? undefined : 0));
  const asked = spans.flatMap((span, place) => {
    const times = counts[place] === undefined ? undefined : computeTimeRange(span);
    return times ? [{ place, node: span.node, ...divideTimes(times) }] : [];
  });
  const ofMinutes = asked.flatMap(({ place, node, minutes }) =>
    minutes ? [{ place, condition: sql`node = ${text(node)} AND ${buildMinutesSql(minutes)}` }] : [],
  );
  const ofEvents = asked.flatMap(({ place, node, ends }) =>
    ends.map((end) => ({
      place,
      condition: sql`node = ${text(node)} AND ${buildTimeRangeSql(fleet.bucketNs, end)}`,
    })),
  );
  const addCounts = async (parts: readonly CountedPart[], count: Sql, table: Sql) => {
    if (parts.length === 0) return;
    const statement = buildCountSql(parts, count, table);
    const rows = await readTypedRows(fleet.connection, statement, COUNTED, { signal });
    for (const { place, n } of rows) counts[Number(place)]! += Number(n);
  };
  await addCounts(ofMinutes, sql`toUInt64(sum(n))`, sql`${chooseTableSql(fleet, 'stat')} FINAL`);
  // Counts distinct events, because a sender that was interrupted may have sent an event twice.
  await addCounts(ofEvents, sql`toUInt64(uniqExact(recording, number))`, chooseTableSql(fleet, 'event'));
  return counts;
}

/** Half-open range of minutes since the epoch. */
interface Minutes {
  from: bigint;
  end: bigint;
}

/** Divides a range into its whole minutes and the partial minutes at both ends. */
function divideTimes({ firstNs, lastNs }: StartRange): { minutes: Minutes | undefined; ends: StartRange[] } {
  const from = (firstNs + MINUTE_NS - 1n) / MINUTE_NS;
  const end = (lastNs + 1n) / MINUTE_NS;
  if (end <= from) return { minutes: undefined, ends: [{ firstNs, lastNs }] };
  const ends = [
    { firstNs, lastNs: from * MINUTE_NS - 1n },
    { firstNs: end * MINUTE_NS, lastNs },
  ];
  return { minutes: { from, end }, ends: ends.filter((range) => range.firstNs <= range.lastNs) };
}

const buildMinutesSql = ({ from, end }: Minutes) => sql`minute >= ${from} AND minute < ${end}`;

interface CountedPart {
  /** Index of the span. */
  place: number;
  condition: Sql;
}

const COUNTED = { place: 'number', n: 'number' } as const;

/**
 * Builds the statement that counts rows by span. Spans of one node do not overlap, so each row belongs to the first
 * part whose condition it meets.
 */
function buildCountSql(parts: readonly CountedPart[], count: Sql, table: Sql): Sql {
  const conditions = parts.map(({ condition }) => sql`(${condition})`);
  const choices = parts.map(({ place, condition }) => sql`${condition}, toUInt64(${place}), `);
  const chosen = choices.reduce((before, choice) => sql`${before}${choice}`);
  return sql`SELECT multiIf(${chosen}toUInt64(${parts.length})) AS place, ${count} AS n FROM ${table}
WHERE ${or(conditions)} GROUP BY place`;
}
