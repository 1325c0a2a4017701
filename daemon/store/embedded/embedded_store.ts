/** The store of recordings on this machine. Each step of a query blocks the calling thread. */
import { type Box, toTimedRows } from '../../sums/box.ts';
import { KEPT_EVENTS_MAX } from '../../sums/differences/chosen_transactions.ts';
import { gatherPopulation, type PopulationRows } from '../../sums/differences/population.ts';
import { createHeatmapCounter, type Heatmap, type HeatmapColumns } from '../../sums/heatmap.ts';
import { type FilterChooser, findChosen, requireChosen } from '../chosen_filter.ts';
import type { ChosenFilter, FoundHeatmap, HeatmapRequest, Store } from '../store.ts';
import { follow, parseFollowPosition, startFollowing } from './follow.ts';
import type { GatheredResult, Gathering, Recordings } from './recordings.ts';
import { createScans, type Scans, toAsyncGenerator } from './scans.ts';

/**
 * Creates the store, which owns `recordings` and `scans` and closes them. `eventsMax` limits the number of events that
 * a filter of transactions may need.
 */
export function createEmbeddedStore(
  recordings: Recordings,
  scans: Scans = createScans(recordings),
  eventsMax = KEPT_EVENTS_MAX,
): Store {
  /**
   * Resolves when the last list is complete. Lists of transactions are created one after another, because they share
   * tables, which each list updates.
   */
  let lastList: Promise<void> = Promise.resolve();

  async function* runInTurn<Result>(work: () => Generator<void, Result>): AsyncGenerator<void, Result> {
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
      return (yield* runInTurn(() => collectPopulation(recordings, filter, {}))).result;
    },
  };

  return {
    listRecordingStates: async () => recordings.listRecordingStates(),
    listUnreadable: async (nodes) => recordings.listUnreadable(nodes),
    scan: (request) => toAsyncGenerator(recordings.scan(request)),
    scanJson: scans.scanJson,
    computeStats: scans.stats,
    findSlowest: scans.slowest,
    explainTransaction: scans.explain,
    async *computeHeatmap(request) {
      if (request.of === 'events')
        return { map: yield* scans.eventHeatmap(request), columns: request.columns, reach: null };
      const filter = yield* requireChosen(chooser, request.filter, eventsMax);
      return yield* runInTurn(() => computeTransactionHeatmap(recordings, filter, request.computeColumns));
    },
    async *compare({ box, eventsMax: comparedMax, ...request }) {
      if (request.of === 'events') {
        const comparison = yield* scans.compare({ box, eventsMax: comparedMax, filter: request.filter });
        return comparison && { comparison, reach: null };
      }
      const filter = yield* findChosen(chooser, request.filter, comparedMax);
      if (!filter) return undefined;
      const { result, reach } = yield* runInTurn(() => collectPopulation(recordings, filter, box));
      const comparison = yield* scans.compare({ population: result, box, eventsMax: comparedMax });
      return comparison && { comparison, reach };
    },
    startFollowing: async (filter, horizonNs, sinceNs) => startFollowing(recordings, filter, horizonNs, sinceNs),
    parseFollowPosition,
    follow: (request, signal) => follow(recordings, request, signal),
    findEvent: async (eventId) => recordings.event(eventId),
    findTransaction: async (transactionId) => recordings.findTransaction(transactionId),
    async *listTransactions(request) {
      const filter = yield* requireChosen(chooser, request.filter, eventsMax);
      return yield* runInTurn(() => recordings.listTransactions({ ...request, filter }));
    },
    pin: (request) => recordings.pin(request),
    unpin: (transactionId) => recordings.unpin(transactionId),
    listPins: async (transactionId) => recordings.listPins(transactionId),
    listServices: async () => recordings.listServices(),
    listNodes: async () => recordings.nodes(),
    listLosses: async (fromNs, toNs, nodes, parts) => recordings.listLosses(fromNs, toNs, nodes, parts),
    countEvents: async (spans) => recordings.countEvents(spans),
    readUnended: async (nodes) => recordings.readUnended(nodes),
    findTransactionsById: async (ids) => recordings.findTransactionsById(ids),
    listSpans: async (nodes) => recordings.listSpans(nodes),
    async close() {
      await scans.close();
      recordings.close();
    },
  };
}

type ColumnsFor = Extract<HeatmapRequest, { of: 'transactions' }>['computeColumns'];

function* computeTransactionHeatmap(
  recordings: Recordings,
  filter: ChosenFilter,
  computeColumns: ColumnsFor,
): Generator<void, FoundHeatmap> {
  const createEmptyGathering = () => ({ add() {}, finish() {} });
  const all =
    filter.fromNs === undefined ? yield* recordings.gatherTransactions(filter, createEmptyGathering) : undefined;
  const columns = computeColumns(all?.reach ?? null);
  const within = { ...filter, fromNs: columns.fromNs, toNs: columns.toNs };
  const { result, reach } = yield* recordings.gatherTransactions(within, () => createHeatmapGathering(columns));
  return { map: result, columns, reach };
}

function createHeatmapGathering(columns: HeatmapColumns): Gathering<Heatmap> {
  const counter = createHeatmapCounter(columns);
  return {
    add: (rows) => counter.add(toTimedRows(rows)),
    finish: counter.finish,
  };
}

/** Gathers the transactions that a filter selects, and records which of them are in the box. */
function collectPopulation(
  recordings: Recordings,
  filter: ChosenFilter,
  box: Box,
): Generator<void, GatheredResult<PopulationRows>> {
  return recordings.gatherTransactions(filter, () => {
    const { add, finish } = gatherPopulation(box);
    return { add: (rows) => add(toTimedRows(rows)), finish };
  });
}
