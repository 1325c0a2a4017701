/** The curves of many transactions, stored so that a slider can count transactions without allocating objects. */
import type { ReceivedCurveLine } from '../../contract/received.ts';

export interface CurvePopulation {
  readonly count: number;
  /**
   * Returns the number of transactions that miss the deadline with the extra latency, also for values that a double
   * would round.
   */
  countMissed(latencyNs: bigint, timeoutNs: bigint): number;
}

/** Below this limit, a sum of whole numbers is exact as a double. */
const EXACT_MAX = 2 ** 53;

export function createPopulation(curves: readonly (readonly ReceivedCurveLine[])[]): CurvePopulation {
  const lineCount = curves.reduce((sum, curve) => sum + curve.length, 0);
  const events = new Float64Array(lineCount);
  const ends = new Float64Array(lineCount);
  const exactEnds = new BigInt64Array(lineCount);
  /** Index after the last line of each curve. */
  const stops = new Uint32Array(curves.length);
  let line = 0;
  for (const [at, curve] of curves.entries()) {
    for (const { events: delaying, end_ns } of curve) {
      events[line] = Number(delaying);
      ends[line] = Number(end_ns);
      exactEnds[line++] = BigInt(end_ns);
    }
    stops[at] = line;
  }

  function isMissed(at: number, latency: number, timeout: number, latencyNs: bigint, timeoutNs: bigint): boolean {
    const end = ends[at]! + events[at]! * latency;
    if (end < EXACT_MAX) return end > timeout;
    return exactEnds[at]! + BigInt(events[at]!) * latencyNs > timeoutNs;
  }

  return {
    count: curves.length,
    countMissed(latencyNs, timeoutNs) {
      const latency = Number(latencyNs);
      const timeout = Number(timeoutNs);
      let [count, at] = [0, 0];
      for (let curve = 0; curve < stops.length; curve++) {
        const stop = stops[curve]!;
        for (; at < stop; at++) {
          if (!isMissed(at, latency, timeout, latencyNs, timeoutNs)) continue;
          count++;
          break;
        }
        at = stop;
      }
      return count;
    },
  };
}
