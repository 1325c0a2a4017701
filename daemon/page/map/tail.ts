/** The slowest 2 %, which a map selects by default. */
import type { HeatmapAnswer, ReceivedTransaction } from '../../contract/received.ts';
import { ROW_EDGES } from '../../model/duration_rows.ts';

export const TAIL_SHARE = 0.02;
/** Minimum number of transactions or events in a tail; a comparison needs this many. */
const TAIL_MIN = 30;
const POPULATION_MIN = 2 * TAIL_MIN;
/** Maximum number of transactions in one answer. */
export const LIST_MAX = 1000;

/** Returns the number of transactions or events in the slowest 2 %; 0 if there are too few to select from. */
export function tailSize(count: number): number {
  return count < POPULATION_MIN ? 0 : Math.max(Math.ceil(count * TAIL_SHARE), TAIL_MIN);
}

/**
 * Computes the shortest duration of the slowest `size` transactions. `slowest` contains them and the next transaction,
 * in descending order of duration. If the next one is equally slow, all transactions of this duration are left out of
 * the tail, as long as `TAIL_MIN` others remain.
 */
export function computeExactTail(slowest: readonly Pick<ReceivedTransaction, 'duration_ns'>[], size: number): bigint {
  const durations = slowest.map(({ duration_ns }) => BigInt(duration_ns));
  const least = durations[Math.min(size, durations.length) - 1]!;
  if (durations[size] !== least) return least;
  const longer = durations.indexOf(least);
  return longer >= TAIL_MIN ? durations[longer - 1]! : least;
}

type MapRows = Pick<HeatmapAnswer, 'cells' | 'first_row' | 'row_edges'>;

function sumCellsByRow({ cells, first_row, row_edges }: MapRows): number[] {
  const counts = new Array<number>(Math.max(row_edges.length - 1, 1)).fill(0);
  for (const [, row, count] of cells) counts[row - first_row]! += count;
  return counts;
}

/**
 * Finds the shortest duration of a tail of about `size` entries, and of at least `TAIL_MIN`. The tail consists of
 * whole rows.
 */
export function tailOfCells({ cells, first_row, row_edges }: MapRows, size: number): bigint {
  const counts = sumCellsByRow({ cells, first_row, row_edges });
  let [best, bestCount] = [0, 0];
  for (let row = counts.length - 1, sum = 0; row >= 0; row--) {
    sum += counts[row]!;
    if (sum < TAIL_MIN || counts[row] === 0) continue;
    if (bestCount > 0 && Math.abs(sum - size) >= Math.abs(bestCount - size)) break;
    [best, bestCount] = [row, sum];
  }
  return ROW_EDGES[first_row + best]!;
}

/**
 * Maximum number of requests that narrow a tail. Each request halves a range, so they divide a row into at most 1024
 * parts.
 */
const COUNTS_MAX = 10;
/** Maximum excess of a tail over `size`, as a share: such a tail is not narrowed further, to save requests. */
const EXCESS_SHARE = 0.01;

/**
 * Finds the shortest duration for a tail of `size` transactions or slightly more, within the row of the map in which
 * the tail begins. `countFrom` returns the number of transactions that take at least a given duration.
 */
export async function narrowTail(
  rows: MapRows,
  size: number,
  countFrom: (ns: bigint) => Promise<number>,
): Promise<bigint> {
  const counts = sumCellsByRow(rows);
  let row = counts.length - 1;
  for (let sum = counts[row]!; row > 0 && sum < size; sum += counts[row]!) row--;
  let [low, high] = [ROW_EDGES[rows.first_row + row]!, ROW_EDGES[rows.first_row + row + 1]!];
  for (let asked = 0; asked < COUNTS_MAX && high - low > 1n; asked++) {
    const middle = (low + high) / 2n;
    const count = await countFrom(middle);
    if (count < size) high = middle;
    else low = middle;
    if (count >= size && count <= size * (1 + EXCESS_SHARE)) break;
  }
  return low;
}
