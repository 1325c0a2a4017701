/** Questions that sum up events of a fleet: the passes that sum up recordings, over scans of the tables. */
import type { Box } from '../../sums/box.ts';
import { choiceColumns, needsEvents, transactionChooser } from '../../sums/differences/chosen_transactions.ts';
import { COMPARED_COLUMNS, compareEvents } from '../../sums/differences/compare_events.ts';
import { compareTransactions, TRANSACTION_COLUMNS } from '../../sums/differences/compare_transactions.ts';
import { gatherPopulation, type PopulationRows, waitedRange } from '../../sums/differences/population.ts';
import { PROFILE_COLUMNS } from '../../sums/differences/profiles.ts';
import { HEATMAP_COLUMNS, heatmapCounter, timedRows } from '../../sums/heatmap.ts';
import { DURATION_COLUMNS, longestDurations, type SlowestPage, slowestEvents } from '../../sums/slowest.ts';
import type { ScannedBlock } from '../blocks/scanned_block.ts';
import type {
  ComparisonRequest,
  FoundComparison,
  FoundHeatmap,
  HeatmapRequest,
  ScanRequest,
  SlowestRequest,
  TransactionFilter,
  TransactionReach,
} from '../store.ts';
import type { Fleet } from './fleet.ts';
import { scanFleet } from './scan.ts';
import { type ChosenFilter, reachFinder, selectedTransactions } from './selected_transactions.ts';

export async function* findFleetSlowest(
  fleet: Fleet,
  { filter, limit, after }: SlowestRequest,
): AsyncGenerator<void, SlowestPage> {
  const { maxDurationNs } = filter;
  const maxNs =
    after && (maxDurationNs === undefined || maxDurationNs > after.duration_ns) ? after.duration_ns : maxDurationNs;
  const within = { ...filter, ...(maxNs !== undefined && { maxDurationNs: maxNs }) };
  // One event more than the page has shows whether there are more.
  const durations = longestDurations({ limit: limit + 1, after });
  yield* scannedInto(durations, scanned(fleet, { filter: within, columns: DURATION_COLUMNS }));
  const { minDurationNs = 0n } = filter;
  const shortestNs = durations.shortest();
  const slowest = slowestEvents({ limit, after });
  const longFilter = { ...within, minDurationNs: shortestNs > minDurationNs ? shortestNs : minDurationNs };
  yield* scannedInto(slowest, scanned(fleet, { filter: longFilter }));
  return slowest.page();
}

export async function* computeFleetHeatmap(
  fleet: Fleet,
  request: HeatmapRequest,
  choose: (filter: TransactionFilter) => AsyncGenerator<void, ChosenFilter>,
): AsyncGenerator<void, FoundHeatmap> {
  if (request.of === 'events') {
    const { filter, columns } = request;
    const counter = heatmapCounter(columns);
    const within = { ...filter, fromNs: columns.fromNs, toNs: columns.toNs };
    const sums = { add: (one: ScannedBlock) => counter.add(timedRows(one)) };
    yield* scannedInto(sums, scanned(fleet, { filter: within, columns: HEATMAP_COLUMNS }));
    return { map: counter.finish(), columns, reach: null };
  }
  const filter = yield* choose(request.filter);
  const all = filter.fromNs === undefined ? yield* gathered(fleet, filter, () => {}) : null;
  const columns = request.computeColumns(all);
  const counter = heatmapCounter(columns);
  const within = { ...filter, fromNs: columns.fromNs, toNs: columns.toNs };
  const reach = yield* gathered(fleet, within, ({ failed, ...rows }) =>
    counter.add({ ...rows, hasFailed: (row) => failed[row] === 1 }),
  );
  return { map: counter.finish(), columns, reach };
}

