/**
 * Reads, before and after the events of an answer, what the answer may lack, in the order that makes the result true:
 *
 *   beginAnswer: what is recorded, what is in progress -> the events of the answer -> cover...: what was lost
 *
 * A call that ends between the first and the second step is among the events; a file that turns out to be unreadable
 * while events are read is known in the third step.
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
  /** The nodes of the query; all if omitted. */
  nodes?: readonly string[] | undefined;
  /** Selects the calls and requests in progress that the answer may lack. */
  filter?: EventFilter | undefined;
  /**
   * Whether the answer is sent while events are recorded. Its queries are then repeated, and so their results must not
   * be cached.
   */
  isStream?: boolean;
}

export interface CoveredAnswer {
  /** The store to read the answer from; the queries of the answer may share rows that were already read. */
  readonly store: Store;
  readonly spans: readonly NodeSpan[];
  /** Calls and requests that were in progress when the answer began, or that began later. */
  readonly unended: FoundUnended;
  /** Set if the answer may lack shards of a fleet. */
  readonly shards: ShardWatch | undefined;
  /**
   * Coverage of an answer about events; if the filter selects one transaction, only gaps that concern that transaction.
   */
  coverEvents(filter: EventFilter): Promise<FoundCoverage>;
  /** Coverage of an answer about one transaction. */
  coverTransaction(transaction: TransactionSummary): Promise<FoundCoverage>;
  /** Coverage of an answer about a population; `reach` is the reach of its transactions, or null if there are none. */
  coverPopulation(population: Population, reach: TransactionReach | null): Promise<FoundCoverage>;
  /** Coverage of a list of the transactions that a filter selects. */
  coverList(filter: Population['filter'], reach: TransactionReach | null): Promise<FoundCoverage>;
  /** The coverage as the answer has it. */
  describe(found: FoundCoverage, detail: CoverageDetail | undefined): Promise<Coverage>;
}

/** Read the answer's events after this promise has resolved, and the coverage after the events. */
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
