/** The store of recordings on this machine. Reading blocks the thread that reads, one step at a time. */
import type { Store } from '../store.ts';
import { follow, positionOf, startFollowing } from './follow.ts';
import type { Recordings } from './recordings.ts';
import { later, type Scans, scansOf } from './scans.ts';

/** The store takes the recordings over, and the scans: it closes them. */
export function embeddedStore(recordings: Recordings, scans: Scans = scansOf(recordings)): Store {
  /** Lists of transactions are made one after another, because they share tables that grow meanwhile. */
  let lastList: Promise<void> = Promise.resolve();
  return {
    recordingStates: async () => recordings.recordingStates(),
    unreadable: async (nodes) => recordings.unreadable(nodes),
    scan: (request) => later(recordings.scan(request)),
    scanJson: scans.scanJson,
    stats: scans.stats,
    slowest: scans.slowest,
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
    async close() {
      await scans.close();
      recordings.close();
    },
  };
}
