/** Conditions on the times of events, as the table `event` is sorted by them. */
import { integer, type Sql, sql } from '../statements/sql.ts';

const BUCKET_MAX = 2n ** 32n - 1n;

export interface StartBounds {
  /** Inclusive bounds of the events' start times. */
  firstNs: bigint;
  lastNs: bigint;
}

/** The condition on buckets uses the first part of the key, and the condition on times selects the partitions. */
export function buildTimeRangeSql(bucketNs: bigint, { firstNs, lastNs }: StartBounds): Sql {
  const first = firstNs / bucketNs;
  const last = lastNs / bucketNs;
  const times = sql`timestamp_ns >= ${firstNs} AND timestamp_ns <= ${lastNs}`;
  if (last > BUCKET_MAX) return times;
  return sql`bucket >= ${integer('UInt32', first)} AND bucket <= ${integer('UInt32', last)} AND ${times}`;
}
