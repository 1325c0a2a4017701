/** The store of recordings on this machine. Reading blocks the thread that reads, one step at a time. */
import { Problem } from '../../problem.ts';
import { KEPT_EVENTS_MAX } from '../../sums/differences/chosen_transactions.ts';
import { type Heatmap, type HeatmapColumns, heatmapCounter } from '../../sums/heatmap.ts';
import type { Store, TransactionFilter } from '../store.ts';
import { chosenFilter, populationOf } from './chosen.ts';
import { follow, positionOf, startFollowing } from './follow.ts';
import type { ChosenFilter, Gathered, Recordings } from './recordings.ts';
import { later, type Scans, scansOf } from './scans.ts';

/**
 * The store takes the recordings over, and the scans: it closes them. A filter of transactions may need `eventsMax`
 * events.
 */
export function embeddedStore(
  recordings: Recordings,
  scans: Scans = scansOf(recordings),
  eventsMax = KEPT_EVENTS_MAX,
): Store {
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

  const parts = { recordings, scans, inTurn };
  async function* chosen(filter: TransactionFilter): AsyncGenerator<void, ChosenFilter> {
    const found = yield* chosenFilter(parts, filter, eventsMax);
    if (found) return found;
    const detail = `more than ${eventsMax} events would have to be read: ask for a window of less time`;
    throw new Problem('too_many_events', detail);
  }

  return {
    recordingStates: async () => recordings.recordingStates(),
    unreadable: async (nodes) => recordings.unreadable(nodes),
    scan: (request) => later(recordings.scan(request)),
    scanJson: scans.scanJson,
    stats: scans.stats,
    slowest: scans.slowest,
    async *heatmap(request) {
      if (request.of === 'events') return yield* scans.eventHeatmap(request);
      const filter = yield* chosen(request.filter);
      return yield* inTurn(() => recordings.gatherTransactions(filter, () => transactionHeatmap(request.columns)));
    },
    async *compare({ box, eventsMax: comparedMax, ...request }) {
      if (request.of === 'events') return yield* scans.compare({ box, eventsMax: comparedMax, filter: request.filter });
      const filter = yield* chosenFilter(parts, request.filter, comparedMax);
      if (!filter) return undefined;
      const population = yield* inTurn(() => recordings.gatherTransactions(filter, () => populationOf(box)));
      return yield* scans.compare({ population, eventsMax: comparedMax });
    },
    startFollowing: async (filter, horizonNs, sinceNs) => startFollowing(recordings, filter, horizonNs, sinceNs),
    positionOf,
    follow: (request, signal) => follow(recordings, request, signal),
    event: async (eventId) => recordings.event(eventId),
    transaction: async (transactionId) => recordings.transaction(transactionId),
    async *transactions(request) {
      const filter = yield* chosen(request.filter);
      return yield* inTurn(() => recordings.transactions({ ...request, filter }));
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

function transactionHeatmap(columns: HeatmapColumns): Gathered<Heatmap> {
  const counter = heatmapCounter(columns);
  return {
    add: ({ failed, ...rows }) => counter.add({ ...rows, hasFailed: (row) => failed[row] === 1 }),
    finish: counter.finish,
  };
}
