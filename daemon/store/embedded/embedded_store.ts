/** The store of recordings on this machine. Reading blocks the thread that reads, one step at a time. */
import { gatherPopulation } from '../../sums/differences/population.ts';
import { type Heatmap, type HeatmapColumns, heatmapCounter } from '../../sums/heatmap.ts';
import type { Store, TransactionRows } from '../store.ts';
import { follow, positionOf, startFollowing } from './follow.ts';
import type { Gathered, Recordings } from './recordings.ts';
import { later, type Scans, scansOf } from './scans.ts';

/** The store takes the recordings over, and the scans: it closes them. */
export function embeddedStore(recordings: Recordings, scans: Scans = scansOf(recordings)): Store {
  /** Lists of transactions are made one after another, because they share tables that grow meanwhile. */
  let lastList: Promise<void> = Promise.resolve();

  async function* inTurn<Result>(work: () => Generator<void, Result>): AsyncGenerator<void, Result> {
    const before = lastList;
    const { promise, resolve } = Promise.withResolvers<void>();
    lastList = promise;
    try {
      await before;
      return yield* work();
    } finally {
      resolve();
    }
  }

  return {
    recordingStates: async () => recordings.recordingStates(),
    unreadable: async (nodes) => recordings.unreadable(nodes),
    scan: (request) => later(recordings.scan(request)),
    scanJson: scans.scanJson,
    stats: scans.stats,
    slowest: scans.slowest,
    heatmap: (request) =>
      request.of === 'events'
        ? scans.eventHeatmap(request)
        : inTurn(() => recordings.gatherTransactions(request.filter, () => transactionHeatmap(request.columns))),
    async *compare({ box, eventsMax, ...request }) {
      if (request.of === 'events') return yield* scans.compare({ box, eventsMax, filter: request.filter });
      const gather = () => {
        const { add, finish } = gatherPopulation(box);
        const hasFailed = (failed: Uint8Array) => (row: number) => failed[row] === 1;
        return {
          add: ({ failed, ...rows }: TransactionRows) => add({ ...rows, hasFailed: hasFailed(failed) }),
          finish,
        };
      };
      const population = yield* inTurn(() => recordings.gatherTransactions(request.filter, gather));
      return yield* scans.compare({ population, eventsMax });
    },
    startFollowing: async (filter, horizonNs, sinceNs) => startFollowing(recordings, filter, horizonNs, sinceNs),
    positionOf,
    follow: (request, signal) => follow(recordings, request, signal),
    event: async (eventId) => recordings.event(eventId),
    transaction: async (transactionId) => recordings.transaction(transactionId),
    transactions: (request) => inTurn(() => recordings.transactions(request)),
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

function transactionHeatmap(columns: HeatmapColumns): Gathered<Heatmap> {
  const counter = heatmapCounter(columns);
  return {
    add: ({ failed, ...rows }) => counter.add({ ...rows, hasFailed: (row) => failed[row] === 1 }),
    finish: counter.finish,
  };
}
