/** Events that are too many to be drawn one by one, as counts by process and time. */
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
  /** A value for each bucket. */
  density: Density;
}

export interface BucketCounts {
  /** Start of the first bucket, nanoseconds since the epoch. */
  baseNs: bigint;
  bucketNs: bigint;
  bucketCount: number;
  /** Processes with the most events come first. */
  processes: ProcessCounts[];
  /** Density of all processes together. */
  all: Density;
}

/** The length of the shortest bucket such that at most `most` buckets cover the time from `firstNs` to `lastNs`. */
export function computeBucketNs(firstNs: bigint, lastNs: bigint, most: number): bigint {
  const length = lastNs - firstNs + 1n;
  // The first bucket may begin before the first event, which takes one bucket more.
  const bucketNs = length / BigInt(Math.max(most - 1, 1)) + 1n;
  return bucketNs;
}

interface Ended {
  last_end_ns: number | bigint | null;
}

/** The last end of a transaction's events: its data may be written back after its own end. */
export function computeLastEndNs({ last_end_ns, written_back }: Ended & { written_back: Ended }): bigint {
  const own = BigInt(last_end_ns ?? 0);
  const later = BigInt(written_back.last_end_ns ?? 0);
  return own > later ? own : later;
}

/**
 * Buckets begin at whole multiples of their length since the epoch, as those of the daemon do. Rows after `lastNs`,
 * recorded since it was read, extend the buckets.
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
 * Upper bound for the events that began from `fromNs` to before `toNs`, nanoseconds since the epoch: it sums whole
 * buckets.
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
