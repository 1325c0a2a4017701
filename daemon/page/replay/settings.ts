/** The speeds, latencies and gaps that keys and lists offer. */

/** Times as fast as recorded. */
export const SPEEDS: readonly number[] = [0.001, 0.01, 0.1, 0.25, 0.5, 1, 2, 5, 10, 100, 1000];

const SPEED_MIN = 0.001;
const SPEED_MAX = 1000;
/** Ten round numbers in each power of ten, in steps of about the same ratio, which look even on a slider. */
const MANTISSAS = [100, 125, 160, 200, 250, 315, 400, 500, 630, 800];
const LATENCY_NS_MIN = 100_000n;
/** One hour, as the API allows. */
const LATENCY_NS_MAX = 3_600_000_000_000n;
/** Length to which idle times are cut, nanoseconds. */
export const IDLE_NS = 10_000_000n;

export const raiseSpeed = (speed: number) => Math.min(SPEED_MAX, speed * 2);
export const lowerSpeed = (speed: number) => Math.max(SPEED_MIN, speed / 2);

/** Places of the slider, ascending. */
export const SPEED_SCALE: readonly number[] = [
  ...[-5, -4, -3, -2, -1, 0].flatMap((power) => MANTISSAS.map((mantissa) => Number(`${mantissa}e${power}`))),
  SPEED_MAX,
];

/** Place on the scale of the speed that is nearest by ratio. */
export function placeOfSpeed(speed: number): number {
  const computeDistance = (place: number) => Math.abs(Math.log(SPEED_SCALE[place]! / speed));
  let nearest = 0;
  for (const place of SPEED_SCALE.keys()) if (computeDistance(place) < computeDistance(nearest)) nearest = place;
  return nearest;
}

/** The next of the latencies that are 1, 2, 5, 10 … times the least one. */
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

/** A speed in words: how much of the recorded time passes in a second. */
export function formatSpeed(speed: number): string {
  if (speed >= 1) return `${speed}×`;
  return `${Number((speed * 1000).toPrecision(3))} ms/s (${speed}×)`;
}
