/**
 * The duration of a transaction as a function of the extra latency. The daemon returns the function as a few straight
 * lines; at each latency, the highest line gives the duration.
 */
import type { ReceivedCurveLine } from '../../contract/received.ts';

/** The lines of a curve as exact integers: at least one line, in ascending order of `events`. */
export type ProjectedCurve = readonly { events: bigint; endNs: bigint }[];

export function toExactCurve(lines: readonly ReceivedCurveLine[]): ProjectedCurve {
  return lines.map(({ events, end_ns }) => ({ events: BigInt(events), endNs: BigInt(end_ns) }));
}

export function computeDurationNs(curve: ProjectedCurve, latencyNs: bigint): bigint {
  let longest = 0n;
  for (const { events, endNs } of curve) {
    const ns = endNs + events * latencyNs;
    if (ns > longest) longest = ns;
  }
  return longest;
}

/**
 * Returns the smallest latency with which the transaction misses the deadline; null if there is no deadline, or if no
 * latency makes the transaction miss it.
 */
export function findSmallestMissing(curve: ProjectedCurve, timeoutNs: bigint | null): bigint | null {
  if (timeoutNs === null) return null;
  let smallest: bigint | null = null;
  for (const { events, endNs } of curve) {
    const neededNs = endNs > timeoutNs ? 0n : events > 0n ? (timeoutNs - endNs) / events + 1n : null;
    if (neededNs !== null && (smallest === null || neededNs < smallest)) smallest = neededNs;
  }
  return smallest;
}

/** The result of a what-if for one transaction. */
export interface Projection {
  recordedNs: bigint;
  durationNs: bigint;
  timesOut: boolean;
  smallestNs: bigint | null;
}

export function computeProjection(curve: ProjectedCurve, latencyNs: bigint, timeoutNs: bigint | null): Projection {
  const durationNs = computeDurationNs(curve, latencyNs);
  return {
    recordedNs: computeDurationNs(curve, 0n),
    durationNs,
    timesOut: timeoutNs !== null && durationNs > timeoutNs,
    smallestNs: findSmallestMissing(curve, timeoutNs),
  };
}

export function isSameProjection(one: Projection, other: Projection): boolean {
  return (
    one.recordedNs === other.recordedNs &&
    one.durationNs === other.durationNs &&
    one.timesOut === other.timesOut &&
    one.smallestNs === other.smallestNs
  );
}
