/**
 * Finds the parts of a window in which a node was not recorded. The recording itself contains a loss for the time
 * between two runs of an agent. This file finds the gaps that no agent can record:
 *
 *   window   from ...................................... to, or now
 *   node       .  not_recorded_yet  [ recorded ] agent_stopped
 *
 * A query without `to` selects all recorded events, and its answer reports where the recording ends. For such a query,
 * two times are no gap: the time whose events a running agent has not committed yet, and the time after the end of a
 * named or imported file.
 */
import type { LossCause } from '../../bpf/schema/losses.ts';
import { NODE_SILENT_NS } from '../store/fleet_state.ts';
import type { NodeLoss, NodeSpan } from '../store/store.ts';
import { isSilent } from '../store/written_span.ts';

export interface CoverageQuery {
  fromNs?: bigint | undefined;
  toNs?: bigint | undefined;
  nodes?: readonly string[] | undefined;
  /** Nodes that the query excludes. */
  excludedNodes?: readonly string[] | undefined;
  /** Services to which the query is limited. */
  services?: readonly string[] | undefined;
  /** Services whose events the query excludes. */
  excludedServices?: readonly string[] | undefined;
  /** The transaction to which the query is limited. */
  transactionId?: string | undefined;
  /**
   * Services in which the transaction was seen; undefined if it may have run in any service. A loss without a known
   * transaction concerns the transaction only if it may belong to one of these services.
   */
  seenServices?: readonly string[] | undefined;
  /** Time of the query: no recorded event is later. */
  nowNs: bigint;
}

/** Finds the gaps of all nodes of the query; `spans` are the spans of these nodes. */
export function findUnrecorded(
  spans: readonly NodeSpan[],
  { fromNs, toNs, nodes = [], nowNs }: CoverageQuery,
): NodeLoss[] {
  const endNs = toNs !== undefined && toNs < nowNs ? toNs : nowNs;
  const asked = { fromNs, endNs, nowNs, asksUntil: toNs !== undefined };
  const byNode = Map.groupBy(spans, ({ node }) => node);
  const unheardOf = [...new Set(nodes)].filter((node) => !byNode.has(node));
  return [
    ...unheardOf.flatMap((node) => findNodeGaps(node, [], { ...asked, isNamed: true, fromNs: fromNs ?? 0n })),
    ...[...byNode].flatMap(([node, own]) => findNodeGaps(node, own, { ...asked, isNamed: nodes.includes(node) })),
  ];
}

const AFTER: Readonly<Record<NodeSpan['end'], LossCause>> = {
  closed: 'agent_stopped',
  open: 'not_written_yet',
  killed: 'agent_killed',
  unsaid: 'agent_stopped',
  damaged: 'recording_damaged',
};

interface GapQuery extends Pick<CoverageQuery, 'fromNs' | 'nowNs'> {
  endNs: bigint;
  /** Whether the query has a `to`. */
  asksUntil: boolean;
  /** Whether the query names the node. */
  isNamed: boolean;
}

function isSilentSpan(span: NodeSpan, nowNs: bigint): boolean {
  return span.heardOf ? nowNs - span.heardOf.atNs > NODE_SILENT_NS : isSilent(span, nowNs);
}

function findNodeGaps(node: string, spans: readonly NodeSpan[], asked: GapQuery): NodeLoss[] {
  const { fromNs, endNs, nowNs, asksUntil, isNamed } = asked;
  const gaps: NodeLoss[] = [];
  const add = (start: bigint, end: bigint, why: LossCause) => {
    if (start < end) gaps.push({ fromNs: start, toNs: end, lost: 0, cause: why, node });
  };
  let cause: LossCause = 'not_recorded_yet';
  let goesOn = false;
  // A query without a start selects all recorded events, so the time before the recording is no gap.
  let reachedNs = fromNs;
  let lastNs: bigint | undefined;
  for (const span of spans.toSorted((a, b) => (a.fromNs < b.fromNs ? -1 : a.fromNs > b.fromNs ? 1 : 0))) {
    const isNew = span.heardOf && !isNamed && lastNs === undefined;
    if (reachedNs !== undefined && !isNew) add(reachedNs, span.fromNs < endNs ? span.fromNs : endNs, cause);
    const { end, toNs, isWholeFile } = span;
    if (reachedNs === undefined || toNs > reachedNs) reachedNs = toNs;
    if (lastNs !== undefined && toNs <= lastNs) continue;
    lastNs = toNs;
    cause = span.heardOf && end === 'open' ? 'not_arrived' : AFTER[end];
    // Hosts of a fleet come and go. If events of a removed host counted as missing, no answer would ever be complete.
    if (span.heardOf?.isGone && !isNamed) {
      goesOn = true;
      continue;
    }
    const isOngoing = isWholeFile || (end === 'open' && !isSilentSpan(span, nowNs));
    goesOn = isOngoing && !asksUntil && (fromNs === undefined || fromNs <= toNs);
  }
  if (reachedNs !== undefined && !goesOn) add(reachedNs, endNs, cause);
  return gaps;
}
