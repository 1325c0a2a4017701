/** The values of a slider on a logarithmic scale: 24 round numbers in each power of ten. */

const MANTISSAS = [
  ...[10n, 11n, 12n, 13n, 14n, 15n, 16n, 18n, 20n, 22n, 25n, 28n],
  ...[30n, 35n, 40n, 45n, 50n, 55n, 60n, 65n, 70n, 75n, 80n, 90n],
];
/** Smallest value above 0: one microsecond. */
const LEAST_NS = 1000n;
/** Largest value: one hour, the maximum latency of the API. */
const MOST_NS = 3_600_000_000_000n;

const DURATIONS: readonly bigint[] = listDurations();

function listDurations(): bigint[] {
  const all: bigint[] = [];
  for (let tenth = LEAST_NS / 10n; tenth * 10n < MOST_NS; tenth *= 10n)
    all.push(...MANTISSAS.map((mantissa) => mantissa * tenth));
  return [...all.filter((ns) => ns < MOST_NS), MOST_NS];
}

/** Values of a slider, ascending; null stands for no limit. */
export type Scale = readonly (bigint | null)[];

export const LATENCIES: Scale = [0n, ...DURATIONS];
export const TIMEOUTS: Scale = [...DURATIONS, null];

/** Returns the index of the scale's value that is nearest to `ns`. */
export function placeOn(scale: Scale, ns: bigint | null): number {
  if (ns === null) return scale.length - 1;
  const after = scale.findIndex((value) => value === null || value >= ns);
  if (after <= 0) return after === 0 ? 0 : scale.length - 1;
  const below = scale[after - 1]!;
  const above = scale[after]!;
  return above !== null && above - ns <= ns - below ? after : after - 1;
}
