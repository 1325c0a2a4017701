/**
 * Sums up where a transaction's time went: its slowest calls, and the time spent on each file. Calls count as the
 * transaction's own time, because their callers waited for them. Block requests are counted separately, because the
 * kernel makes most of them later.
 */

import type { ApiEvent } from '../../bpf/schema/api.ts';
import { EVENTS } from '../../bpf/schema/index.ts';
import type { AttributionQuality } from '../../bpf/schema/owner.ts';
import type { StatsRow } from '../sums/stats.ts';
import type { EventFilter, Store } from './store.ts';

const REQUESTS = 'block_io';
const SYNCS = 'sys_sync';
const AMBIGUOUS: AttributionQuality = 'ambiguous';
/** Event types of calls. The callers waited for these events. */
export const CALL_TYPES = EVENTS.map(({ name }) => name).filter((name) => name !== REQUESTS);

interface OperationSums {
  count: number;
  error_count: number;
  bytes: bigint;
}

export interface CallSums extends OperationSums {
  /** Sum of the calls' durations. */
  duration_ns: bigint;
}

export interface RequestSums extends OperationSums {
  /** Number of requests for which it is uncertain whether they carried data of the transaction. */
  ambiguous_count: number;
  ambiguous_bytes: bigint;
}

export interface FileSums extends CallSums {
  /** Path of the file; null for calls that use no file or a file whose path is not known. */
  file: string | null;
  /** Number of syncs among the calls. */
  sync_count: number;
  sync_duration_ns: bigint;
}

export interface TransactionTimes {
  calls: CallSums;
  requests: RequestSums;
  /** The slowest calls, with the longest call first. */
  slowest: ApiEvent[];
  /** Files, with the file that took the most time first. */
  files: FileSums[];
  file_count: number;
}

/** Sums up one transaction. `limit` is the maximum length of `slowest` and of `files`. */
export async function* sumTransactionTimes(
  store: Pick<Store, 'computeStats' | 'findSlowest'>,
  { transactionId, limit }: { transactionId: string; limit: number },
): AsyncGenerator<void, TransactionTimes> {
  const filter: EventFilter = { transactionId };
  const { events } = yield* store.findSlowest({ filter: { ...filter, eventTypes: CALL_TYPES }, limit });
  const { stats } = yield* store.computeStats({
    filter,
    bucketNs: undefined,
    groupBy: ['event_type', 'file', 'quality'],
  });
  const [requests, calls] = [true, false].map((of) =>
    stats.filter(({ group }) => (group.event_type === REQUESTS) === of),
  );
  const files = sumCallsByFile(calls!);
  return {
    calls: sumCalls(calls!),
    requests: sumRequests(requests!),
    slowest: events,
    files: files.slice(0, limit),
    file_count: files.length,
  };
}

function sumCallsByFile(calls: readonly StatsRow[]): FileSums[] {
  const byFile = Map.groupBy(calls, ({ group }) => (group.file ?? null) as string | null);
  const files = [...byFile].map(([file, rows]) => {
    const syncs = sumCalls(rows.filter(({ group }) => group.event_type === SYNCS));
    return { file, ...sumCalls(rows), sync_count: syncs.count, sync_duration_ns: syncs.duration_ns };
  });
  return files.sort((a, b) =>
    a.duration_ns < b.duration_ns ? 1 : a.duration_ns > b.duration_ns ? -1 : b.count - a.count,
  );
}

function sumCalls(rows: readonly StatsRow[]): CallSums {
  return { ...sumCounts(rows), duration_ns: rows.reduce((sum, { duration_ns }) => sum + duration_ns.sum, 0n) };
}

function sumRequests(rows: readonly StatsRow[]): RequestSums {
  const { count, bytes } = sumCounts(rows.filter(({ group }) => group.quality === AMBIGUOUS));
  return { ...sumCounts(rows), ambiguous_count: count, ambiguous_bytes: bytes };
}

function sumCounts(rows: readonly StatsRow[]): OperationSums {
  return {
    count: rows.reduce((sum, { count }) => sum + count, 0),
    error_count: rows.reduce((sum, { error_count }) => sum + error_count, 0),
    bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0n),
  };
}
