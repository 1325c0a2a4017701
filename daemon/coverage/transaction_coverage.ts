/**
 * Computes which events of one transaction may be missing: the gaps that may hide a part of it. A transaction counts as
 * ended once it has had no event, and its nodes have had no gap, for one second; later gaps do not concern it:
 *
 *   events           [ ==  = === ]
 *   gaps     [-]  [--]             [--]  [--]         [--]
 *          another        all three may hide a part      another
 */

import { computeWholeEndNs } from '../../agent/recording/read/transactions.ts';
import { max, min } from '../base/bigints.ts';
import type { EventFilter, NodeSpan, Store, TransactionSummary } from '../store/store.ts';
import { addAwayNodes } from './away_nodes.ts';
import { type AnswerSpans, type CoverageGap, type FoundCoverage, readCoverage } from './coverage.ts';
import { IN_PROGRESS } from './in_progress.ts';
import type { CoverageQuery } from './unrecorded.ts';

/** A running transaction is assumed to have at least one event in any period of this length. */
const QUIET_NS = 1_000_000_000n;

/**
 * Reads the coverage of an answer about events. If the filter selects one transaction, the coverage has only the gaps
 * that concern that transaction.
 */
export async function readEventCoverage(
  store: Store,
  read: AnswerSpans,
  { filter, nowNs }: { filter: EventFilter; nowNs: bigint },
): Promise<FoundCoverage> {
  const { fromNs, toNs, nodes, transactionId, excluded } = filter;
  const coverage = await readRecordedCoverage(store, read, { filter, nowNs });
  // Any node may have the first or the last event of a transaction.
  const asked = transactionId === undefined ? { nodes, excludedNodes: excluded?.nodes } : {};
  return addAwayNodes(coverage, await read.shards?.findAwayNodes(), { fromNs, toNs, ...asked, nowNs });
}

async function readRecordedCoverage(
  store: Store,
  read: AnswerSpans,
  { filter, nowNs }: { filter: EventFilter; nowNs: bigint },
): Promise<FoundCoverage> {
  const { fromNs, toNs, nodes, transactionId, excluded } = filter;
  const services = { services: filter.services, excludedServices: excluded?.services };
  const window = { fromNs, toNs, nodes, excludedNodes: excluded?.nodes, ...services, transactionId, nowNs };
  // The transaction may continue in an unreadable file, or exist only in such a file.
  if ((await store.listUnreadable(nodes)).length > 0) return readCoverage(store, read, window);
  const transaction = transactionId === undefined ? undefined : await store.findTransaction(transactionId);
  return transaction ? readOwnCoverage(store, read, transaction, window) : readCoverage(store, read, window);
}

export async function readTransactionCoverage(
  store: Store,
  read: AnswerSpans,
  transaction: TransactionSummary,
  nowNs: bigint,
): Promise<FoundCoverage> {
  const coverage = await readOwnCoverage(store, read, transaction, { nowNs });
  // The transaction may continue on any node.
  return addAwayNodes(coverage, await read.shards?.findAwayNodes(), { nowNs });
}

async function readOwnCoverage(
  store: Store,
  { spans, unended }: AnswerSpans,
  transaction: TransactionSummary,
  window: CoverageQuery,
): Promise<FoundCoverage> {
  const unendedOwn = [...unended.own.events, ...unended.own.lost];
  const { unlisted } = unended.own;
  // If all of the transaction's calls on a node are still in progress, the node is not in `transaction.nodes` yet.
  const knownNodes = [...new Set([...transaction.nodes, ...[...unendedOwn, ...unlisted].map(({ node }) => node)])];
  // A loss of a service that was not seen in the transaction goes to `others`: any service may use the id of any
  // transaction, so otherwise every loss would count.
  const seenServices = [...transaction.services, ...unendedOwn.map(({ service_name }) => service_name)];
  const own = {
    ...window,
    nodes: window.nodes ?? knownNodes,
    transactionId: transaction.transactionId,
    seenServices: unlisted.length > 0 ? undefined : seenServices,
  };
  const ownRead = { spans: spans.filter(({ node }) => own.nodes.includes(node)).map(cutSpan), unended };
  // The transaction lasts at least until the start of its last call without a known end, even after a long time without
  // events.
  const starts = unendedOwn.map(({ timestamp_ns }) => timestamp_ns);
  const firstNs = starts.reduce(min, transaction.firstTimestampNs);
  const lastNs = starts.reduce(max, computeWholeEndNs(transaction));
  // The answer is about the part of the window in which the transaction took place.
  const lasted = {
    fromNs: own.fromNs === undefined ? firstNs : max(own.fromNs, firstNs),
    toNs: own.toNs === undefined ? lastNs + 1n : min(own.toNs, lastNs + 1n),
  };
  const ownNs = { fromNs: firstNs - QUIET_NS, toNs: lastNs + QUIET_NS };
  // The query's window may begin or end within a gap, so gaps are also read around the window.
  const wide = {
    ...own,
    ...(own.fromNs !== undefined && { fromNs: min(own.fromNs, max(ownNs.fromNs, 0n)) }),
    ...(own.toNs !== undefined && { toNs: max(own.toNs, ownNs.toNs) }),
  };
  const around = await readCoverage(store, ownRead, wide);
  const { fromNs, toNs } = narrowReach(around.gaps, widenByParts(around.gaps, ownNs));
  const isWide = wide.fromNs !== own.fromNs || wide.toNs !== own.toNs;
  const coverage = isWide ? await readCoverage(store, ownRead, own) : around;
  // Any call without a known owner may belong to the transaction.
  const mayBeOwn = ({ cause, node, from, to }: CoverageGap) =>
    cause === IN_PROGRESS &&
    unlisted.some(({ sinceNs, ...one }) => one.node === node && from <= sinceNs && to >= sinceNs);
  const gaps = coverage.gaps.filter((gap) => (gap.from < toNs && gap.to > fromNs) || mayBeOwn(gap));
  return {
    ...coverage,
    complete: gaps.length === 0,
    lost: gaps.reduce((sum, gap) => sum + gap.lost, 0),
    gaps,
    window: lasted,
  };
}

/**
 * Marks a span as incomplete if its file has no recorded end: a copy that was made while an agent was running may lack
 * the end of the transaction.
 */
function cutSpan(span: NodeSpan): NodeSpan {
  return span.end === 'unsaid' || span.end === 'damaged' ? { ...span, isWholeFile: false } : span;
}

interface Reach {
  fromNs: bigint;
  toNs: bigint;
}

/** Widens the period by the transaction's parts of losses: its missing calls may be far from its recorded ones. */
function widenByParts(gaps: readonly CoverageGap[], { fromNs, toNs }: Reach): Reach {
  const parts = gaps.filter(({ transaction_id }) => transaction_id !== undefined);
  return {
    fromNs: parts.map(({ from }) => from - QUIET_NS).reduce(min, fromNs),
    toNs: parts.map(({ to }) => to + QUIET_NS).reduce(max, toNs),
  };
}

/** Returns the period in which a gap may hide a part of the transaction; it includes a quiet period at either end. */
function narrowReach(gaps: readonly CoverageGap[], { fromNs, toNs }: Reach): Reach {
  for (const gap of gaps) if (gap.from < toNs && gap.to > fromNs) toNs = max(toNs, gap.to + QUIET_NS);
  const byEnd = gaps.toSorted((a, b) => (a.to > b.to ? -1 : a.to < b.to ? 1 : 0));
  for (const gap of byEnd) if (gap.from < toNs && gap.to > fromNs) fromNs = min(fromNs, gap.from - QUIET_NS);
  return { fromNs, toNs };
}
