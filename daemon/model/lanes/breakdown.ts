/**
 * Divides the time of a transaction by cause. Waits are not recorded, so a rule infers them; recorded waits could
 * replace the rule here. A comparison of many transactions follows the same rule in `sums/differences/time_parts.ts`.
 */
import { intersectSets, NO_TIME, sumLengthNs, type TimeSet, uniteIntervals, uniteSets } from './intervals.ts';
import type { LanesModel, TimeSpan } from './model.ts';
import { collectIntervals, ownCalls, type RequestTimes, requestTimes } from './request_times.ts';

export const PARTS = ['queue', 'service', 'sync', 'write', 'request', 'untraced'] as const;
export type BreakdownPart = (typeof PARTS)[number];

export interface Breakdown {
  /** Time from the first start to the last end of the transactions' own events. */
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

/**
 * Divides the time of the own events; returns null without own events. `requests` are the times of all devices within
 * the span, if the caller has computed them.
 */
export function computeBreakdown(model: LanesModel, requests?: readonly RequestTimes[]): Breakdown | null {
  const { ownSpan: span } = model;
  return span && divideSpan(model, span, requests ?? [...requestTimes(model, span).values()]);
}

function divideSpan(model: LanesModel, span: TimeSpan, requests: readonly RequestTimes[]): Breakdown {
  const callTimes = (type: string) => uniteIntervals(collectIntervals(model, ownCalls(model, type)));
  const inOrder: readonly (readonly [BreakdownPart, TimeSet])[] = [
    ['queue', requests.map(({ queued }) => queued).reduce(uniteSets, NO_TIME)],
    ['service', requests.map(({ whole }) => whole).reduce(uniteSets, NO_TIME)],
    ['sync', callTimes('sys_sync')],
    ['write', callTimes('sys_write')],
    ['request', requests.map(({ unknown }) => unknown).reduce(uniteSets, NO_TIME)],
  ];
  const durationNs = span.toNs - span.fromNs;
  const parts: Record<BreakdownPart, number> = { queue: 0, service: 0, sync: 0, write: 0, request: 0, untraced: 0 };
  const within = Float64Array.of(span.fromNs, span.toNs);
  let covered: TimeSet = NO_TIME;
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
