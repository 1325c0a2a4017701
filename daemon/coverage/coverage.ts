/** Computes, in the API's terms, which events of a window are missing from the recording. */

import { max } from '../base/bigints.ts';
import { type Coverage, GAPS_MAX, UNREADABLE_MAX } from '../contract/coverage_schema.ts';
import type { ShardWatch } from '../store/fleet_state.ts';
import type { EventFilter, NodeLoss, NodeSpan, Store } from '../store/store.ts';
import { addInProgress, type FoundInProgress, type FoundUnended, findUnended } from './in_progress.ts';
import { type CoverageQuery, findUnrecorded } from './unrecorded.ts';

/** If there are too many gaps, gaps closer to each other than this are merged first. */
const APART_NS_MIN = 1_000_000n;
/** A distance that exceeds every possible distance between two gaps. */
const APART_NS_MAX = 2n ** 66n;

/** State that is read before the events of an answer. */
export interface AnswerSpans {
  spans: readonly NodeSpan[];
  /** Calls and requests that were in progress when the spans were read, or that began later. */
  unended: FoundUnended;
  /** Detects shards of a fleet that the answer lacks; undefined if there are no shards. */
  shards: ShardWatch | undefined;
}

export async function readAnswerSpans(
  store: Store,
  nodes: readonly string[] | undefined,
  nowNs: bigint,
  filter: EventFilter = {},
): Promise<AnswerSpans> {
  const shards = store.fleet?.watchShards();
  const spans = await store.listSpans(nodes);
  // Spans are read first: a call that began before a span ends is then either in progress or among the events, which
  // are read next.
  const unended = await findUnended(store, nodes, filter);
  // Later pages use the time of the first page, and leave out events that were recorded after that time.
  const cut = spans.map((span) => (span.end === 'open' && span.toNs > nowNs ? { ...span, toNs: nowNs } : span));
  return { spans: cut, unended, shards };
}

/**
 * Reads the coverage of a window. `spans` must be read before the events: otherwise, events committed in between would
 * not count as missing although the answer lacks them.
 */
export async function readCoverage(
  store: Store,
  { spans, unended }: Pick<AnswerSpans, 'spans' | 'unended'>,
  window: CoverageQuery,
): Promise<FoundCoverage> {
  const { fromNs, toNs, nodes, excludedNodes = [], transactionId } = window;
  const isAsked = ({ node }: { node: string | null }) => node === null || !excludedNodes.includes(node);
  const asked = { ...window, nodes: nodes?.filter((node) => !excludedNodes.includes(node)) };
  const parts = transactionId === undefined ? undefined : { transactionId };
  const recorded = await store.listLosses(fromNs, toNs, nodes, parts);
  const { losses, inProgress } = addInProgress(recorded, unended, { spans: spans.filter(isAsked), window });
  const ofNodes = losses.filter(isAsked);
  const known = buildCoverage(
    ofNodes.filter((loss) => mayTouch(loss, window)),
    spans.filter(isAsked),
    asked,
  );
  const others = mergeGaps(ofNodes.filter((loss) => !mayTouch(loss, window)).sort(compareStarts));
  const coverage = {
    ...known,
    ...(inProgress && { in_progress: inProgress }),
    ...(others.length > 0 && { others }),
  };
  const unreadable = (await store.listUnreadable(nodes)).filter(isAsked).map(({ path }) => path);
  return unreadable.length > 0 ? { ...coverage, unreadable: unreadable.slice(0, UNREADABLE_MAX) } : coverage;
}

const compareStarts = (a: NodeLoss, b: NodeLoss) => (a.fromNs < b.fromNs ? -1 : a.fromNs > b.fromNs ? 1 : 0);

/** A gap in the form of the answer, but without the times as text. */
export type CoverageGap = Omit<NonNullable<Coverage['gaps']>[number], 'from_time' | 'to_time'>;

/** The gaps in the events of an answer. */
export interface FoundCoverage extends Pick<Coverage, 'complete' | 'lost' | 'recorded_until' | 'unreadable'> {
  gaps: CoverageGap[];
  /** Gaps that concern only services other than those of the answer. */
  others?: CoverageGap[];
  nodes: { node: string; recorded_until: bigint }[];
  in_progress?: FoundInProgress;
  /** The time that the answer is about; a missing bound leaves that side open. */
  window: Pick<CoverageQuery, 'fromNs' | 'toNs'>;
}

