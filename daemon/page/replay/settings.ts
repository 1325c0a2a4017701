/** The speeds, latencies and gaps that can be chosen by keys and from lists. */

/** Speeds as multiples of the recorded speed. */
export const SPEEDS: readonly number[] = [0.001, 0.01, 0.1, 0.25, 0.5, 1, 2, 5, 10, 100, 1000];

const SPEED_MIN = 0.001;
const SPEED_MAX = 1000;
/**
 * Ten round numbers in each power of ten. The ratio between neighbours is about the same, so the steps look even on a
 * slider.
 */
const MANTISSAS = [100, 125, 160, 200, 250, 315, 400, 500, 630, 800];
const LATENCY_NS_MIN = 100_000n;
/** Maximum latency: one hour, as in the API. */
const LATENCY_NS_MAX = 3_600_000_000_000n;
/** Length to which idle times are shortened, in nanoseconds. */
export const IDLE_NS = 10_000_000n;

export const raiseSpeed = (speed: number) => Math.min(SPEED_MAX, speed * 2);
export const lowerSpeed = (speed: number) => Math.max(SPEED_MIN, speed / 2);

/** Speeds at the positions of the slider, ascending. */
export const SPEED_SCALE: readonly number[] = [
  ...[-5, -4, -3, -2, -1, 0].flatMap((power) => MANTISSAS.map((mantissa) => Number(`${mantissa}e${power}`))),
  SPEED_MAX,
];

/** Returns the slider position whose speed is nearest, measured as a ratio. */
export function placeOfSpeed(speed: number): number {
  const computeDistance = (place: number) => Math.abs(Math.log(SPEED_SCALE[place]! / speed));
  let nearest = 0;
  for (const place of SPEED_SCALE.keys()) if (computeDistance(place) < computeDistance(nearest)) nearest = place;
  return nearest;
}

/** Returns the next larger latency, out of 1, 2, 5, 10 … times the smallest latency. */
export function raiseLatency(latencyNs: bigint): bigint {
  return listLatenciesNs().find((next) => next > latencyNs) ?? LATENCY_NS_MAX;
}

export function lowerLatency(latencyNs: bigint): bigint {
  return listLatenciesNs().findLast((before) => before < latencyNs) ?? 0n;
}

function listLatenciesNs(): bigint[] {
  const all: bigint[] = [];
  for (let decadeNs = LATENCY_NS_MIN; decadeNs < LATENCY_NS_MAX; decadeNs *= 10n)
    all.push(decadeNs, decadeNs * 2n, decadeNs * 5n);
  return [...all.filter((latencyNs) => latencyNs < LATENCY_NS_MAX), LATENCY_NS_MAX];
}

/** Formats a speed as a factor; a speed below 1 also as recorded time per second. */
export function formatSpeed(speed: number): string {
  if (speed >= 1) return `${speed}×`;
  return `${Number((speed * 1000).toPrecision(3))} ms/s (${speed}×)`;
}
