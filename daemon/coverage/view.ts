/** Builds the coverage that an answer has: sums of its losses, and each gap only if the client requests them. */
import { addTimeTexts } from '../base/time_text.ts';
import {
  type Coverage,
  type CoverageDetail,
  SUMMARY_FILES_MAX,
  SUMMARY_IN_PROGRESS_MAX,
  SUMMARY_NODES_MAX,
} from '../contract/coverage_schema.ts';
import type { NodeSpan, Store } from '../store/store.ts';
import type { CoverageGap, FoundCoverage } from './coverage.ts';
import type { FoundInProgress } from './in_progress.ts';
import { sumLosses, sumOtherLosses } from './loss_sums.ts';

export async function buildCoverageView(
  store: Store,
  found: FoundCoverage,
  { spans, detail }: { spans: readonly NodeSpan[]; detail: CoverageDetail },
): Promise<Coverage> {
  const { window: _, complete, lost, gaps, others, recorded_until, nodes, in_progress, unreadable } = found;
  const isFull = detail === 'full';
  const named = isFull ? Number.POSITIVE_INFINITY : SUMMARY_FILES_MAX;
  const described = isFull ? Number.POSITIVE_INFINITY : SUMMARY_IN_PROGRESS_MAX;
  return {
    complete,
    lost,
    losses: await sumLosses(store, found, spans),
    ...(isFull && { gaps: gaps.map(buildGapView) }),
    ...(others && { other_losses: sumOtherLosses(others) }),
    ...(isFull && others && { others: others.map(buildGapView) }),
    ...addTimeTexts({ recorded_until }),
    nodes: (isFull ? nodes : chooseNodes(nodes)).map(buildNodeView),
    node_count: nodes.length,
    ...(in_progress && { in_progress: buildInProgressView(in_progress, described) }),
    ...(unreadable && { unreadable: unreadable.slice(0, named) }),
  };
}

function buildGapView({ from, to, ...gap }: CoverageGap): NonNullable<Coverage['gaps']>[number] {
  return { ...addTimeTexts({ from, to }), ...gap };
}

function buildNodeView({ node, recorded_until }: FoundCoverage['nodes'][number]): Coverage['nodes'][number] {
  return { node, ...addTimeTexts({ recorded_until }) };
}

function buildInProgressView({ count, oldest, events }: FoundInProgress, eventsMax: number): Coverage['in_progress'] {
  const described = events
    .slice(0, eventsMax)
    .map(({ event_type, timestamp_ns, ...event }) => ({ event_type, ...addTimeTexts({ timestamp_ns }), ...event }));
  return { count, ...addTimeTexts({ oldest }), events: described };
}

/** Returns the nodes, or if there are too many, the nodes whose recordings end first, in the same order. */
function chooseNodes(nodes: FoundCoverage['nodes']): FoundCoverage['nodes'] {
  if (nodes.length <= SUMMARY_NODES_MAX) return nodes;
  const byEnd = nodes.toSorted((a, b) => (a.recorded_until < b.recorded_until ? -1 : 1));
  const chosen = new Set(byEnd.slice(0, SUMMARY_NODES_MAX));
  return nodes.filter((node) => chosen.has(node));
}
