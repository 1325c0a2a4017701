/** Reads the events of some segments that are not after a key. */

import { or, type Sql, sql } from '../../../agent/clickhouse/statements/sql.ts';
import { min } from '../../base/bigints.ts';
import type { EventFilter } from '../store.ts';
import { answerBlocks, type RowKey } from './answer_blocks.ts';
import type { ArrivedSegment } from './arrivals.ts';
import { eventCondition } from './event_condition.ts';
import { eventStatement } from './event_statement.ts';
import type { Fleet } from './fleet.ts';
import { type FollowedRow, rowsOf } from './followed_rows.ts';
import { following } from './scan.ts';

export interface LateRequest {
  filter: EventFilter;
  segments: readonly ArrivedSegment[];
  /** The events began at this time or later ... */
  fromNs: bigint;
  /** ... and are not after this key, ... */
  key: RowKey;
  /** ... but after this one. */
  after: RowKey | undefined;
  rowsMax: number;
}

export interface LateRows {
  /** In the total order. */
  rows: FollowedRow[];
  /** The last key that was read, if there may be more. */
  readTo: RowKey | undefined;
}

export async function lateRows(fleet: Fleet, request: LateRequest): Promise<LateRows> {
  const { filter, segments, fromNs, key, after, rowsMax } = request;
  const condition = eventCondition(filter);
  if (!condition) return { rows: [], readTo: undefined };
  const earliestNs = segments.map(({ firstNs }) => firstNs).reduce(min);
  const conditions = [
    or(segments.map(isIn)),
    sql`NOT ${following(key, 'asc')}`,
    ...(after ? [following(after, 'asc')] : []),
    condition,
  ];
  const blocks = answerBlocks();
  const times = { firstNs: earliestNs > fromNs ? earliestNs : fromNs, lastNs: key.timestampNs };
  const asked = { selected: blocks.selected, times, conditions, order: 'asc' as const, rowsMax };
  const rows: FollowedRow[] = [];
  let found = 0;
  for await (const decoded of fleet.connection.select(eventStatement(fleet, asked, false), { whole: true })) {
    found += decoded.rowCount;
    for (const scanned of blocks.read(decoded, rowsMax)) rows.push(...rowsOf(scanned));
  }
  return { rows, readTo: found < rowsMax ? undefined : blocks.last };
}

function isIn({ recording, firstNumber, endNumber }: ArrivedSegment): Sql {
  return sql`(recording = ${recording} AND number >= ${firstNumber} AND number < ${endNumber})`;
}
