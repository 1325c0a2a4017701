/**
 * The rows of a heatmap of durations. The edges of the rows are fixed, 16 in each decade of nanoseconds, so heatmaps of
 * different recordings can be added up:
 *
 *   row    0     1     2     3     4     5     6     7    ...   16    ...  32
 *   from   0     2     2     2     2     3     3     3          10         100
 *
 * An edge is 10^(row/16), rounded up to an integer, except that row 0 begins at 0. A row between two equal edges
 * contains no durations.
 */
export const ROWS_PER_DECADE = 16;

/** Limit above any duration of 64 bits. */
const LIMIT = 2n ** 64n;

/** The start of each row, and the end of the last row. */
export const ROW_EDGES: readonly bigint[] = computeEdges();

/** Number of rows; the last row contains the longest 64-bit durations. */
export const ROW_COUNT = ROW_EDGES.length - 1;

/** Edges that doubles represent exactly; every duration below 2^53 lies between two of these edges. */
const SMALL_EDGES = Float64Array.from(ROW_EDGES.filter((edge) => edge < 2n ** 54n).map(Number));

function computeEdges(): bigint[] {
  const found = [0n];
  while (found.at(-1)! < LIMIT) found.push(computeEdgeNs(found.length));
  return found;
}

function computeEdgeNs(row: number): bigint {
  const power = BigInt(ROWS_PER_DECADE);
  const least = 10n ** BigInt(row);
  let edge = BigInt(Math.round(10 ** (row / ROWS_PER_DECADE)));
  while (edge ** power >= least) edge--;
  while (edge ** power < least) edge++;
  return edge;
}

/** Durations are looked up by a key: the high bits of a double, which are its exponent and the four bits after it. */
const KEY_SHIFT = 16;
const KEYS_PER_POWER = 16;
const FIRST_KEY = 1023 * KEYS_PER_POWER;
const double = new Float64Array(1);
const words = new Uint32Array(double.buffer);

/** Maps each key to the row of the smallest double that has this key, for doubles from 1 to below 2^53. */
const KEY_ROWS = Uint16Array.from({ length: 53 * KEYS_PER_POWER }, (_, key) => {
  const least = 2 ** Math.floor(key / KEYS_PER_POWER) * (1 + (key % KEYS_PER_POWER) / KEYS_PER_POWER);
  return SMALL_EDGES.findLastIndex((edge) => edge <= least);
});

/** Returns the row of a duration below 2^53. The table is used because a logarithm would take three times as long. */
export function findSmallDurationRow(durationNs: number): number {
  if (durationNs < 1) return 0;
  double[0] = durationNs;
  let row = KEY_ROWS[(words[1]! >>> KEY_SHIFT) - FIRST_KEY]!;
  while (SMALL_EDGES[row + 1]! <= durationNs) row++;
  return row;
}

export function findDurationRow(durationNs: bigint): number {
  if (durationNs < 2n ** 53n) return findSmallDurationRow(Number(durationNs));
  return ROW_EDGES.findLastIndex((edge) => edge <= durationNs);
}
