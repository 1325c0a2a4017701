/**
 * Where the rows of a page are within a step: a statement about their times alone takes the server a fraction of what
 * all columns of the step would. A filter leaves few rows of a bucket, or a page takes a small part of it:
 *
 *   step      |                                      |
 *   selected      x  x x   x        x   x  x    x
 *   a page of 4   [------- ]
 */
import { sql } from '../../../agent/clickhouse/statements/sql.ts';
import type { ScanRequest } from '../store.ts';
import type { TimeRange } from './event_condition.ts';
import { type AskedTimes, timesStatement } from './event_statement.ts';
import { type Fleet, readRows } from './fleet.ts';

/** Longer answers need most of what there is. */
const PROBED_ROWS_MAX = 16_384;
/** Fewer columns are read at once. */
const PROBED_COLUMNS_MIN = 12;

interface Asked extends Pick<ScanRequest, 'limit'> {
  selected: readonly string[];
}

export function isWorthProbing({ selected, limit = Number.POSITIVE_INFINITY }: Asked): boolean {
  return selected.length >= PROBED_COLUMNS_MIN && limit <= PROBED_ROWS_MAX;
}

export interface Probed {
  /** Time from the first to the last of the rows, `rowsMax` at most; undefined without any. */
  range: TimeRange | undefined;
  /** Whether there may be more in the step. */
  hasMore: boolean;
}

export async function probe(fleet: Fleet, asked: AskedTimes, withPinned: boolean): Promise<Probed> {
  const statement = sql`SELECT toUInt64(count()) AS found, min(timestamp_ns) AS first_ns, max(timestamp_ns) AS last_ns
FROM (${timesStatement(fleet, asked, withPinned)})`;
  const [row] = await readRows(fleet, statement, { found: 'number', first_ns: 'number', last_ns: 'number' });
  if (!row || row.found === 0n) return { range: undefined, hasMore: false };
  const range = { firstNs: row.first_ns, lastNs: row.last_ns };
  return { range, hasMore: row.found === BigInt(asked.rowsMax) };
}
