/** Sums over the events of one bucket and group. */
import { addHistogram, type Histogram, maxOf, newHistogram, quantile, record } from './histogram.ts';

/** Sums of 32-bit words are exact in a double up to 2^53; they are carried over well before that. */
const CARRY_ABOVE = 2 ** 51;

export interface Cell {
  errorCount: number;
  durations: Histogram;
  /** Bytes carried over so far, and the sums of words since then. */
  bytes: bigint;
  bytesHigh: number;
  bytesLow: number;
}

export function newCell(): Cell {
  return { errorCount: 0, durations: newHistogram(), bytes: 0n, bytesHigh: 0, bytesLow: 0 };
}

/** `durations` and `results` are 64-bit columns, read as pairs of 32-bit words. */
export function addRow(cell: Cell, durations: Uint32Array, results: Uint32Array, row: number): void {
  const low = row * 2;
  const high = low + 1;
  record(cell.durations, durations[high]!, durations[low]!);
  if (results[high]! >>> 31 === 1) {
    cell.errorCount++;
    return;
  }
  cell.bytesHigh += results[high]!;
  cell.bytesLow += results[low]!;
  if (cell.bytesHigh > CARRY_ABOVE || cell.bytesLow > CARRY_ABOVE) carry(cell);
}

function carry(cell: Cell): void {
  cell.bytes += (BigInt(cell.bytesHigh) << 32n) + BigInt(cell.bytesLow);
  cell.bytesHigh = 0;
  cell.bytesLow = 0;
}

export function addCell(cell: Cell, more: Cell): void {
  carry(more);
  cell.bytes += more.bytes;
  cell.errorCount += more.errorCount;
  addHistogram(cell.durations, more.durations);
}

/** Quantiles are null if there are no events. */
export interface Summed {
  count: number;
  error_count: number;
  bytes: bigint;
  duration_ns: Record<'p50' | 'p90' | 'p99' | 'max', bigint | null>;
}

export function summedOf(cell: Cell): Summed {
  carry(cell);
  const { durations, errorCount, bytes } = cell;
  const at = (share: number) => (durations.count === 0 ? null : quantile(durations, share));
  return {
    count: durations.count,
    error_count: errorCount,
    bytes,
    duration_ns: { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: durations.count === 0 ? null : maxOf(durations) },
  };
}
