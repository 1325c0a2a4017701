/** The slowest 2 %, which a map selects by itself. */
import { ROW_EDGES } from '../../sums/duration_rows.ts';
import type { HeatmapAnswer, Transaction } from '../feed/answers.ts';

export const TAIL_SHARE = 0.02;
/** Fewer cannot be compared. */
const TAIL_MIN = 30;
const POPULATION_MIN = 2 * TAIL_MIN;
/** The most transactions of one answer. */
export const LIST_MAX = 1000;

/** How many the slowest 2 % are: 0 where there are too few to select from. */
export function tailSize(count: number): number {
  return count < POPULATION_MIN ? 0 : Math.max(Math.ceil(count * TAIL_SHARE), TAIL_MIN);
}

/**
 * The least duration of the slowest `size`, given these and the one after them, the slowest first. If that one is as
 * slow, the longer ones are the tail, unless they are too few.
 */
export function exactTail(slowest: readonly Pick<Transaction, 'duration_ns'>[], size: number): bigint {
  const durations = slowest.map(({ duration_ns }) => BigInt(duration_ns));
  const least = durations[Math.min(size, durations.length) - 1]!;
  if (durations[size] !== least) return least;
  const longer = durations.indexOf(least);
  return longer >= TAIL_MIN ? durations[longer - 1]! : least;
}

/** The start of a row such that about `size`, and no less than TAIL_MIN, are in the rows from it on. */
export function tailOfCells({ cells, first_row, row_edges }: HeatmapAnswer, size: number): bigint {
  const counts = new Array<number>(Math.max(row_edges.length - 1, 1)).fill(0);
  for (const [, row, count] of cells) counts[row - first_row]! += count;
  let [best, bestCount] = [0, 0];
  for (let row = counts.length - 1, sum = 0; row >= 0; row--) {
    sum += counts[row]!;
    if (sum < TAIL_MIN || counts[row] === 0) continue;
    if (bestCount > 0 && Math.abs(sum - size) >= Math.abs(bestCount - size)) break;
    [best, bestCount] = [row, sum];
  }
  return ROW_EDGES[first_row + best]!;
}
