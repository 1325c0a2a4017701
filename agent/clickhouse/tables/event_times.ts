/** Builds conditions on the start times of events that use the sort order of the table `event`. */
import { integer, type Sql, sql } from '../statements/sql.ts';

const BUCKET_MAX = 2n ** 32n - 1n;

export interface StartBounds {
  /** Inclusive bounds of the events' start times. */
  firstNs: bigint;
  lastNs: bigint;
}

/**
 * Builds a condition on the start time. The bounds of `bucket` use the first column of the table's key; the bounds of
 * `timestamp_ns` select the partitions.
 */
export function buildTimeRangeSql(bucketNs: bigint, { firstNs, lastNs }: StartBounds): Sql {
  const first = firstNs / bucketNs;
  const last = lastNs / bucketNs;
  const times = sql`timestamp_ns >= ${firstNs} AND timestamp_ns <= ${lastNs}`;
  if (last > BUCKET_MAX) return times;
  return sql`bucket >= ${integer('UInt32', first)} AND bucket <= ${integer('UInt32', last)} AND ${times}`;
}
