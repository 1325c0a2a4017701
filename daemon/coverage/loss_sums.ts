/**
 * Sums up the gaps of an answer by cause and node, and computes the share of events that are missing. The share refers
 * to one span of a node's time, in which the number of missing events and the number of recorded events are known:
 *
 *   time       retention removed |           window            |
 *   gaps              [--]  [--]    [--]   [--]    [--]      [--]
 *   span                         | ................................|
 *   rate: lost                      yes    yes     yes       yes
 *
 * The span ends after the last gap that the window touches. Events that retention removed are no longer counted, so
 * gaps that begin in the removed time have no share.
 */
import { COUNTED_LOSS_CAUSES } from '../../bpf/schema/losses.ts';
import { I64_MAX, max, min } from '../base/bigints.ts';
import { addTimeTexts } from '../base/time_text.ts';
import { type Coverage, LOSSES_MAX } from '../contract/coverage_schema.ts';
import type { NodeSpan, SpanOfNode, Store } from '../store/store.ts';
import type { CoverageGap, FoundCoverage } from './coverage.ts';

type LossSum = Coverage['losses'][number];
type Rate = NonNullable<LossSum['rate']>;

/** Causes of gaps in which the number of recorded events of the node is unknown. */
const HIDING_CAUSES: readonly string[] = ['damaged', 'recording_damaged', 'unreadable', 'unavailable'];

/** A span of a node with the number of its recorded events. */
interface CountedSpan extends SpanOfNode {
  recorded: number;
}

export async function sumLosses(store: Store, found: FoundCoverage, spans: readonly NodeSpan[]): Promise<LossSum[]> {
  const groups = groupGaps(found.gaps);
  const nodes = [...new Set(groups.filter(([gap]) => isCounted(gap!)).flatMap((gaps) => listNodes(gaps)))];
  const counted = nodes.length > LOSSES_MAX ? new Map() : await countSpans(store, chooseSpans(nodes, found, spans));
  return groups.map((gaps) => sumGaps(gaps, counted)).sort(compareSums);
}

/** Sums up gaps that concern only services other than those of the answer; these sums have no shares. */
export function sumOtherLosses(gaps: readonly CoverageGap[]): LossSum[] {
  return groupGaps(gaps)
    .map((some) => sumGaps(some, new Map()))
    .sort(compareSums);
}

const isCounted = ({ cause }: Pick<CoverageGap, 'cause'>) => (COUNTED_LOSS_CAUSES as readonly string[]).includes(cause);

/** Groups gaps by cause and node or, if there are too many groups, by cause alone. */
function groupGaps(gaps: readonly CoverageGap[]): CoverageGap[][] {
  const groups = [...Map.groupBy(gaps, ({ cause, node }) => JSON.stringify([cause, node])).values()];
  return groups.length <= LOSSES_MAX ? groups : [...Map.groupBy(gaps, ({ cause }) => cause).values()];
}

/** Returns the known nodes of gaps. */
const listNodes = (gaps: readonly CoverageGap[]) => [...new Set(gaps.flatMap(({ node }) => node ?? []))];

function chooseSpans(
  nodes: readonly string[],
  { gaps, window }: FoundCoverage,
  spans: readonly NodeSpan[],
): SpanOfNode[] {
  const isHidden = (name: string) =>
    gaps.some(({ node, cause }) => HIDING_CAUSES.includes(cause) && (node === null || node === name));
  return nodes
    .filter((node) => !isHidden(node))
    .flatMap((node) => {
      const own = gaps.filter((gap) => gap.node === node);
      const recorded = spans.filter((span) => span.node === node);
      if (recorded.length === 0) return [];
      const beganNs = recorded.map(({ fromNs }) => fromNs).reduce(min);
      const endedNs = recorded.map(({ toNs }) => toNs).reduce(max);
      const starts = [max(window.fromNs ?? beganNs, beganNs)];
      const ends = [min(window.toNs ?? endedNs, endedNs)];
      const keptNs = own.filter(({ cause }) => cause === 'retention').reduce((last, { to }) => max(last, to + 1n), 0n);
      for (const { from, to } of own.filter((gap) => isCounted(gap) && gap.from >= keptNs)) {
        starts.push(from);
        ends.push(to + 1n);
      }
      const fromNs = max(starts.reduce(min), keptNs);
      const toNs = min(ends.reduce(max), I64_MAX);
      return fromNs < toNs ? [{ node, fromNs, toNs }] : [];
    });
}

async function countSpans(store: Store, spans: readonly SpanOfNode[]): Promise<Map<string, CountedSpan>> {
  const counts = spans.length === 0 ? [] : await store.countEvents(spans);
  return new Map(
    spans.flatMap((span, at) => (counts[at] === undefined ? [] : [[span.node, { ...span, recorded: counts[at] }]])),
  );
}

function sumGaps(gaps: readonly CoverageGap[], counted: ReadonlyMap<string, CountedSpan>): LossSum {
  const { cause, node } = gaps[0]!;
  const isOfOneNode = gaps.every((gap) => gap.node === node);
  return {
    cause,
    ...(isOfOneNode && { node }),
    lost: sumLost(gaps),
    ...addUpSums(gaps),
    gap_count: gaps.length,
    ...addTimeTexts({ from: gaps.map(({ from }) => from).reduce(min), to: gaps.map(({ to }) => to).reduce(max) }),
    rate: isCounted({ cause }) ? computeRate(gaps, counted) : null,
  };
}

/** Adds up what is known of the missing events; nothing if a gap has missing events that were not summed up. */
function addUpSums(gaps: readonly CoverageGap[]): Pick<LossSum, 'bytes' | 'duration_ns' | 'longest_ns'> {
  if (gaps.some(({ bytes }) => bytes === undefined)) return {};
  return {
    bytes: gaps.reduce((sum, { bytes }) => sum + bytes!, 0n),
    duration_ns: gaps.reduce((sum, { duration_ns }) => sum + duration_ns!, 0n),
    longest_ns: gaps.map(({ longest_ns }) => longest_ns!).reduce(max),
  };
}

const sumLost = (gaps: readonly CoverageGap[]) => gaps.reduce((sum, { lost }) => sum + lost, 0);

function computeRate(gaps: readonly CoverageGap[], counted: ReadonlyMap<string, CountedSpan>): Rate | null {
  const spans = listNodes(gaps).map((node) => counted.get(node));
  if (spans.length === 0 || gaps.some(({ node }) => node === null)) return null;
  const known = spans.filter((span) => span !== undefined);
  if (known.length < spans.length) return null;
  const within = gaps.filter(({ node, from, to }) => {
    const { fromNs, toNs } = counted.get(node!)!;
    return from >= fromNs && to < toNs;
  });
  // A gap whose `lost` is 0 was not counted, and may hide any number of events.
  if (within.length === 0 || within.some(({ lost }) => lost === 0)) return null;
  const lost = sumLost(within);
  const recorded = known.reduce((sum, span) => sum + span.recorded, 0);
  return {
    ...addTimeTexts({
      from: known.map(({ fromNs }) => fromNs).reduce(min),
      to: known.map(({ toNs }) => toNs).reduce(max),
    }),
    lost,
    recorded,
    share: lost / (lost + recorded),
  };
}

function compareSums(a: LossSum, b: LossSum): number {
  if (a.lost !== b.lost) return b.lost - a.lost;
  return a.from < b.from ? -1 : a.from > b.from ? 1 : 0;
}
