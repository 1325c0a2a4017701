/**
 * Divides the time of a transaction by cause. Every view takes its parts from here, so recorded waits could replace
 * this rule in one place.
 */
import { intersectSets, mergeIntervals, sumLengthNs, type TimeSet, uniteIntervals, uniteSets } from './intervals.ts';
import type { LanesModel, TimeSpan } from './model.ts';
import { collectIntervals, ownCalls, requestTimes } from './request_times.ts';

export const PARTS = ['queue', 'service', 'sync', 'write', 'request', 'untraced'] as const;
export type BreakdownPart = (typeof PARTS)[number];

export interface Breakdown {
  /** Time from the first own start to the last own end. */
  span: TimeSpan;
  /** Length of the span, in nanoseconds. */
  durationNs: number;
  /**
   * Nanoseconds of each part, which add up to `durationNs`: each moment belongs to the first part that applies. The
   * parts, in order: a request waits in a queue; a device works on a request; a sync runs; a write runs; a request is
   * under way but it is not known whether anyone waits for it; nothing is recorded, such as time on a CPU.
   */
  parts: Record<BreakdownPart, number>;
}

/** Returns null if there are no own events. */
export function computeBreakdown(model: LanesModel): Breakdown | null {
  const { ownSpan: span } = model;
  if (!span) return null;
  const requests = [...requestTimes(model, span).values()];
  const callTimes = (type: string) => uniteIntervals(collectIntervals(model, ownCalls(model, type)));
  const inOrder: readonly (readonly [BreakdownPart, TimeSet])[] = [
    ['queue', mergeIntervals(requests.map(({ queued }) => queued))],
    ['service', mergeIntervals(requests.map(({ whole }) => whole))],
    ['sync', callTimes('sys_sync')],
    ['write', callTimes('sys_write')],
    ['request', mergeIntervals(requests.map(({ unknown }) => unknown))],
  ];
  const durationNs = span.toNs - span.fromNs;
  const parts: Record<BreakdownPart, number> = { queue: 0, service: 0, sync: 0, write: 0, request: 0, untraced: 0 };
  const within = Float64Array.of(span.fromNs, span.toNs);
  let covered: TimeSet = new Float64Array(0);
  let coveredNs = 0;
  for (const [part, times] of inOrder) {
    covered = uniteSets(covered, intersectSets(times, within));
    const ns = sumLengthNs(covered);
    parts[part] = ns - coveredNs;
    coveredNs = ns;
  }
  parts.untraced = durationNs - coveredNs;
  return { span, durationNs, parts };
}
