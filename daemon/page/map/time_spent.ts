/** Mean times of the selection and of the rest, by part. Means are compared because, unlike medians, they add up. */
import type { ComparedSide } from '../../contract/received.ts';
import { type BreakdownPart, PARTS } from '../../model/lanes/breakdown.ts';

export interface MeanTimes {
  durationNs: bigint;
  parts: Record<BreakdownPart, bigint>;
}

/** Computes mean times, rounded to whole nanoseconds. */
export function computeMeans({ count, duration_ns, breakdown }: ComparedSide): MeanTimes {
  const mean = (sum: number | bigint) => divideRounded(BigInt(sum), BigInt(Math.max(count, 1)));
  const parts = Object.fromEntries(PARTS.map((part) => [part, mean(breakdown[`${part}_ns`])]));
  return { durationNs: mean(duration_ns), parts: parts as Record<BreakdownPart, bigint> };
}

/**
 * Finds the part that explains most of the selection's extra time; null if the selection took no more time than the
 * rest.
 */
export function findLargestExtra(
  selected: MeanTimes,
  others: MeanTimes,
): { part: BreakdownPart; ns: bigint; ofNs: bigint } | null {
  const ofNs = selected.durationNs - others.durationNs;
  const computeExtra = (part: BreakdownPart) => selected.parts[part] - others.parts[part];
  const part = PARTS.reduce((most, one) => (computeExtra(one) > computeExtra(most) ? one : most));
  return ofNs > 0n && computeExtra(part) > 0n ? { part, ns: computeExtra(part), ofNs } : null;
}

function divideRounded(sum: bigint, count: bigint): bigint {
  return (sum * 2n + count) / (count * 2n);
}
