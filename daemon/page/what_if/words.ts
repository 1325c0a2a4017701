/** Describes what-ifs in words. */
import { formatQuantity, percentText } from '../../model/wording/amounts.ts';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import { formatDuration } from '../numbers/duration_text.ts';
import type { Projection } from './curve.ts';
import type { QuestionWhere } from './question.ts';

/** Formats a projection as `394.7 ms becomes 439.7 ms` or `stays 394.7 ms`. */
export function describeProjection({ recordedNs, durationNs }: Projection): string {
  if (recordedNs === durationNs) return `stays ${formatShortDuration(recordedNs)}`;
  return `${formatShortDuration(recordedNs)} becomes ${formatShortDuration(durationNs)}`;
}

/**
 * Describes whether the deadline is met, and the smallest latency with which it is missed, with all digits. A
 * projection covers only calls that have ended. `isPast` says whether a call in progress has already passed the
 * deadline; null if unknown.
 */
export function describeDeadline(
  { timesOut, smallestNs }: Projection,
  timeoutNs: bigint | null,
  isPast: boolean | null = false,
): string {
  if (timeoutNs === null) return 'no deadline';
  if (isPast) return '✕ times out: a call in progress has not ended by then';
  if (smallestNs === 0n) return '✕ times out, also as recorded';
  const limit = smallestNs === null ? 'with any latency' : `from +${formatDuration(smallestNs)} on`;
  if (timesOut) return `✕ times out, ${limit}`;
  if (isPast === null) return '▲ not known: a call in progress may not have ended by then';
  return smallestNs === null ? '✓ in time, with any latency' : `✓ in time; times out ${limit}`;
}

/** Formats shares as `0.6 % → 1.6 % time out`. */
export function formatShares(count: number, before: number, after: number): string {
  if (count === 0) return 'none is recorded';
  return `${percentText(before / count)} → ${percentText(after / count)} time out`;
}

/**
 * Formats a population as `of 9 027 transactions of shop`; `areMore` says that only the newest transactions are
 * counted.
 */
export function describePopulation(
  count: number,
  { service, node, from, to }: QuestionWhere,
  areMore: boolean,
  shown: (name: string) => string,
): string {
  const newest = areMore ? 'the newest ' : '';
  const joinNames = (list: readonly string[] | undefined) => list?.map(shown).join(' or ');
  const words = [
    `of ${newest}${formatQuantity(count, 'transaction')}`,
    service && `of ${joinNames(service)}`,
    node && `on ${joinNames(node)}`,
    (from !== undefined || to !== undefined) && 'in this window',
  ];
  return words.filter(Boolean).join(' ');
}
