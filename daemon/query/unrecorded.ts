/**
 * The parts of a window in which nobody recorded a node. Time between two runs of an agent is a loss in the recording
 * itself; here is what no agent can note:
 *
 *   window   from ...................................... to, or now
 *   node       .  not_recorded_yet  [ recorded ] agent_stopped
 */
import type { Loss, NodeSpan } from '../store/store.ts';
import type { Window } from './coverage.ts';

/** A quiet agent says every 10 s that it lives. */
const SILENT_NS_MAX = 30_000_000_000n;

export function unrecorded(spans: readonly NodeSpan[], { fromNs, toNs, nodes = [], nowNs }: Window): Loss[] {
  const endNs = toNs !== undefined && toNs < nowNs ? toNs : nowNs;
  const byNode = Map.groupBy(spans, ({ node }) => node);
  const unheardOf = nodes.some((node) => !byNode.has(node)) ? gapsOf([], fromNs ?? 0n, endNs, nowNs) : [];
  return [...unheardOf, ...[...byNode.values()].flatMap((own) => gapsOf(own, fromNs, endNs, nowNs))];
}

function gapsOf(spans: readonly NodeSpan[], fromNs: bigint | undefined, endNs: bigint, nowNs: bigint): Loss[] {
  const gaps: Loss[] = [];
  let cause = 'not_recorded_yet';
  // A query without a start asks for all that was recorded, not for the time before.
  let reachedNs = fromNs;
  for (const span of spans.toSorted((a, b) => (a.fromNs < b.fromNs ? -1 : a.fromNs > b.fromNs ? 1 : 0))) {
    if (reachedNs !== undefined) add(gaps, reachedNs, span.fromNs < endNs ? span.fromNs : endNs, cause);
    const goesOn = span.end === 'open' && nowNs - span.toNs <= SILENT_NS_MAX;
    const toNs = goesOn ? nowNs : span.toNs;
    if (reachedNs !== undefined && toNs <= reachedNs && cause !== 'not_recorded_yet') continue;
    if (reachedNs === undefined || toNs > reachedNs) reachedNs = toNs;
    cause = span.end === 'open' ? 'agent_killed' : 'agent_stopped';
  }
  if (reachedNs !== undefined) add(gaps, reachedNs, endNs, cause);
  return gaps;
}

function add(gaps: Loss[], fromNs: bigint, toNs: bigint, cause: string): void {
  if (fromNs < toNs) gaps.push({ fromNs, toNs, lost: 0, cause });
}
