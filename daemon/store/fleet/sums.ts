/** Queries that sum up events of a fleet. They run the same passes as for recordings, over scans of the tables. */
import { type Box, toTimedRows } from '../../sums/box.ts';
import { gatherPopulation, type PopulationRows } from '../../sums/differences/population.ts';
import { createHeatmapCounter } from '../../sums/heatmap.ts';
import { type FilterChooser, findChosen, requireChosen } from '../chosen_filter.ts';
import { createPasses, type Passes } from '../passes.ts';
import type {
  ChosenFilter,
  ComparisonRequest,
  FoundComparison,
  FoundHeatmap,
  HeatmapRequest,
  TransactionFilter,
  TransactionReach,
} from '../store.ts';
import type { Fleet } from './fleet.ts';
import { scanFleet } from './scan.ts';
import { createReachFinder, readSelectedTransactions, type SelectedRows } from './selected_transactions.ts';

/** Creates the passes over the tables of a fleet. */
export function createFleetPasses(fleet: Fleet): Passes {
  return createPasses({
    read({ filter, columns }) {
      // In this order, the rows of an event that was sent twice are adjacent, so the event is counted once.
      return scanFleet(fleet, { filter, order: 'asc', ...(columns && { columns }) });
    },
  });
}

export async function* computeFleetHeatmap(
  fleet: Fleet,
  passes: Passes,
  request: HeatmapRequest,
  eventsMax: number,
): AsyncGenerator<void, FoundHeatmap> {
  if (request.of === 'events')
    return { map: yield* passes.eventHeatmap(request), columns: request.columns, reach: null };
  const filter = yield* chooseFleetFilter(fleet, passes, request.filter, eventsMax);
  const all = filter.fromNs === undefined ? yield* passTransactions(fleet, filter, () => {}) : null;
  const columns = request.computeColumns(all);
  const counter = createHeatmapCounter(columns);
  const within = { ...filter, fromNs: columns.fromNs, toNs: columns.toNs };
  const reach = yield* passTransactions(fleet, within, (rows) => counter.add(toTimedRows(rows)));
  return { map: counter.finish(), columns, reach };
}

/** Compares the transactions or events in a box with the others. Returns undefined if this needs too many events. */
export async function* compareFleet(
  fleet: Fleet,
  passes: Passes,
  { box, eventsMax, ...request }: ComparisonRequest,
): AsyncGenerator<void, FoundComparison | undefined> {
  if (request.of === 'events') {
    const comparison = yield* passes.compare({ filter: request.filter, box, eventsMax });
    return comparison && { comparison, reach: null };
  }
  const filter = yield* findChosen(createFilterChooser(fleet, passes), request.filter, eventsMax);
  const found = filter && (yield* collectPopulation(fleet, filter, box, eventsMax));
  if (!found) return undefined;
  const { population, reach } = found;
  const comparison = yield* passes.compare({ population, box, eventsMax });
  return comparison && { comparison, reach };
}

/** Evaluates the filter's conditions on events. Rejects with a Problem if this needs too many events. */
export function chooseFleetFilter(
  fleet: Fleet,
  passes: Passes,
  filter: TransactionFilter,
  eventsMax: number,
): AsyncGenerator<void, ChosenFilter> {
  return requireChosen(createFilterChooser(fleet, passes), filter, eventsMax);
}

function createFilterChooser(fleet: Fleet, { choose }: Passes): FilterChooser {
  return {
    choose,
    async *gather(filter, eventsMax) {
      return (yield* collectPopulation(fleet, filter, {}, eventsMax))?.population;
    },
  };
}

/**
 * Gathers the selected transactions. Returns undefined if there are more than `eventsMax`, because each transaction has
 * at least one event.
 */
async function* collectPopulation(
  fleet: Fleet,
  filter: ChosenFilter,
  box: Box,
  eventsMax: number,
): AsyncGenerator<void, { population: PopulationRows; reach: TransactionReach | null } | undefined> {
  const { add, finish } = gatherPopulation(box);
  const finder = createReachFinder();
  let count = 0;
  for await (const rows of readSelectedTransactions(fleet, filter)) {
    count += rows.length;
    if (count > eventsMax) return undefined;
    add(toTimedRows(rows));
    finder.add(rows);
    yield;
  }
  return { population: finish(), reach: finder.reach() };
}

/** Passes all transactions that the filter selects to `add`, and returns the reach of these transactions. */
async function* passTransactions(
  fleet: Fleet,
  filter: ChosenFilter,
  add: (rows: SelectedRows) => void,
): AsyncGenerator<void, TransactionReach | null> {
  const finder = createReachFinder();
  for await (const rows of readSelectedTransactions(fleet, filter)) {
    add(rows);
    finder.add(rows);
    yield;
  }
  return finder.reach();
}
