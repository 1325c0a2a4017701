/** The store of recordings on this machine. Reading blocks the thread, one step at a time. */
import { createStats, type StatsTable, statsColumns } from '../../sums/stats.ts';
import type { StatsRequest, Store } from '../store.ts';
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
  for (const scanned of recordings.scan({ filter, order: 'asc', columns: statsColumns(groupBy) })) {
    stats.add(scanned);
    if (!scanned.nextAtHand) yield;
  }
  return stats.finish();
}
