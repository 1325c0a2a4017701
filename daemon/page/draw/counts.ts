/** Counts events by process and time, for transactions with too many events to draw each event. */
import type { Density } from './density.ts';

/** A row of `/api/stats` by bucket, node, service, process and event type. */
export interface CountedRow {
  bucket_start_ns: number | bigint;
  group: { node: string; service: string; pid: number; event_type: string };
  count: number;
  error_count: number;
}

export interface ProcessCounts {
  node: string;
  service: string;
  pid: number;
  count: number;
  failedCount: number;
  /** Number of events of each type. */
  types: Map<string, number>;
  /** Numbers of events, with one value for each bucket. */
  density: Density;
}

export interface BucketCounts {
  /** Start of the first bucket, in nanoseconds since the epoch. */
  baseNs: bigint;
  bucketNs: bigint;
  bucketCount: number;
  /** Processes in descending order of `count`. */
  processes: ProcessCounts[];
  /** Density of all processes together. */
  all: Density;
}

/** Returns the shortest bucket length with which at most `most` buckets cover the time from `firstNs` to `lastNs`. */
export function computeBucketNs(firstNs: bigint, lastNs: bigint, most: number): bigint {
  const length = lastNs - firstNs + 1n;
  // The first bucket may begin before the first event, so one more bucket may be needed.
  const bucketNs = length / BigInt(Math.max(most - 1, 1)) + 1n;
  return bucketNs;
}

interface Ended {
  last_end_ns: number | bigint | null;
}

/**
 * Returns the end of a transaction's last event or of its last write-back, whichever is later: data may be written
 * back after the transaction has ended.
 */
export function computeLastEndNs({ last_end_ns, written_back }: Ended & { written_back: Ended }): bigint {
  const own = BigInt(last_end_ns ?? 0);
  const later = BigInt(written_back.last_end_ns ?? 0);
  return own > later ? own : later;
}

/**
 * Sums rows by bucket. As in the daemon, buckets begin at whole multiples of `bucketNs` since the epoch. Rows later
 * than `lastNs`, which were recorded after the page read `lastNs`, add further buckets.
 */
export function sumCounts(
  rows: readonly CountedRow[],
  firstNs: bigint,
  lastNs: bigint,
  bucketNs: bigint,
): BucketCounts {
  const baseNs = (firstNs / bucketNs) * bucketNs;
  const computeBucket = (ns: bigint | number) => Number((BigInt(ns) - baseNs) / bucketNs);
  const bucketCount =
    rows.reduce((most, row) => Math.max(most, computeBucket(row.bucket_start_ns)), computeBucket(lastNs)) + 1;
  const createDensity = () => ({ counts: new Uint32Array(bucketCount), failed: new Uint32Array(bucketCount) });
  const byKey = new Map<string, ProcessCounts>();
  const all = createDensity();
  for (const { bucket_start_ns, group, count, error_count } of rows) {
    const { node, service, pid, event_type } = group;
    const key = JSON.stringify([node, service, pid]);
    const process = byKey.get(key) ?? {
      node,
      service,
      pid,
      count: 0,
      failedCount: 0,
      types: new Map(),
      density: createDensity(),
    };
    byKey.set(key, process);
    process.count += count;
    process.failedCount += error_count;
    process.types.set(event_type, (process.types.get(event_type) ?? 0) + count);
    const bucket = computeBucket(bucket_start_ns);
    for (const { counts, failed } of [process.density, all]) {
      counts[bucket]! += count;
      failed[bucket]! += error_count;
    }
  }
  const processes = [...byKey.values()].sort((a, b) => b.count - a.count || a.pid - b.pid);
  return { baseNs, bucketNs, bucketCount, processes, all };
}

/**
 * Returns an upper bound for the number of events that began at `fromNs` or later and before `toNs`, in nanoseconds
 * since the epoch. The bound is the sum of all buckets that overlap this time.
 */
export function countMostEvents(
  { baseNs, bucketNs, bucketCount, all }: BucketCounts,
  fromNs: bigint,
  toNs: bigint,
): number {
  const computeBucket = (ns: bigint) => (ns <= baseNs ? 0 : Number((ns - baseNs) / bucketNs));
  let sum = 0;
  for (let at = computeBucket(fromNs); at <= Math.min(computeBucket(toNs - 1n), bucketCount - 1); at++)
    sum += all.counts[at]!;
  return sum;
}
