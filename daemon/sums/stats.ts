/** Sums up a scan bucket by bucket: events arrive in order of time, so only one bucket is open. */
import { wordsOf } from '../../agent/recording/words64.ts';
import { Problem } from '../problem.ts';
import { bigColumn } from '../store/blocks/column.ts';
import type { Dictionary, ScannedBlock } from '../store/blocks/scanned_block.ts';
import { addCell, addRow, type Cell, newCell, type Summed, summedOf } from './cells.ts';
import { type DimensionName, type DimensionValue, dimension } from './dimensions.ts';

/** Maximum number of rows in an answer. */
export const STATS_ROWS_MAX = 10_000;

const NO_END = 2n ** 64n;

export interface StatsRow extends Summed {
  bucket_start_ns: bigint | null;
  group: Partial<Record<DimensionName, DimensionValue>>;
}

/** `total` sums up all rows. */
export interface StatsTable {
  stats: StatsRow[];
  total: Summed;
}

export interface Stats {
  /** Blocks must be added in ascending order. */
  add(scanned: ScannedBlock): void;
  finish(): StatsTable;
}

export interface StatsOptions {
  /** Length of the buckets; undefined for one bucket over all time. */
  bucketNs: bigint | undefined;
  groupBy: readonly DimensionName[];
}

/** Columns that a scan must read. */
export function statsColumns(groupBy: readonly DimensionName[]): string[] {
  return ['duration_ns', 'result', ...groupBy.flatMap((name) => dimension(name).columns)];
}

export function createStats({ bucketNs, groupBy }: StatsOptions): Stats {
  const total = newCell();
  const stats: StatsRow[] = [];
  const groups = groupNumbers(groupBy);
  /** Cells of the open bucket, by group number. */
  let cells = new Map<number, Cell>();
  let startNs = 0n;
  let endNs = bucketNs === undefined ? NO_END : 0n;

  function closeBucket(): void {
    const found = [...cells].map(([number, cell]) => ({ group: groups.groupOf(number), cell }));
    for (const { group, cell } of found.sort((a, b) => compareGroups(a.group, b.group))) {
      addCell(total, cell);
      const values = Object.fromEntries(groupBy.map((name, i) => [name, group[i]]));
      stats.push({ bucket_start_ns: bucketNs === undefined ? null : startNs, group: values, ...summedOf(cell) });
    }
    cells = new Map();
  }

  function openBucketOf(timestampNs: bigint): void {
    closeBucket();
    startNs = timestampNs - (timestampNs % bucketNs!);
    endNs = startNs + bucketNs!;
  }

  function cellOf(number: number): Cell {
    let cell = cells.get(number);
    if (!cell) {
      if (stats.length + cells.size === STATS_ROWS_MAX) throw tooMany();
      cell = newCell();
      cells.set(number, cell);
    }
    return cell;
  }

  return {
    add(scanned) {
      const { block } = scanned;
      const timestamps = bigColumn(block, 'timestamp_ns');
      const durations = wordsOf(bigColumn(block, 'duration_ns'));
      const results = wordsOf(bigColumn(block, 'result'));
      const groupAt = groups.open(scanned);
      for (let row = 0; row < block.rowCount; ) {
        if (timestamps[row]! >= endNs) openBucketOf(timestamps[row]!);
        const end = firstNotBelow(timestamps, row + 1, block.rowCount, endNs);
        for (; row < end; row++) addRow(cellOf(groupAt(row)), durations, results, row);
      }
    },
    finish() {
      closeBucket();
      return { stats, total: summedOf(total) };
    },
  };
}

function tooMany(): Problem {
  const message = `more than ${STATS_ROWS_MAX} buckets and groups: ask for longer buckets, fewer groups or a shorter time`;
  return new Problem('too_many_groups', message);
}

/** Binary search, because times are ascending. */
function firstNotBelow(timestamps: ArrayLike<bigint>, from: number, to: number, limit: bigint): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (timestamps[middle]! < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface GroupNumbers {
  open(scanned: ScannedBlock): (row: number) => number;
  groupOf(number: number): readonly DimensionValue[];
}

/** Numbers groups: equal values have the same number, in all recordings. */
function groupNumbers(groupBy: readonly DimensionName[]): GroupNumbers {
  const dimensions = groupBy.map(dimension);
  const groups: (readonly DimensionValue[])[] = [];
  const numbers = new Map<string, number>();
  /** Group numbers by the codes of a row, per dictionary: one level of maps for each dimension. */
  const known = new Map<Dictionary, Level>();

  function numberOf(group: readonly DimensionValue[]): number {
    const key = JSON.stringify(group);
    let number = numbers.get(key);
    if (number === undefined) {
      number = groups.push(group) - 1;
      numbers.set(key, number);
    }
    return number;
  }

  function open(scanned: ScannedBlock): (row: number) => number {
    const readers = dimensions.map((one) => one.open(scanned));
    if (readers.length === 0) return () => numberOf([]);
    const first: Level = known.get(scanned.dictionary) ?? new Map();
    known.set(scanned.dictionary, first);
    const last = readers.length - 1;
    return (row) => {
      let level = first;
      for (let i = 0; i < last; i++) {
        const code = readers[i]!.codeAt(row);
        let next = level.get(code) as Level | undefined;
        if (!next) {
          next = new Map();
          level.set(code, next);
        }
        level = next;
      }
      const code = readers[last]!.codeAt(row);
      let number = level.get(code) as number | undefined;
      if (number === undefined) {
        number = numberOf(readers.map(({ codeAt, meaningOf }) => meaningOf(codeAt(row))));
        level.set(code, number);
      }
      return number;
    };
  }

  return { open, groupOf: (number) => groups[number]! };
}

type Level = Map<number, Level | number>;

/** Compares value by value; null comes first. */
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
