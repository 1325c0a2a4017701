/** Sums over the events of one bucket and group. */
import type { GroupSums } from '../../bpf/schema/native_sums.ts';
import { addHistogram, createHistogram, type Histogram, quantile } from './histogram.ts';

export interface Cell {
  errorCount: number;
  durations: Histogram;
  bytes: bigint;
  durationNs: bigint;
}

export function createCell(): Cell {
  return { errorCount: 0, durations: createHistogram(), bytes: 0n, durationNs: 0n };
}

export function toCell({ errorCount, count, maxNs, blocks, bytes, durationNs }: GroupSums): Cell {
  return { errorCount, durations: { count, max: maxNs, blocks }, bytes, durationNs };
}

export function addCell(cell: Cell, more: Cell): void {
  cell.bytes += more.bytes;
  cell.durationNs += more.durationNs;
  cell.errorCount += more.errorCount;
  addHistogram(cell.durations, more.durations);
}

/** Sums of a cell; quantiles are null if there are no events. */
export interface Summed {
  count: number;
  error_count: number;
  bytes: bigint;
  duration_ns: { sum: bigint } & Record<'p50' | 'p90' | 'p99' | 'max', bigint | null>;
}

export function summarizeCell({ durations, errorCount, bytes, durationNs }: Cell): Summed {
  const computeQuantile = (share: number) => (durations.count === 0 ? null : quantile(durations, share));
  return {
    count: durations.count,
    error_count: errorCount,
    bytes,
    duration_ns: {
      sum: durationNs,
      p50: computeQuantile(0.5),
      p90: computeQuantile(0.9),
      p99: computeQuantile(0.99),
      max: durations.count === 0 ? null : durations.max,
    },
  };
}
