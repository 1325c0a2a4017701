/** The store of recordings on this machine. Reading blocks the thread that reads, one step at a time. */
import { type Box, toTimedRows } from '../../sums/box.ts';
import { KEPT_EVENTS_MAX } from '../../sums/differences/chosen_transactions.ts';
import { gatherPopulation, type PopulationRows } from '../../sums/differences/population.ts';
import { type Heatmap, type HeatmapColumns, heatmapCounter } from '../../sums/heatmap.ts';
import { type FilterChooser, findChosen, requireChosen } from '../chosen_filter.ts';
import type { ChosenFilter, FoundHeatmap, HeatmapRequest, Store } from '../store.ts';
import { follow, parseFollowPosition, startFollowing } from './follow.ts';
import type { Gathered, Gathering, Recordings } from './recordings.ts';
import { createScans, later, type Scans } from './scans.ts';

/**
 * The store takes the recordings over, and the scans: it closes them. A filter of transactions may need `eventsMax`
 * events.
 */
export function embeddedStore(
  recordings: Recordings,
  scans: Scans = createScans(recordings),
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

  const chooser: FilterChooser = {
    choose: scans.choose,
    async *gather(filter) {
      return (yield* inTurn(() => collectPopulation(recordings, filter, {}))).result;
    },
  };

  return {
    recordingStates: async () => recordings.recordingStates(),
    unreadable: async (nodes) => recordings.unreadable(nodes),
    scan: (request) => later(recordings.scan(request)),
    scanJson: scans.scanJson,
    stats: scans.stats,
    slowest: scans.slowest,
    async *heatmap(request) {
      if (request.of === 'events')
        return { map: yield* scans.eventHeatmap(request), columns: request.columns, reach: null };
      const filter = yield* requireChosen(chooser, request.filter, eventsMax);
      return yield* inTurn(() => mapOfTransactions(recordings, filter, request.computeColumns));
    },
    async *compare({ box, eventsMax: comparedMax, ...request }) {
      if (request.of === 'events') {
        const comparison = yield* scans.compare({ box, eventsMax: comparedMax, filter: request.filter });
        return comparison && { comparison, reach: null };
      }
      const filter = yield* findChosen(chooser, request.filter, comparedMax);
      if (!filter) return undefined;
      const { result, reach } = yield* inTurn(() => collectPopulation(recordings, filter, box));
      const comparison = yield* scans.compare({ population: result, box, eventsMax: comparedMax });
      return comparison && { comparison, reach };
    },
    startFollowing: async (filter, horizonNs, sinceNs) => startFollowing(recordings, filter, horizonNs, sinceNs),
    parseFollowPosition,
    follow: (request, signal) => follow(recordings, request, signal),
    event: async (eventId) => recordings.event(eventId),
    transaction: async (transactionId) => recordings.transaction(transactionId),
    async *transactions(request) {
      const filter = yield* requireChosen(chooser, request.filter, eventsMax);
      return yield* inTurn(() => recordings.transactions({ ...request, filter }));
    },
    async pin(request) {
      const pins = recordings.pin(request);
      if (pins) await recordings.syncPins();
      return pins;
    },
    async unpin(transactionId) {
      const wasPinned = recordings.unpin(transactionId);
      if (wasPinned) await recordings.syncPins();
      return wasPinned;
    },
    pins: async (transactionId) => recordings.pins(transactionId),
    services: async () => recordings.services(),
    nodes: async () => recordings.nodes(),
    losses: async (fromNs, toNs, nodes) => recordings.losses(fromNs, toNs, nodes),
    unended: async (nodes) => recordings.unended(nodes),
    transactionsById: async (ids) => recordings.transactionsById(ids),
    spans: async (nodes) => recordings.spans(nodes),
    async close() {
      await scans.close();
      recordings.close();
    },
  };
}

type ColumnsFor = Extract<HeatmapRequest, { of: 'transactions' }>['computeColumns'];

function* mapOfTransactions(
  recordings: Recordings,
  filter: ChosenFilter,
  computeColumns: ColumnsFor,
): Generator<void, FoundHeatmap> {
  const ignored = () => ({ add() {}, finish() {} });
  const all = filter.fromNs === undefined ? yield* recordings.gatherTransactions(filter, ignored) : undefined;
  const columns = computeColumns(all?.reach ?? null);
  const within = { ...filter, fromNs: columns.fromNs, toNs: columns.toNs };
  const { result, reach } = yield* recordings.gatherTransactions(within, () => transactionHeatmap(columns));
  return { map: result, columns, reach };
}

function transactionHeatmap(columns: HeatmapColumns): Gathering<Heatmap> {
  const counter = heatmapCounter(columns);
  return {
    add: (rows) => counter.add(toTimedRows(rows)),
    finish: counter.finish,
  };
}

/** Gathers the transactions that a filter selects, with whether each is in the box. */
function collectPopulation(
  recordings: Recordings,
  filter: ChosenFilter,
  box: Box,
): Generator<void, Gathered<PopulationRows>> {
  return recordings.gatherTransactions(filter, () => {
    const { add, finish } = gatherPopulation(box);
    return { add: (rows) => add(toTimedRows(rows)), finish };
  });
}
