/**
 * Sums up a scan bucket by bucket. If there are buckets, events arrive in order of time, so only one bucket is open at
 * any time.
 */
import { nativeSums } from '../../bpf/schema/native_sums.ts';
import { findFirstNotBelow } from '../base/binary_search.ts';
import { Problem } from '../base/problem.ts';
import { createRowNumbers } from '../store/blocks/row_numbers.ts';
import { getBigColumn, type ScannedBlock } from '../store/blocks/scanned_block.ts';
import { addCell, type Cell, createCell, type Summed, summarizeCell, toCell } from './cells.ts';
import { type DimensionName, type DimensionValue, getDimension } from './dimensions.ts';

/** Maximum number of rows in an answer. */
export const STATS_ROWS_MAX = 10_000;

const NO_END = 2n ** 64n;

export interface StatsRow extends Summed {
  bucket_start_ns: bigint | null;
  group: Partial<Record<DimensionName, DimensionValue>>;
}

/** The rows of an answer; `total` is the sum of all rows. */
export interface StatsTable {
  stats: StatsRow[];
  total: Summed;
}

export interface Stats {
  /** Adds a block; if there are buckets, blocks must be added in ascending order. */
  add(scanned: ScannedBlock): void;
  finish(): StatsTable;
}

export interface StatsOptions {
  /** Length of the buckets; undefined for a single bucket that covers all time. */
  bucketNs: bigint | undefined;
  groupBy: readonly DimensionName[];
}

/** Lists the columns that a scan must read. */
export function listStatsColumns(groupBy: readonly DimensionName[]): string[] {
  return ['duration_ns', 'result', ...groupBy.flatMap((name) => getDimension(name).columns)];
}

export interface GroupCell {
  group: readonly DimensionValue[];
  cell: Cell;
}

/** Receives the groups of each bucket, in order; the start is null for a single bucket that covers all time. */
export type OnBucket = (startNs: bigint | null, groups: GroupCell[]) => void;

export function createStats({ bucketNs, groupBy }: StatsOptions): Stats {
  const table = createStatsTable(groupBy);
  const { add, finish } = gatherCells({ bucketNs, groupBy }, table.add);
  return {
    add,
    finish() {
      finish();
      return table.finish();
    },
  };
}

/** Creates the rows of an answer; buckets must be added in ascending order. */
export function createStatsTable(groupBy: readonly DimensionName[]): { add: OnBucket; finish(): StatsTable } {
  const total = createCell();
  const stats: StatsRow[] = [];
  return {
    add(startNs, groups) {
      for (const { group, cell } of groups.sort((a, b) => compareGroups(a.group, b.group))) {
        addCell(total, cell);
        const values = Object.fromEntries(groupBy.map((name, i) => [name, group[i]]));
        stats.push({ bucket_start_ns: startNs, group: values, ...summarizeCell(cell) });
      }
      if (stats.length > STATS_ROWS_MAX) throw createTooManyProblem();
    },
    finish: () => ({ stats, total: summarizeCell(total) }),
  };
}

/** Sums up blocks, which must be in ascending order if there are buckets. */
export function gatherCells(
  { bucketNs, groupBy }: StatsOptions,
  onBucket: OnBucket,
): { add(scanned: ScannedBlock): void; finish(): void } {
  const groups = createGroupNumbers(groupBy);
  /** The sums of the open bucket. */
  const sums = nativeSums.createSums();
  let startNs = 0n;
  let endNs = bucketNs === undefined ? NO_END : 0n;
  /** Total number of rows in closed buckets. */
  let closed = 0;

  function closeBucket(): void {
    const found = nativeSums.takeSums(sums).map((of) => ({ group: groups.getGroup(of.number), cell: toCell(of) }));
    closed += found.length;
    onBucket(bucketNs === undefined ? null : startNs, found);
  }

  function openBucket(timestampNs: bigint): void {
    closeBucket();
    startNs = timestampNs - (timestampNs % bucketNs!);
    endNs = startNs + bucketNs!;
  }

  return {
    add(scanned) {
      const { block } = scanned;
      const timestamps = getBigColumn(block, 'timestamp_ns');
      const durations = getBigColumn(block, 'duration_ns');
      const results = getBigColumn(block, 'result');
      const numbers = groups.assignNumbers(scanned);
      for (let row = 0; row < block.rowCount; ) {
        if (timestamps[row]! >= endNs) openBucket(timestamps[row]!);
        const end = endNs === NO_END ? block.rowCount : findFirstNotBelow(timestamps, endNs, row + 1, block.rowCount);
        const used = nativeSums.addRows(sums, numbers, row, end, durations, results);
        if (closed + used > STATS_ROWS_MAX) throw createTooManyProblem();
        row = end;
      }
    },
    finish: closeBucket,
  };
}

function createTooManyProblem(): Problem {
  const message = `more than ${STATS_ROWS_MAX} buckets and groups: ask for longer buckets, fewer groups or a shorter time`;
  return new Problem('too_many_groups', message);
}

interface GroupNumbers {
  /** Returns the group number of each row, in an array that the next call overwrites. */
  assignNumbers(scanned: ScannedBlock): Uint32Array;
  getGroup(number: number): readonly DimensionValue[];
}

/** Assigns numbers to groups: groups with equal values have the same number in all recordings. */
function createGroupNumbers(groupBy: readonly DimensionName[]): GroupNumbers {
  const dimensions = groupBy.map(getDimension);
  const groups: (readonly DimensionValue[])[] = [];
  const rows = createRowNumbers<readonly DimensionValue[]>(dimensions.length, (group) => {
    // Each group has at least one row in the answer, so more groups would be too many rows.
    if (groups.push(group) > STATS_ROWS_MAX) throw createTooManyProblem();
  });
  let numberOfRow = new Uint32Array(0);

  function assignNumbers(scanned: ScannedBlock): Uint32Array {
    const { rowCount } = scanned.block;
    const readers = dimensions.map((one) => one.open(scanned));
    const codes = readers.map((one) => one.codes ?? collectCodes(one.readCode, rowCount));
    const readMeaning = (row: number) => readers.map((one) => one.describeCode(one.readCode(row)));
    if (numberOfRow.length < rowCount) numberOfRow = new Uint32Array(rowCount);
    rows.setNumbers({ codes, from: 0, to: rowCount, scope: scanned.dictionary }, readMeaning, numberOfRow);
    return numberOfRow;
  }

  return { assignNumbers, getGroup: (number) => groups[number]! };
}

function collectCodes(readCode: (row: number) => number, rowCount: number): Float64Array {
  const codes = new Float64Array(rowCount);
  for (let row = 0; row < rowCount; row++) codes[row] = readCode(row);
  return codes;
}

/** Compares two groups value by value; null comes first. */
function compareGroups(a: readonly DimensionValue[], b: readonly DimensionValue[]): number {
  for (const [i, value] of a.entries()) {
    const other = b[i]!;
    if (value === other) continue;
    if (value === null) return -1;
    if (other === null) return 1;
    return value < other ? -1 : 1;
  }
  return 0;
}
