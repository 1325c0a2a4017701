/**
 * The segments that a scan has not opened yet, nearest first, while a writer goes on writing.
 *
 *   numbers   0 ............ sealedEnd ........ end ....>
 *             sealed for good | parts at start | later events, not in this scan
 *
 * Sealed segments never change and can only be removed, so they are read in windows. The few parts may be merged at any
 * time into a segment that begins with the same number, so they are listed again when the file has changed.
 */

import { toStored } from '../format/schema.ts';
import type { ResolvedFilter } from './event_filter.ts';
import { interestIn } from './interest.ts';
import type { SegmentBounds, SegmentIndex, SegmentMeta } from './segment_index.ts';

export interface PlannedSegment extends SegmentMeta {
  /**
   * Stands for a window of segments that cannot match, and is not to be opened. A file may have a million of these, and
   * the consumer should do other work meanwhile.
   */
  isPassed?: true;
}

export interface ScanPlan {
  /** All numbers of this scan are below it. */
  readonly end: number;
  /** Returns the nearest segment that was not taken. */
  peek(): PlannedSegment | undefined;
  take(): void;
  /**
   * Lists the tail again. Segments that begin at or after the returned number must be forgotten: the plan returns them
   * again, perhaps merged. The result is undefined when nothing of this scan can have changed.
   */
  refresh(): number | undefined;
}

export interface PlanOptions {
  index: SegmentIndex;
  /** Ids of the file's columns by name. */
  columnIds: ReadonlyMap<string, number>;
  filter: ResolvedFilter;
  order: 'asc' | 'desc';
  /** Events before this time, in the scan's order, are not wanted. */
  startNs: bigint | undefined;
}

export function planScan({ index, columnIds, filter, order, startNs }: PlanOptions): ScanPlan {
  const ascending = order === 'asc';
  const { end, sealedEnd } = index.ends();
  let tailStart = sealedEnd;
  const bounds = boundsOf(filter, ascending, startNs);
  const nearestFirst = (a: SegmentMeta, b: SegmentMeta) => {
    const [first, second] = ascending ? [a, b] : [b, a];
    const [firstNs, secondNs] = ascending ? [first.minNs, second.minNs] : [first.maxNs, second.maxNs];
    return firstNs < secondNs ? -1 : firstNs > secondNs ? 1 : first.firstNumber - second.firstNumber;
  };
  const ofInterest = interestIn(filter, columnIds);
  const nextSealed = sealedSource({ index, filter, order, bounds, sealedEnd });
  // Both lists have the nearest segment last, where removing it is cheap.
  const furthestFirst = (segments: SegmentMeta[]) => segments.filter(ofInterest).sort((a, b) => nearestFirst(b, a));
  let sealed: PlannedSegment[] = [];
  let sealedLeft = true;
  let tail = furthestFirst(index.tail(tailStart, end, bounds));

  function nearest(): PlannedSegment[] {
    while (sealed.length === 0 && sealedLeft) {
      const next = nextSealed();
      sealedLeft = next !== undefined;
      sealed = furthestFirst(next ?? []);
      const furthest = next?.at(-1);
      if (sealed.length === 0 && furthest) sealed = [{ ...furthest, isPassed: true }];
    }
    const [a, b] = [sealed.at(-1), tail.at(-1)];
    return !b || (a && nearestFirst(a, b) < 0) ? sealed : tail;
  }

  return {
    end,
    peek: () => nearest().at(-1),
    take: () => void nearest().pop(),
    refresh() {
      if (tailStart >= end) return undefined;
      const from = tailStart;
      tailStart = Math.max(from, Math.min(index.ends().sealedEnd, end));
      tail = furthestFirst([...tail.filter((segment) => segment.firstNumber < from), ...index.tail(from, end, bounds)]);
      return from;
    },
  };
}

export interface UnorderedPlan {
  /** All numbers of this scan are below it. */
  readonly end: number;
  /** Returns sealed segments window by window, then undefined. */
  nextSealed(): SegmentMeta[] | undefined;
  /** What was not sealed when the scan began; it is to be read in the transaction of this call. */
  tail(): SegmentMeta[];
}

export function planUnordered({ index, columnIds, filter }: Omit<PlanOptions, 'order' | 'startNs'>): UnorderedPlan {
  const { end, sealedEnd } = index.ends();
  const bounds = boundsOf(filter, true, undefined);
  const next = sealedSource({ index, filter, order: 'asc', bounds, sealedEnd });
  const ofInterest = interestIn(filter, columnIds);
  return {
    end,
    nextSealed: () => next()?.filter(ofInterest),
    tail: () => index.tail(sealedEnd, end, bounds).filter(ofInterest),
  };
}

function boundsOf(filter: ResolvedFilter, ascending: boolean, startNs: bigint | undefined): SegmentBounds {
  let { firstNs, lastNs } = filter;
  if (startNs !== undefined && ascending && startNs > firstNs) firstNs = startNs;
  if (startNs !== undefined && !ascending && startNs < lastNs) lastNs = startNs;
  return {
    firstNs: toStored(firstNs),
    lastNs: toStored(lastNs),
    typeMask: filter.typeMask,
    minDurationNs: toStored(filter.minDurationNs),
  };
}

interface SealedOptions extends Omit<PlanOptions, 'columnIds' | 'startNs'> {
  bounds: SegmentBounds;
  sealedEnd: number;
}

/** Returns the sealed segments window by window, then undefined. */
function sealedSource({ index, filter, order, bounds, sealedEnd }: SealedOptions): () => SegmentMeta[] | undefined {
  const { inSegments: contexts } = filter;
  if (contexts) {
    let given = false;
    return () => {
      if (given) return undefined;
      given = true;
      return index.sealedWithContexts(contexts, sealedEnd, bounds);
    };
  }
  // No segment that reaches the window begins earlier (ends later) than the longest one could.
  const spanNs = index.longestSpanNs();
  let key: [bigint, number] =
    order === 'asc' ? [bounds.firstNs - spanNs - 1n, 0] : [toStored(bounds.lastNs + spanNs), Number.MAX_SAFE_INTEGER];
  return () => {
    const segments = index.sealedAfter(order, key, sealedEnd, bounds);
    const last = segments.at(-1);
    if (!last) return undefined;
    key = [toStored(order === 'asc' ? last.minNs : last.maxNs), last.firstNumber];
    return segments;
  };
}
