/** Questions that read much of the recordings. They are answered in steps, in the thread that asks or in others. */
import type { Box } from '../../sums/box.ts';
import { choiceColumns, transactionChooser } from '../../sums/differences/chosen_transactions.ts';
import { COMPARED_COLUMNS, compareEvents } from '../../sums/differences/compare_events.ts';
import { compareTransactions, TRANSACTION_COLUMNS } from '../../sums/differences/compare_transactions.ts';
import type { Comparison } from '../../sums/differences/comparison.ts';
import { type PopulationRows, waitedRange } from '../../sums/differences/population.ts';
import { PROFILE_COLUMNS } from '../../sums/differences/profiles.ts';
import { HEATMAP_COLUMNS, type Heatmap, heatmapCounter, timedRows } from '../../sums/heatmap.ts';
import { DURATION_COLUMNS, longestDurations, type SlowestPage, slowestEvents } from '../../sums/slowest.ts';
import { createStats, type StatsTable, statsColumns } from '../../sums/stats.ts';
import { jsonPieces, type NextBuffer } from '../blocks/event_json.ts';
import type { ScannedBlock } from '../blocks/scanned_block.ts';
import type {
  EventFilter,
  HeatmapRequest,
  ScanRequest,
  SlowestRequest,
  StatsRequest,
  Store,
  TransactionFilter,
} from '../store.ts';
import type { Recordings } from './recordings.ts';

/** Compares events, or those of transactions that are known already. */
export type CompareScan = { eventsMax: number; box: Box } & ({ filter: EventFilter } | { population: PopulationRows });

/** Which transactions of a population the events of the filter choose. */
export interface ChoiceScan {
  population: PopulationRows;
  filter: TransactionFilter;
  eventsMax: number;
}

export type EventHeatmapRequest = Extract<HeatmapRequest, { of: 'events' }>;

/** The methods mean the same as those of `Store`. */
export interface Scans extends Pick<Store, 'stats' | 'slowest' | 'scanJson'> {
  eventHeatmap(request: EventHeatmapRequest): AsyncGenerator<void, Heatmap>;
  /** Returns undefined if there are too many events. */
  compare(request: CompareScan): AsyncGenerator<void, Comparison | undefined>;
  /** Returns 1 for each row that is chosen; undefined if there are too many events. */
  choose(request: ChoiceScan): AsyncGenerator<void, Uint8Array | undefined>;
  close(): Promise<void>;
}

/** Scans that read in the calling thread. */
export function createScans(recordings: Recordings): Scans {
  return {
    stats: (request) => computeStats(recordings, request),
    slowest: (request) => findSlowest(recordings, request),
    scanJson: (request) => scanAsJson(recordings, request),
    eventHeatmap: (request) => computeEventHeatmap(recordings, request),
    compare: (request) => compareIn(recordings, request),
    choose: (request) => chooseIn(recordings, request),
    close: async () => {},
  };
}

/**
 * Returns the same values as promises. `yield*` in an asynchronous generator would cost three times as many turns of
 * the microtask queue, which counts where recordings alternate and each block is one row.
 */
export function later<Value>(values: Generator<Value, void>): AsyncGenerator<Value, void> {
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

export function scanAsJson(
  recordings: Recordings,
  request: ScanRequest,
  nextBuffer?: NextBuffer,
): AsyncGenerator<Uint8Array, void> {
  // Each block is written as JSON before the next one is read.
  return jsonPieces(later(recordings.scan({ ...request, reusesMemory: true })), '\n', nextBuffer);
}

export async function* computeStats(
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

export async function* findSlowest(
  recordings: Recordings,
  { filter, limit, after }: SlowestRequest,
): AsyncGenerator<void, SlowestPage> {
  const { maxDurationNs } = filter;
  const maxNs =
    after && (maxDurationNs === undefined || maxDurationNs > after.duration_ns) ? after.duration_ns : maxDurationNs;
  const within = { ...filter, ...(maxNs !== undefined && { maxDurationNs: maxNs }) };
  // One event more than the page has shows whether there are more.
  const durations = longestDurations({ limit: limit + 1, after });
  const request = { filter: within, columns: DURATION_COLUMNS, reusesMemory: true, risingMinNs: durations.shortest };
  yield* scannedInto(durations, recordings.scanUnordered(request));
  const shortestNs = durations.shortest();
  const { minDurationNs = 0n } = filter;
  const slowest = slowestEvents({ limit, after });
  const longFilter = { ...within, minDurationNs: shortestNs > minDurationNs ? shortestNs : minDurationNs };
  yield* scannedInto(slowest, recordings.scan({ filter: longFilter, order: 'asc', reusesMemory: true }));
  return slowest.page();
}

export async function* computeEventHeatmap(
  recordings: Recordings,
  { filter, columns }: EventHeatmapRequest,
): AsyncGenerator<void, Heatmap> {
  const counter = heatmapCounter(columns);
  const within = { ...filter, fromNs: columns.fromNs, toNs: columns.toNs };
  const request = { filter: within, columns: HEATMAP_COLUMNS, reusesMemory: true };
  yield* scannedInto({ add: (scanned) => counter.add(timedRows(scanned)) }, recordings.scanUnordered(request));
  return counter.finish();
}

export async function* compareIn(
  recordings: Recordings,
  request: CompareScan,
): AsyncGenerator<void, Comparison | undefined> {
  const isOfEvents = 'filter' in request;
  const comparer = isOfEvents ? compareEvents(request.box) : compareTransactions(request.population, request.box);
  const filter = isOfEvents ? request.filter : waitedRange(request.population);
  const columns = [...new Set([...(isOfEvents ? COMPARED_COLUMNS : TRANSACTION_COLUMNS), ...PROFILE_COLUMNS])];
  const blocks = recordings.scanUnordered({ filter, columns, reusesMemory: true });
  if (!(yield* fewScannedInto(comparer, blocks, request.eventsMax))) return undefined;
  return yield* comparer.finish();
}

export async function* chooseIn(
  recordings: Recordings,
  { population, filter, eventsMax }: ChoiceScan,
): AsyncGenerator<void, Uint8Array | undefined> {
  if (population.count === 0) return new Uint8Array(0);
  const chooser = transactionChooser(population, filter);
  const request = { filter: waitedRange(population), columns: choiceColumns(filter), reusesMemory: true };
  const isWhole = yield* fewScannedInto(chooser, recordings.scanUnordered(request), eventsMax);
  return isWhole ? yield* chooser.finish() : undefined;
}

/** Returns false if there are more events. */
async function* fewScannedInto(
  sums: { readonly kept: number; add(scanned: ScannedBlock): void },
  blocks: Iterable<ScannedBlock>,
  eventsMax: number,
): AsyncGenerator<void, boolean> {
  let events = 0;
  for (const scanned of blocks) {
    events += scanned.block.rowCount;
    if (events > eventsMax) return false;
    sums.add(scanned);
    // A request that carries data of several transactions is kept for each.
    if (sums.kept > eventsMax) return false;
    if (!scanned.nextAtHand) yield;
  }
  return true;
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
