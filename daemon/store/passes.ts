/**
 * The queries that sum up many events, each as one or more passes over blocks of events. The blocks come from
 * recordings of this machine, in the answering thread or in a separate thread, or from the tables of a fleet: a pass is
 * the same for all these sources.
 *
 *   source.read(what the pass needs) -> block, block, ... -> the sums of the pass -> answer
 *
 * A pass yields where other work may run. When a pass requests the next block, it no longer needs the previous block.
 */
import type { EventFilter } from '../../agent/recording/read/event_filter.ts';
import type { Box } from '../sums/box.ts';
import {
  createTransactionChooser,
  listChoiceColumns,
  type ValueFilter,
} from '../sums/differences/chosen_transactions.ts';
import { COMPARED_COLUMNS, compareEvents } from '../sums/differences/compare_events.ts';
import { compareTransactions, TRANSACTION_COLUMNS } from '../sums/differences/compare_transactions.ts';
import type { Comparison } from '../sums/differences/comparison.ts';
import { computeWaitedRange, type PopulationRows } from '../sums/differences/population.ts';
import { PROFILE_COLUMNS } from '../sums/differences/profiles.ts';
import {
  createHeatmapCounter,
  HEATMAP_COLUMNS,
  type Heatmap,
  type HeatmapColumns,
  readTimedRows,
} from '../sums/heatmap.ts';
import {
  createLongestDurations,
  createSlowestEvents,
  DURATION_COLUMNS,
  type SlowestOptions,
  type SlowestPage,
} from '../sums/slowest.ts';
import { createStats, listStatsColumns, type StatsOptions, type StatsTable } from '../sums/stats.ts';
import { LINE_COLUMNS } from './blocks/column_lines.ts';
import type { ScannedBlock } from './blocks/scanned_block.ts';
import {
  createColumnsCollector,
  type ExplainedTransaction,
  type ExplainRequest,
  explainTransaction,
} from './explained_transaction.ts';

export interface BlockScanRequest {
  filter: EventFilter;
  /** Names of the columns to read; all columns if omitted. */
  columns?: readonly string[];
  /** Whether blocks must come in order of time. */
  isOrdered: boolean;
  /** Returns the current minimum duration, which rises during the scan. The source may leave out shorter events. */
  risingMinNs?: () => bigint;
}

export interface BlockSource {
  read(request: BlockScanRequest): Blocks;
}

/**
 * Blocks of events. Recordings return them without promises, because one promise per block would cost more than reading
 * small blocks.
 */
type Blocks = Iterable<ScannedBlock> | AsyncIterable<ScannedBlock>;

export interface StatsRequest extends StatsOptions {
  filter: EventFilter;
}

export interface SlowestRequest extends SlowestOptions {
  filter: EventFilter;
}

export interface EventHeatmapRequest {
  filter: EventFilter;
  columns: HeatmapColumns;
}

/** Requests a comparison of the events of a filter, or of the events of a population of transactions. */
export type CompareRequest = { eventsMax: number; box: Box } & (
  | { filter: EventFilter }
  | { population: PopulationRows }
);

/** Requests the transactions of a population whose events have the values in the filter. */
export interface ChoiceRequest {
  population: PopulationRows;
  filter: ValueFilter;
  eventsMax: number;
}

/** All passes by name. `compare`, `choose` and `explain` return undefined if there are too many events. */
export const PASSES = {
  stats: computeStats,
  slowest: findSlowest,
  eventHeatmap: computeEventHeatmap,
  compare,
  choose,
  explain,
};

export type PassName = keyof typeof PASSES;
export type PassRequest<Name extends PassName> = Parameters<(typeof PASSES)[Name]>[1];
export type Pass<Name extends PassName> = (request: PassRequest<Name>) => ReturnType<(typeof PASSES)[Name]>;
export type Passes = { [Name in PassName]: Pass<Name> };

/** Creates the passes that read from a source in the calling thread. */
export function createPasses(source: BlockSource): Passes {
  return bindPasses((name) => (request) => PASSES[name](source, request as never) as never);
}

/** Builds all passes from a function that returns one pass by its name. */
export function bindPasses(run: <Name extends PassName>(name: Name) => Pass<Name>): Passes {
  return {
    stats: run('stats'),
    slowest: run('slowest'),
    eventHeatmap: run('eventHeatmap'),
    compare: run('compare'),
    choose: run('choose'),
    explain: run('explain'),
  };
}

async function* computeStats(
  source: BlockSource,
  { filter, bucketNs, groupBy }: StatsRequest,
): AsyncGenerator<void, StatsTable> {
  const stats = createStats({ bucketNs, groupBy });
  // A bucket is complete when the next bucket begins, so blocks must be ordered.
  const isOrdered = bucketNs !== undefined;
  yield* addBlocks(stats, source.read({ filter, columns: listStatsColumns(groupBy), isOrdered }));
  return stats.finish();
}

