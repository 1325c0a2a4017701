/**
 * Computes which events of many transactions may be missing. The transactions began in the window, go on after it, and
 * take part on other nodes than those that are asked for:
 *
 *   window              from          to
 *   node asked for       [ ===  ===    |  === ]
 *   other node           [    ==       |  ==  ]
 *   gaps            [-]       [-]        [-]      [-]
 *                 another   both may hide a part   another
 *
 * A transaction of an excluded node may have lost the event that shows it, so gaps of that node count too.
 */

import type { Coverage } from '../contract/coverage_schema.ts';
import type { Population } from '../contract/population.ts';
import type { Store, TransactionFilter, TransactionReach } from '../store/store.ts';
import { addAwayNodes } from './away_nodes.ts';
import { type AnswerSpans, readCoverage } from './coverage.ts';
import { selectOfTransactions } from './in_progress.ts';
import { readEventCoverage } from './transaction_coverage.ts';

interface AnswerReach {
  /** The reach of the transactions that the filter selects; null without any. */
  reach: TransactionReach | null;
  nowNs: bigint;
}

/** `spans` must have the spans of all nodes. */
export async function readListCoverage(
  store: Store,
  { spans, unended, shards }: AnswerSpans,
  { filter, reach, nowNs }: AnswerReach & { filter: TransactionFilter },
): Promise<Coverage> {
  const { fromNs, toNs } = filter;
  // A filter without nodes asks for every node.
  const nodes = filter.nodes && [...new Set([...filter.nodes, ...(reach?.nodes ?? [])])];
  const endNs = toNs !== undefined && reach && reach.toNs > toNs ? reach.toNs : toNs;
  const asked = nodes ? spans.filter(({ node }) => nodes.includes(node)) : spans;
  const own = await selectOfTransactions(store, unended, { fromNs, toNs });
  const read = { spans: asked, unended: own };
  const coverage = await readCoverage(store, read, { fromNs, toNs: endNs, nodes, nowNs });
  // A transaction of any node may go on at others.
  return addAwayNodes(coverage, await shards?.findAwayNodes(), { fromNs, toNs: endNs, nowNs });
}

/** `spans` must have the spans of all nodes. */
export function readPopulationCoverage(
  store: Store,
  { spans, ...read }: AnswerSpans,
  { of, filter, ...answered }: Population & AnswerReach,
): Promise<Coverage> {
  if (of === 'transactions') return readListCoverage(store, { spans, ...read }, { filter, ...answered });
  const asked = spans.filter(({ node }) => !filter.nodes || filter.nodes.includes(node));
  return readEventCoverage(store, { spans: asked, ...read }, { filter, nowNs: answered.nowNs });
}
