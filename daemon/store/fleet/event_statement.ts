/** Statements that read events in the total order, also those that pins keep when the others were dropped. */
import { and, columns, type Sql, sql, unionAll } from '../../../agent/clickhouse/statements/sql.ts';
import { withinTimes } from '../../../agent/clickhouse/tables/event_times.ts';
import type { ScanRequest } from '../store.ts';
import type { TimeRange } from './event_condition.ts';
import { type Fleet, tableOf } from './fleet.ts';

type Order = ScanRequest['order'];

export interface AskedEvents {
  selected: readonly string[];
  conditions: readonly Sql[];
  order: Order;
  rowsMax: number;
  /** Whether the conditions alone select few of the rows at these times, without regard to the times. */
  selectFew?: boolean;
}

/** An event that is pinned and not dropped is in the answer several times; such rows are neighbours. */
export function eventStatement(fleet: Fleet, asked: AskedEvents & { times: TimeRange }, withPinned: boolean): Sql {
  const conditions = [withinTimes(fleet.bucketNs, asked.times), ...asked.conditions];
  const kept = selectFrom(tableOf(fleet, 'event'), { ...asked, conditions });
  if (!withPinned) return kept;
  const pinned = selectFrom(tableOf(fleet, 'pinned_event'), { ...asked, conditions });
  const both = unionAll([sql`SELECT * FROM (${kept})`, sql`SELECT * FROM (${pinned})`]);
  return sql`SELECT ${columns(asked.selected)} FROM (${both}) ${end(asked)}`;
}

export type AskedTimes = Omit<AskedEvents, 'selected'> & { times: TimeRange };

/** The times of the events that `eventStatement` selects. */
export function timesStatement(fleet: Fleet, asked: AskedTimes, withPinned: boolean): Sql {
  const condition = and([withinTimes(fleet.bucketNs, asked.times), ...asked.conditions]);
  const first = sql`ORDER BY timestamp_ns ${asked.order === 'asc' ? sql`` : sql`DESC`} LIMIT ${asked.rowsMax}`;
  const timesOf = (table: string) => sql`SELECT timestamp_ns FROM ${tableOf(fleet, table)} WHERE ${condition} ${first}`;
  if (!withPinned) return timesOf('event');
  const both = ['event', 'pinned_event'].map((table) => sql`SELECT * FROM (${timesOf(table)})`);
  return sql`SELECT timestamp_ns FROM (${unionAll(both)}) ${first}`;
}

export function pinnedStatement(fleet: Fleet, asked: AskedEvents): Sql {
  return selectFrom(tableOf(fleet, 'pinned_event'), asked);
}

/**
 * Columns are read only where rows are selected: by one condition that the server chooses, none of those on times, or by
 * all of them.
 */
function selectFrom(table: Sql, asked: AskedEvents): Sql {
  return sql`SELECT ${columns(asked.selected)} FROM ${table}
${asked.selectFew ? sql`WHERE` : sql`PREWHERE`} ${and(asked.conditions)} ${end(asked)}`;
}

function end({ order, rowsMax }: AskedEvents): Sql {
  return sql`ORDER BY ${totalOrder(order)} LIMIT ${rowsMax}`;
}

function totalOrder(order: Order): Sql {
  return order === 'asc' ? sql`timestamp_ns, recording, number` : sql`timestamp_ns DESC, recording DESC, number DESC`;
}