export function buildCoverage(
  losses: readonly NodeLoss[],
  spans: readonly NodeSpan[],
  window: CoverageQuery,
): FoundCoverage {
  const { fromNs, toNs, nodes } = window;
  const all = [...losses, ...findUnrecorded(spans, window)].sort(compareStarts);
  const gaps = mergeGaps(all);
  const lost = losses.reduce((sum, loss) => sum + loss.lost, 0);
  return { complete: gaps.length === 0, lost, gaps, ...findRecordedUntil(spans, nodes), window: { fromNs, toNs } };
}

/**
 * Returns whether the answer may lack events because of this loss: a loss of one service concerns no other service. Of
 * the parts of a loss, only the asked transaction's are among the losses.
 */
export function mayTouch({ service, transactionId }: Pick<NodeLoss, 'service' | 'transactionId'>, asked: OfOwners) {
  if (service !== undefined && asked.services?.includes(service) === false) return false;
  if (service !== undefined && asked.excludedServices?.includes(service)) return false;
  if (asked.transactionId === undefined || transactionId !== undefined) return true;
  return service === undefined || asked.services !== undefined || asked.seenServices?.includes(service) !== false;
}

type OfOwners = Pick<CoverageQuery, 'services' | 'excludedServices' | 'transactionId' | 'seenServices'>;

/** Converts losses to gaps, and merges gaps; `losses` must be in order of start. */
function mergeGaps(losses: readonly NodeLoss[]): CoverageGap[] {
  // An agent under load records a loss at every drain, so gaps that touch are merged.
  let gaps = joinGaps(losses.map(toGap), 0n);
  // Gaps of different causes, nodes or services are not merged, so there may still be more than GAPS_MAX gaps.
  for (let apartNs = APART_NS_MIN; gaps.length > GAPS_MAX && apartNs < APART_NS_MAX; apartNs *= 4n)
    gaps = joinGaps(gaps, apartNs);
  if (gaps.length <= GAPS_MAX || losses.every(({ service }) => service === undefined)) return gaps;
  return mergeGaps(losses.map(({ service: _, ...loss }) => loss));
}

function toGap({ fromNs, toNs, lost, cause, service, transactionId, sums, node }: NodeLoss): CoverageGap {
  return {
    from: fromNs,
    to: toNs,
    lost,
    cause,
    ...(service !== undefined && { service }),
    ...(transactionId !== undefined && { transaction_id: transactionId }),
    ...(sums && { bytes: sums.bytes, duration_ns: sums.durationNs, longest_ns: sums.longestNs }),
    node,
  };
}

/**
 * Merges gaps of the same node, cause and owner that are at most `apartNs` apart. `gaps` must be in order of start,
 * and the result is in this order too.
 */
function joinGaps(gaps: readonly CoverageGap[], apartNs: bigint): CoverageGap[] {
  const joint: CoverageGap[] = [];
  const lastOf = new Map<string, CoverageGap>();
  for (const gap of gaps) {
    const key = JSON.stringify([gap.cause, gap.node, gap.service, gap.transaction_id, gap.bytes === undefined]);
    const open = lastOf.get(key);
    if (open && gap.from <= open.to + apartNs) {
      if (gap.to > open.to) open.to = gap.to;
      open.lost += gap.lost;
      addSums(open, gap);
    } else {
      lastOf.set(key, gap);
      joint.push(gap);
    }
  }
  return joint;
}

/** Adds the sums of the gap to the sums of `open`; both have sums, or neither has. */
function addSums(open: CoverageGap, gap: CoverageGap): void {
  if (gap.bytes === undefined) return;
  open.bytes! += gap.bytes;
  open.duration_ns! += gap.duration_ns!;
  open.longest_ns = max(open.longest_ns!, gap.longest_ns!);
}

function findRecordedUntil(spans: readonly NodeSpan[], asked: readonly string[] = []) {
  const untils = new Map<string, bigint>();
  for (const { node, toNs } of spans) if (toNs > (untils.get(node) ?? -1n)) untils.set(node, toNs);
  const nodes = [...untils].sort().map(([node, recorded_until]) => ({ node, recorded_until }));
  const isKnown = nodes.length > 0 && asked.every((node) => untils.has(node));
  const first = nodes.reduce(
    (least, { recorded_until }) => (recorded_until < least ? recorded_until : least),
    2n ** 63n,
  );
  return { recorded_until: isKnown ? first : null, nodes };
}
