/** Sums over the events of one bucket and group. */
import { addHistogram, type Histogram, maxOf, newHistogram, quantile, record } from './histogram.ts';

/** Sums of 32-bit words are exact in a double up to 2^53; they are carried over well before that. */
const CARRY_ABOVE = 2 ** 51;

export interface Cell {
  errorCount: number;
  durations: Histogram;
  bytes: WordSum;
  durationNs: WordSum;
}

/** A sum of 64-bit values: what was carried over so far, and the sums of words since then. */
interface WordSum {
  carried: bigint;
  high: number;
  low: number;
}

export function newCell(): Cell {
  return { errorCount: 0, durations: newHistogram(), bytes: newWordSum(), durationNs: newWordSum() };
}

const newWordSum = (): WordSum => ({ carried: 0n, high: 0, low: 0 });

/** `durations` and `results` are 64-bit columns, read as pairs of 32-bit words. */
export function addRow(cell: Cell, durations: Uint32Array, results: Uint32Array, row: number): void {
  const low = row * 2;
  const high = low + 1;
  record(cell.durations, durations[high]!, durations[low]!);
  addWords(cell.durationNs, durations[high]!, durations[low]!);
  if (results[high]! >>> 31 === 1) {
    cell.errorCount++;
    return;
  }
  addWords(cell.bytes, results[high]!, results[low]!);
}

function addWords(sum: WordSum, high: number, low: number): void {
  sum.high += high;
  sum.low += low;
  if (sum.high > CARRY_ABOVE || sum.low > CARRY_ABOVE) carried(sum);
}

function carried(sum: WordSum): bigint {
  sum.carried += (BigInt(sum.high) << 32n) + BigInt(sum.low);
  sum.high = 0;
  sum.low = 0;
  return sum.carried;
}

export function addCell(cell: Cell, more: Cell): void {
  cell.bytes.carried += carried(more.bytes);
  cell.durationNs.carried += carried(more.durationNs);
  cell.errorCount += more.errorCount;
  addHistogram(cell.durations, more.durations);
}

/** Quantiles are null if there are no events. */
export interface Summed {
  count: number;
  error_count: number;
  bytes: bigint;
  duration_ns: { sum: bigint } & Record<'p50' | 'p90' | 'p99' | 'max', bigint | null>;
}

export function summedOf(cell: Cell): Summed {
  const { durations, errorCount, bytes, durationNs } = cell;
  const at = (share: number) => (durations.count === 0 ? null : quantile(durations, share));
  return {
    count: durations.count,
    error_count: errorCount,
    bytes: carried(bytes),
    duration_ns: {
      sum: carried(durationNs),
      p50: at(0.5),
      p90: at(0.9),
      p99: at(0.99),
      max: durations.count === 0 ? null : maxOf(durations),
    },
  };
}
