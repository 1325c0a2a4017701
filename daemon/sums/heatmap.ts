/**
 * Counts transactions or events by start and duration in the cells of a heatmap, which has columns of time and rows of
 * duration.
 */
import { toWords } from '../../agent/recording/words64.ts';
import { findDurationRow, findSmallDurationRow, ROW_COUNT } from '../model/duration_rows.ts';
import { getBigColumn, type ScannedBlock } from '../store/blocks/scanned_block.ts';
import type { TimedRows } from './box.ts';
import { createExactSum } from './exact_sum.ts';

export const COLUMNS_MAX = 500;

/** Columns of time: the first begins at `fromNs`, each is `columnNs` long, and the last may end earlier. */
export interface HeatmapColumns {
  fromNs: bigint;
  toNs: bigint;
  columnNs: bigint;
  count: number;
}

/** Returns at most `countMax` columns of equal length, which is a whole number of nanoseconds. */
export function computeHeatmapColumns(fromNs: bigint, toNs: bigint, countMax: number): HeatmapColumns {
  const lengthNs = toNs - fromNs;
  const most = BigInt(countMax);
  const columnNs = lengthNs === 0n ? 1n : (lengthNs + most - 1n) / most;
  return { fromNs, toNs, columnNs, count: Number((lengthNs + columnNs - 1n) / columnNs) };
}

export interface HeatmapTotal {
  count: number;
  failed: number;
  durationNs: bigint;
  maxNs: bigint;
}

export interface Heatmap {
  /** Column, row, count and failed count of each cell that is not empty; cells are ordered by column, then by row. */
  cells: Float64Array;
  total: HeatmapTotal;
}

export interface HeatmapCounter {
  /** Adds rows; rows outside the columns are left out. */
  add(rows: TimedRows): void;
  finish(): Heatmap;
}

/** Columns that a scan must read. */
export const HEATMAP_COLUMNS = ['timestamp_ns', 'duration_ns', 'result'] as const;

export function readTimedRows({ block }: ScannedBlock): TimedRows {
  const results = toWords(getBigColumn(block, 'result'));
  return {
    length: block.rowCount,
    startsNs: getBigColumn(block, 'timestamp_ns'),
    durationsNs: getBigColumn(block, 'duration_ns'),
    // The high word contains the sign.
    hasFailed: (row) => results[row * 2 + 1]! >= 0x8000_0000,
  };
}

const WORD = 2 ** 32;

export function createHeatmapCounter(columns: HeatmapColumns): HeatmapCounter {
  const counts = new Float64Array(columns.count * ROW_COUNT);
  const failures = new Float64Array(columns.count * ROW_COUNT);
  const findColumn = createColumnFinder(columns);
  const sum = createExactSum();
  let [total, failed] = [0, 0];
  let [max, largeMax] = [0, 0n];

  return {
    add({ length, startsNs, durationsNs, hasFailed }) {
      const starts = toWords(startsNs);
      const durations = toWords(durationsNs);
      for (let row = 0; row < length; row++) {
        const column = findColumn(starts, row);
        if (column < 0) continue;
        const duration = durations[row * 2 + 1]! * WORD + durations[row * 2]!;
        const isSmall = duration < Number.MAX_SAFE_INTEGER;
        const cell =
          column * ROW_COUNT + (isSmall ? findSmallDurationRow(duration) : findDurationRow(durationsNs[row]!));
        if (isSmall) {
          sum.add(duration);
          if (duration > max) max = duration;
        } else {
          sum.addLarge(durationsNs[row]!);
          if (durationsNs[row]! > largeMax) largeMax = durationsNs[row]!;
        }
        counts[cell]!++;
        total++;
        if (!hasFailed(row)) continue;
        failures[cell]!++;
        failed++;
      }
    },
    finish() {
      const maxNs = largeMax > 0n ? largeMax : BigInt(max);
      return {
        cells: listFilledCells(counts, failures),
        total: { count: total, failed, durationNs: sum.total(), maxNs },
      };
    },
  };
}

/** Returns a function that returns the column of a row's start; -1 if the start is outside all columns. */
function createColumnFinder({ fromNs, toNs, columnNs }: HeatmapColumns): (starts: Uint32Array, row: number) => number {
  const [fromHigh, fromLow] = [Number(fromNs >> 32n), Number(fromNs & 0xffff_ffffn)];
  const length = Number(toNs - fromNs);
  const width = Number(columnNs);
  if (length > Number.MAX_SAFE_INTEGER) {
    return (starts, row) => {
      const start = (BigInt(starts[row * 2 + 1]!) << 32n) | BigInt(starts[row * 2]!);
      return start < fromNs || start >= toNs ? -1 : Number((start - fromNs) / columnNs);
    };
  }
  return (starts, row) => {
    // Differences of up to 2^53 are exact, and larger ones are outside all columns anyway.
    const offset = (starts[row * 2 + 1]! - fromHigh) * WORD + (starts[row * 2]! - fromLow);
    if (offset < 0 || offset >= length) return -1;
    const column = Math.floor(offset / width);
    // The quotient may have been rounded up to the next integer.
    return column * width > offset ? column - 1 : column;
  };
}

function listFilledCells(counts: Float64Array, failures: Float64Array): Float64Array {
  const found: number[] = [];
  for (let cell = 0; cell < counts.length; cell++)
    if (counts[cell]! > 0) found.push(Math.floor(cell / ROW_COUNT), cell % ROW_COUNT, counts[cell]!, failures[cell]!);
  return Float64Array.from(found);
}
