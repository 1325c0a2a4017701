/** The store of recordings on this machine. Reading blocks the thread, one step at a time. */
import { DURATION_COLUMNS, longestDurations, type SlowestPage, slowestEvents } from '../../sums/slowest.ts';
import { createStats, type StatsTable, statsColumns } from '../../sums/stats.ts';
import type { ScannedBlock } from '../blocks/scanned_block.ts';
import type { SlowestRequest, StatsRequest, Store } from '../store.ts';
import { follow, positionOf, startFollowing } from './follow.ts';
import type { Recordings } from './recordings.ts';

/** The store takes the recordings over: it closes them. */
export function embeddedStore(recordings: Recordings): Store {
  /** Lists of transactions are made one after another, because they share tables that grow meanwhile. */
  let lastList: Promise<void> = Promise.resolve();
  return {
    recordingStates: async () => recordings.recordingStates(),
    unreadable: async (nodes) => recordings.unreadable(nodes),
    scan: (request) => later(recordings.scan(request)),
    stats: (request) => summedUp(recordings, request),
    slowest: (request) => slowestIn(recordings, request),
    startFollowing: async (filter, horizonNs, sinceNs) => startFollowing(recordings, filter, horizonNs, sinceNs),
    positionOf,
    follow: (request, signal) => follow(recordings, request, signal),
    event: async (eventId) => recordings.event(eventId),
    transaction: async (transactionId) => recordings.transaction(transactionId),
    async *transactions(request) {
      const before = lastList;
      const { promise, resolve } = Promise.withResolvers<void>();
      lastList = promise;
      try {
        await before;
        return yield* recordings.transactions(request);
      } finally {
        resolve();
      }
    },
    pin: async (request) => recordings.pin(request),
    unpin: async (transactionId) => recordings.unpin(transactionId),
    pins: async (transactionId) => recordings.pins(transactionId),
    services: async () => recordings.services(),
    nodes: async () => recordings.nodes(),
    losses: async (fromNs, toNs, nodes) => recordings.losses(fromNs, toNs, nodes),
    spans: async (nodes) => recordings.spans(nodes),
    close: async () => recordings.close(),
  };
}

/**
 * Returns the same values as promises. `yield*` in an asynchronous generator would cost three times as many turns of
 * the microtask queue, which counts where recordings alternate and each block is one row.
 */
function later<Value>(values: Generator<Value, void>): AsyncGenerator<Value, void> {
  return {
    next: async () => values.next(),
    return: async () => values.return(),
    throw: async (error) => values.throw(error),
    [Symbol.asyncIterator]() {
      return this;
    },
    async [Symbol.asyncDispose]() {
      values.return();
    },
  };
}

async function* summedUp(
  recordings: Recordings,
  { filter, bucketNs, groupBy }: StatsRequest,
): AsyncGenerator<void, StatsTable> {
  const stats = createStats({ bucketNs, groupBy });
  const request = { filter, columns: statsColumns(groupBy), reusesMemory: true };
  // Buckets are closed one after the other.
  const isOrdered = bucketNs !== undefined;
  yield* scannedInto(
    stats,
    isOrdered ? recordings.scan({ ...request, order: 'asc' }) : recordings.scanUnordered(request),
  );
  return stats.finish();
}

async function* slowestIn(
  recordings: Recordings,
  { filter, limit, after }: SlowestRequest,
): AsyncGenerator<void, SlowestPage> {
  const { maxDurationNs } = filter;
  const maxNs =
    after && (maxDurationNs === undefined || maxDurationNs > after.duration_ns) ? after.duration_ns : maxDurationNs;
  const within = { ...filter, ...(maxNs !== undefined && { maxDurationNs: maxNs }) };
  // One event more than the page has shows whether there are more.
  const durations = longestDurations({ limit: limit + 1, after });
  const request = { filter: within, columns: DURATION_COLUMNS, reusesMemory: true };
  yield* scannedInto(durations, recordings.scanUnordered(request));
  const shortestNs = durations.shortest();
  const { minDurationNs = 0n } = filter;
  const slowest = slowestEvents({ limit, after });
  const longFilter = { ...within, minDurationNs: shortestNs > minDurationNs ? shortestNs : minDurationNs };
  yield* scannedInto(slowest, recordings.scan({ filter: longFilter, order: 'asc', reusesMemory: true }));
  return slowest.page();
}

async function* scannedInto(
  sums: { add(scanned: ScannedBlock): void },
  blocks: Iterable<ScannedBlock>,
): AsyncGenerator<void, void> {
  for (const scanned of blocks) {
    sums.add(scanned);
    if (!scanned.nextAtHand) yield;
  }
}