async function* findSlowest(
  source: BlockSource,
  { filter, limit, after }: SlowestRequest,
): AsyncGenerator<void, SlowestPage> {
  const { maxDurationNs, minDurationNs = 0n } = filter;
  const maxNs =
    after && (maxDurationNs === undefined || maxDurationNs > after.duration_ns) ? after.duration_ns : maxDurationNs;
  const within = { ...filter, ...(maxNs !== undefined && { maxDurationNs: maxNs }) };
  // If there is one event more than the page can hold, there is a next page.
  const durations = createLongestDurations({ limit: limit + 1, after });
  const risingMinNs = durations.shortest;
  yield* addBlocks(
    durations,
    source.read({ filter: within, columns: DURATION_COLUMNS, isOrdered: false, risingMinNs }),
  );
  const shortestNs = durations.shortest();
  const slowest = createSlowestEvents({ limit, after });
  const longFilter = { ...within, minDurationNs: shortestNs > minDurationNs ? shortestNs : minDurationNs };
  yield* addBlocks(slowest, source.read({ filter: longFilter, isOrdered: true }));
  return slowest.page();
}

async function* computeEventHeatmap(
  source: BlockSource,
  { filter, columns }: EventHeatmapRequest,
): AsyncGenerator<void, Heatmap> {
  const counter = createHeatmapCounter(columns);
  const within = { ...filter, fromNs: columns.fromNs, toNs: columns.toNs };
  yield* addBlocks(
    { add: (scanned) => counter.add(readTimedRows(scanned)) },
    source.read({ filter: within, columns: HEATMAP_COLUMNS, isOrdered: false }),
  );
  return counter.finish();
}

async function* compare(source: BlockSource, request: CompareRequest): AsyncGenerator<void, Comparison | undefined> {
  const isOfEvents = 'filter' in request;
  const comparer = isOfEvents ? compareEvents(request.box) : compareTransactions(request.population, request.box);
  const filter = isOfEvents ? request.filter : computeWaitedRange(request.population);
  const columns = [...new Set([...(isOfEvents ? COMPARED_COLUMNS : TRANSACTION_COLUMNS), ...PROFILE_COLUMNS])];
  const blocks = source.read({ filter, columns, isOrdered: false });
  return (yield* addFewBlocks(comparer, blocks, request.eventsMax)) ? yield* comparer.finish() : undefined;
}

/** Chooses rows of the population. Returns an array with 1 for each chosen row. */
async function* choose(
  source: BlockSource,
  { population, filter, eventsMax }: ChoiceRequest,
): AsyncGenerator<void, Uint8Array | undefined> {
  if (population.count === 0) return new Uint8Array(0);
  const chooser = createTransactionChooser(population, filter);
  const blocks = source.read({
    filter: computeWaitedRange(population),
    columns: listChoiceColumns(filter),
    isOrdered: false,
  });
  return (yield* addFewBlocks(chooser, blocks, eventsMax)) ? yield* chooser.finish() : undefined;
}

async function* explain(
  source: BlockSource,
  request: ExplainRequest,
): AsyncGenerator<void, ExplainedTransaction | undefined> {
  return yield* explainTransaction(async function* (filter, eventsMax) {
    const collector = createColumnsCollector(eventsMax);
    const blocks = source.read({ filter, columns: LINE_COLUMNS, isOrdered: true });
    const isWhole = yield* addWhile(collector.add, blocks);
    return { columns: collector.finish(), isWhole };
  }, request);
}

/**
 * Adds blocks to sums. Returns false if more than `eventsMax` events are read or kept. An event that is kept for
 * several transactions counts once for each transaction.
 */
function addFewBlocks(
  sums: { readonly kept: number; add(scanned: ScannedBlock): void },
  blocks: Blocks,
  eventsMax: number,
): AsyncGenerator<void, boolean> {
  let events = 0;
  return addWhile((scanned) => {
    events += scanned.block.rowCount;
    if (events > eventsMax) return false;
    sums.add(scanned);
    return sums.kept <= eventsMax;
  }, blocks);
}

/** Adds all blocks to sums. */
export function addBlocks(sums: { add(scanned: ScannedBlock): void }, blocks: Blocks): AsyncGenerator<void, boolean> {
  return addWhile((scanned) => {
    sums.add(scanned);
    return true;
  }, blocks);
}

/** Adds blocks as long as `add` returns true; returns whether all blocks were added. */
async function* addWhile(add: (scanned: ScannedBlock) => boolean, blocks: Blocks): AsyncGenerator<void, boolean> {
  if (Symbol.asyncIterator in blocks) {
    for await (const scanned of blocks) {
      if (!add(scanned)) return false;
      if (!scanned.nextAtHand) yield;
    }
    return true;
  }
  for (const scanned of blocks) {
    if (!add(scanned)) return false;
    if (!scanned.nextAtHand) yield;
  }
  return true;
}