/** Returns undefined if there are too many events. */
export async function* compareIn(
  fleet: Fleet,
  { box, eventsMax, ...request }: ComparisonRequest,
): AsyncGenerator<void, FoundComparison | undefined> {
  if (request.of === 'events') {
    const comparer = compareEvents(box);
    const columns = [...new Set([...COMPARED_COLUMNS, ...PROFILE_COLUMNS])];
    const isWhole = yield* fewScannedInto(comparer, scanned(fleet, { filter: request.filter, columns }), eventsMax);
    return isWhole ? { comparison: yield* comparer.finish(), reach: null } : undefined;
  }
  const filter = yield* chosenFilter(fleet, request.filter, eventsMax);
  if (!filter) return undefined;
  const found = yield* collectPopulation(fleet, filter, box, eventsMax);
  if (!found) return undefined;
  const { population, reach } = found;
  const comparer = compareTransactions(population, box);
  const columns = [...new Set([...TRANSACTION_COLUMNS, ...PROFILE_COLUMNS])];
  const blocks = scanned(fleet, { filter: waitedRange(population), columns });
  if (!(yield* fewScannedInto(comparer, blocks, eventsMax))) return undefined;
  return { comparison: yield* comparer.finish(), reach };
}

/** Replaces the part of a filter that needs events; undefined if those are too many. */
export async function* chosenFilter(
  fleet: Fleet,
  filter: TransactionFilter,
  eventsMax: number,
): AsyncGenerator<void, ChosenFilter | undefined> {
  if (!needsEvents(filter)) return filter;
  const found = yield* collectPopulation(fleet, filter, {}, eventsMax);
  if (!found) return undefined;
  const { population } = found;
  if (population.count === 0) return { ...filter, hashes: new Set() };
  const chooser = transactionChooser(population, filter);
  const blocks = scanned(fleet, { filter: waitedRange(population), columns: choiceColumns(filter) });
  if (!(yield* fewScannedInto(chooser, blocks, eventsMax))) return undefined;
  const chosen = yield* chooser.finish();
  return {
    ...filter,
    hashes: new Set(population.hashes.subarray(0, population.count).filter((_, row) => chosen[row])),
  };
}

/** Undefined if there are more transactions than events are allowed: each has some. */
async function* collectPopulation(
  fleet: Fleet,
  filter: ChosenFilter,
  box: Box,
  eventsMax: number,
): AsyncGenerator<void, { population: PopulationRows; reach: TransactionReach | null } | undefined> {
  const { add, finish } = gatherPopulation(box);
  const finder = reachFinder();
  let count = 0;
  for await (const { failed, ...rows } of selectedTransactions(fleet, filter)) {
    count += rows.length;
    if (count > eventsMax) return undefined;
    add({ ...rows, hasFailed: (row) => failed[row] === 1 });
    finder.add({ failed, ...rows });
    yield;
  }
  return { population: finish(), reach: finder.reach() };
}

/** Passes all transactions that the filter selects to `add`; returns their reach. */
async function* gathered(
  fleet: Fleet,
  filter: ChosenFilter,
  add: (rows: ReturnType<typeof selectedTransactions> extends AsyncGenerator<infer Rows> ? Rows : never) => void,
): AsyncGenerator<void, TransactionReach | null> {
  const finder = reachFinder();
  for await (const rows of selectedTransactions(fleet, filter)) {
    add(rows);
    finder.add(rows);
    yield;
  }
  return finder.reach();
}

function scanned(fleet: Fleet, request: Omit<ScanRequest, 'order'>): AsyncGenerator<ScannedBlock, void> {
  // The order lets an event that was sent twice be counted once.
  return scanFleet(fleet, { ...request, order: 'asc' });
}

/** Returns false if there are more events. */
async function* fewScannedInto(
  sums: { readonly kept: number; add(scanned: ScannedBlock): void },
  blocks: AsyncIterable<ScannedBlock>,
  eventsMax: number,
): AsyncGenerator<void, boolean> {
  let events = 0;
  for await (const one of blocks) {
    events += one.block.rowCount;
    if (events > eventsMax) return false;
    sums.add(one);
    // A request that carries data of several transactions is kept for each.
    if (sums.kept > eventsMax) return false;
    if (!one.nextAtHand) yield;
  }
  return true;
}

export async function* scannedInto(
  sums: { add(scanned: ScannedBlock): void },
  blocks: AsyncIterable<ScannedBlock>,
): AsyncGenerator<void, void> {
  for await (const one of blocks) {
    sums.add(one);
    if (!one.nextAtHand) yield;
  }
}
