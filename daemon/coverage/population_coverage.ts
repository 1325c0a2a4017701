/**
 * Computes which events of many transactions may be missing. The transactions began in the window, but they may
 * continue after it, and on nodes that the query does not name:
 *
 *   window              from          to
 *   node asked for       [ ===  ===    |  === ]
 *   other node           [    ==       |  ==  ]
 *   gaps            [-]       [-]        [-]      [-]
 *                 another   both may hide a part   another
 *
 * Gaps of excluded nodes count too, because a lost event may be the event that shows that a transaction ran on an
 * excluded node.
 */

import type { Population } from '../contract/population.ts';
import type { Store, TransactionFilter, TransactionReach } from '../store/store.ts';
import { addAwayNodes } from './away_nodes.ts';
import { type AnswerSpans, type FoundCoverage, readCoverage } from './coverage.ts';
import { selectOfTransactions } from './in_progress.ts';
import { readEventCoverage } from './transaction_coverage.ts';

interface AnswerReach {
  /** Reach of the transactions that the filter selects; null if there are none. */
  reach: TransactionReach | null;
  nowNs: bigint;
}

/** Reads the coverage of an answer. `spans` must contain the spans of all nodes. */
export async function readListCoverage(
  store: Store,
  { spans, unended, shards }: AnswerSpans,
  { filter, reach, nowNs }: AnswerReach & { filter: TransactionFilter },
): Promise<FoundCoverage> {
  const { fromNs, toNs } = filter;
  // A filter without nodes selects every node.
  const nodes = filter.nodes && [...new Set([...filter.nodes, ...(reach?.nodes ?? [])])];
  const endNs = toNs !== undefined && reach && reach.toNs > toNs ? reach.toNs : toNs;
  const asked = nodes ? spans.filter(({ node }) => nodes.includes(node)) : spans;
  const own = await selectOfTransactions(store, unended, { fromNs, toNs });
  const read = { spans: asked, unended: own };
  const coverage = await readCoverage(store, read, { fromNs, toNs: endNs, nodes, nowNs });
  // A transaction may continue on any other node.
  return addAwayNodes(coverage, await shards?.findAwayNodes(), { fromNs, toNs: endNs, nowNs });
}

/** Reads the coverage of an answer. `spans` must contain the spans of all nodes. */
export function readPopulationCoverage(
  store: Store,
  { spans, ...read }: AnswerSpans,
  { of, filter, ...answered }: Population & AnswerReach,
): Promise<FoundCoverage> {
  if (of === 'transactions') return readListCoverage(store, { spans, ...read }, { filter, ...answered });
  const asked = spans.filter(({ node }) => !filter.nodes || filter.nodes.includes(node));
  return readEventCoverage(store, { spans: asked, ...read }, { filter, nowNs: answered.nowNs });
}
