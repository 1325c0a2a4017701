/** The speeds and latencies that keys and lists offer. */

/** Times as fast as recorded. */
export const SPEEDS: readonly number[] = [0.001, 0.01, 0.1, 0.25, 0.5, 1, 2, 5, 10, 100, 1000];

const SPEED_MIN = 0.001;
const SPEED_MAX = 1000;
const LATENCY_NS_MIN = 100_000n;
/** One hour, as the API allows. */
const LATENCY_NS_MAX = 3_600_000_000_000n;

export const fasterThan = (speed: number) => Math.min(SPEED_MAX, speed * 2);
export const slowerThan = (speed: number) => Math.max(SPEED_MIN, speed / 2);

/** 1, 2, 5, 10 … times the least one. */
export function moreLatency(latencyNs: bigint): bigint {
  return latenciesNs().find((next) => next > latencyNs) ?? LATENCY_NS_MAX;
}

export function lessLatency(latencyNs: bigint): bigint {
  return latenciesNs().findLast((before) => before < latencyNs) ?? 0n;
}

function latenciesNs(): bigint[] {
  const all: bigint[] = [];
  for (let decadeNs = LATENCY_NS_MIN; decadeNs < LATENCY_NS_MAX; decadeNs *= 10n)
    all.push(decadeNs, decadeNs * 2n, decadeNs * 5n);
  return [...all.filter((latencyNs) => latencyNs < LATENCY_NS_MAX), LATENCY_NS_MAX];
}

/** A speed in words: how much of the recorded time passes in a second. */
export function speedText(speed: number): string {
  if (speed >= 1) return `${speed}×`;
  return `${Number((speed * 1000).toPrecision(3))} ms/s (${speed}×)`;
}
