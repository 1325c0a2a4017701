/** Walks through all transactions that a filter selects, in the tables in memory, without reading a recording. */
import { wordsOf } from '../../../agent/recording/words64.ts';
import type { TransactionFilter, TransactionRows } from '../store.ts';
import type { OpenRecording } from './recording_files.ts';
import { knownOfMany, ownerTest } from './transaction_choice.ts';
import { isAlone, type TransactionGroups } from './transaction_groups.ts';

const ROWS_A_STEP = 8192;
const U64_MAX = 2n ** 64n - 1n;

/** Reuses the arrays of a block for the next one. Blocks may be empty: the consumer should do its other work then. */
export function* selectedTransactions(
  open: readonly OpenRecording[],
  groups: TransactionGroups,
  filter: TransactionFilter,
): Generator<TransactionRows> {
  const rows = newRows();
  const [first, durations] = [wordsOf(rows.startsNs), wordsOf(rows.durationsNs)];
  const isOwned = filter.services || filter.nodes ? ownerTest(open, groups, filter) : undefined;
  const isWanted = boundsTest(filter, first, durations);
  const { tables, starts, covered } = groups;
  const words = tables.map(({ firstNs, endNs }) => ({ first: wordsOf(firstNs), end: wordsOf(endNs) }));

  /** Writes the transaction that begins with a row of the tables, if it is selected. */
  function write(row: number, table: number): void {
    const place = row - starts[table]!;
    const at = rows.length;
    rows.hashes[at] = tables[table]!.hashes[place]!;
    let own: readonly number[] = [row];
    if (isAlone(groups, row)) {
      const times = words[table]!;
      first[at * 2] = times.first[place * 2]!;
      first[at * 2 + 1] = times.first[place * 2 + 1]!;
      subtract(times.end, place, times.first, durations, at);
      rows.failed[at] = tables[table]!.hasError[place]!;
    } else {
      const known = knownOfMany(open, groups, row);
      own = known.rows;
      rows.startsNs[at] = known.firstNs;
      rows.durationsNs[at] = known.endNs > known.firstNs ? known.endNs - known.firstNs : 0n;
      rows.failed[at] = known.hasError ? 1 : 0;
    }
    if (filter.hasError !== undefined && filter.hasError !== (rows.failed[at] === 1)) return;
    if (isWanted(at) && (!isOwned || isOwned(own))) rows.length++;
  }

  for (let table = 0; table < tables.length; table++) {
    for (let row = starts[table]!; row < starts[table + 1]!; row++) {
      if (covered[row] === 0) write(row, table);
      if (row % ROWS_A_STEP !== ROWS_A_STEP - 1) continue;
      yield rows;
      rows.length = 0;
    }
  }
  yield rows;
}

function newRows(): TransactionRows {
  return {
    length: 0,
    hashes: new Float64Array(ROWS_A_STEP),
    startsNs: new BigUint64Array(ROWS_A_STEP),
    durationsNs: new BigUint64Array(ROWS_A_STEP),
    failed: new Uint8Array(ROWS_A_STEP),
  };
}

/** Writes end - start. A transaction that has only later write-back took none of its caller's time. */
function subtract(ends: Uint32Array, place: number, starts: Uint32Array, to: Uint32Array, at: number): void {
  const low = ends[place * 2]! - starts[place * 2]!;
  const high = ends[place * 2 + 1]! - starts[place * 2 + 1]! - (low < 0 ? 1 : 0);
  to[at * 2] = high < 0 ? 0 : low;
  to[at * 2 + 1] = high < 0 ? 0 : high;
}

function boundsTest(
  { fromNs = 0n, toNs, minDurationNs = 0n, maxDurationNs = U64_MAX }: TransactionFilter,
  first: Uint32Array,
  durations: Uint32Array,
): (at: number) => boolean {
  const isInTime = withinTest(first, fromNs, toNs === undefined ? U64_MAX : toNs - 1n);
  const isInDuration = withinTest(durations, minDurationNs, maxDurationNs);
  return (at) => isInTime(at) && isInDuration(at);
}

/** Returns a test for values of 64 bits, with inclusive bounds. */
function withinTest(words: Uint32Array, min: bigint, max: bigint): (at: number) => boolean {
  const [from, to] = [min < 0n ? 0n : min, max > U64_MAX ? U64_MAX : max];
  if (from > to) return () => false;
  const [fromHigh, fromLow] = [Number(from >> 32n), Number(from & 0xffff_ffffn)];
  const [toHigh, toLow] = [Number(to >> 32n), Number(to & 0xffff_ffffn)];
  return (at) => {
    const [low, high] = [words[at * 2]!, words[at * 2 + 1]!];
    return (
      (high > fromHigh || (high === fromHigh && low >= fromLow)) && (high < toHigh || (high === toHigh && low <= toLow))
    );
  };
}
