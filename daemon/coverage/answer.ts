/**
 * Determines which events an answer may lack. Some state is read before the events of the answer and some after them,
 * because only this order gives a correct result:
 *
 *   beginAnswer: what is recorded, what is in progress -> the events of the answer -> cover...: what was lost
 *
 * A call that ends between the first and the second step is among the events. If a file turns out to be unreadable
 * while events are read, the third step reports it.
 */
import type { Coverage, CoverageDetail } from '../contract/coverage_schema.ts';
import type { Population } from '../contract/population.ts';
import type { ShardWatch } from '../store/fleet_state.ts';
import type { EventFilter, NodeSpan, Store, TransactionReach, TransactionSummary } from '../store/store.ts';
import { type FoundCoverage, readAnswerSpans } from './coverage.ts';
import type { FoundUnended } from './in_progress.ts';
import { readListCoverage, readPopulationCoverage } from './population_coverage.ts';
import { readEventCoverage, readTransactionCoverage } from './transaction_coverage.ts';
import { buildCoverageView } from './view.ts';

export interface AnswerOptions {
  nowNs: bigint;
  /** The nodes of the query; all nodes if omitted. */
  nodes?: readonly string[] | undefined;
  /** Selects the calls and requests in progress that the answer may lack. */
  filter?: EventFilter | undefined;
  /**
   * Whether the answer is sent while events are recorded. The queries of such an answer are repeated, so their results
   * must not be cached.
   */
  isStream?: boolean;
}

export interface CoveredAnswer {
  /** The store from which the answer must be read; the queries of the answer may share rows that were already read. */
  readonly store: Store;
  readonly spans: readonly NodeSpan[];
  /** Calls and requests that were in progress when the answer began, or that began later. */
  readonly unended: FoundUnended;
  /** Detects shards of a fleet that the answer lacks; undefined if there are no shards. */
  readonly shards: ShardWatch | undefined;
  /**
   * Returns the coverage of an answer about events. If the filter selects one transaction, the coverage has only the
   * gaps that concern that transaction.
   */
  coverEvents(filter: EventFilter): Promise<FoundCoverage>;
  /** Returns the coverage of an answer about one transaction. */
  coverTransaction(transaction: TransactionSummary): Promise<FoundCoverage>;
  /** Returns the coverage of an answer about a population; `reach` is null if the population has no transactions. */
  coverPopulation(population: Population, reach: TransactionReach | null): Promise<FoundCoverage>;
  /** Returns the coverage of a list of the transactions that a filter selects. */
  coverList(filter: Population['filter'], reach: TransactionReach | null): Promise<FoundCoverage>;
  /** Converts a coverage to the form in which the answer contains it. */
  describe(found: FoundCoverage, detail: CoverageDetail | undefined): Promise<Coverage>;
}

/** Begins an answer. Its events must be read after this promise has resolved, and its coverage after the events. */
export async function beginAnswer(
  plainStore: Store,
  { nowNs, nodes, filter, isStream = false }: AnswerOptions,
): Promise<CoveredAnswer> {
  const store = (isStream ? undefined : plainStore.createAnswerStore?.()) ?? plainStore;
  const read = await readAnswerSpans(store, nodes, nowNs, filter);
  return {
    ...read,
    store,
    coverEvents: (ofEvents) => readEventCoverage(store, read, { filter: ofEvents, nowNs }),
    coverTransaction: (transaction) => readTransactionCoverage(store, read, transaction, nowNs),
    coverPopulation: (population, reach) => readPopulationCoverage(store, read, { ...population, reach, nowNs }),
    coverList: (ofList, reach) => readListCoverage(store, read, { filter: ofList, reach, nowNs }),
    describe: (found, detail = 'summary') => buildCoverageView(store, found, { spans: read.spans, detail }),
  };
}
