/** Adds gaps to the coverage of an answer for nodes whose shard of the fleet was unavailable. */
import type { LossCause } from '../../bpf/schema/losses.ts';
import type { AwayNodes } from '../store/fleet_state.ts';
import type { FoundCoverage } from './coverage.ts';
import type { CoverageQuery } from './unrecorded.ts';

const CAUSE: LossCause = 'unavailable';
/** Wrong cause of the gaps of a node whose shard is unavailable. These gaps are replaced. */
const SEEMING: LossCause = 'not_recorded_yet';

/** Adds a gap over the whole window for each unavailable node, or one gap without a node if the nodes are not known. */
export function addAwayNodes(
  coverage: FoundCoverage,
  found: AwayNodes | undefined,
  window: CoverageQuery,
): FoundCoverage {
  if (!found) return coverage;
  const { fromNs = 0n, toNs, nodes, excludedNodes = [], nowNs } = window;
  const named = nodes && [...new Set(nodes)].filter((node) => !excludedNodes.includes(node));
  const isAway = (node: string) => found.away.includes(node) || (nodes !== undefined && !found.present.has(node));
  if (named && found.knowsAll && !named.some(isAway)) return coverage;
  const asked = named ?? found.away.filter((node) => !excludedNodes.includes(node));
  const away = asked.filter(isAway).sort();
  const whose = away.length > 0 ? away : [null];
  const endNs = toNs ?? nowNs;
  const to = endNs > fromNs ? endNs : fromNs;
  const gaps = [
    ...coverage.gaps.filter(({ cause, node }) => cause !== SEEMING || node === null || !away.includes(node)),
    ...whose.map((node) => ({ from: fromNs, to, lost: 0, cause: CAUSE, node })),
  ].sort((a, b) => (a.from < b.from ? -1 : a.from > b.from ? 1 : 0));
  return { ...coverage, complete: false, gaps };
}
