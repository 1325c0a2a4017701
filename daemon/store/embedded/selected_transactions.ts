/** Walks through all transactions that a filter selects, in the tables in memory, without reading a recording. */
import { wordsOf } from '../../../agent/recording/words64.ts';
import { boxTest } from '../../sums/box.ts';
import type { TransactionReach, TransactionRows } from '../store.ts';
import type { OpenRecording } from './recording_files.ts';
import type { ChosenFilter } from './recordings.ts';
import { knownOfMany, ownerTest } from './transaction_choice.ts';
import { isAlone, type TransactionGroups } from './transaction_groups.ts';
import { findReach } from './transaction_reach.ts';

const ROWS_A_STEP = 8192;

/**
 * Reuses the arrays of a block for the next one. Blocks may be empty: the consumer should do its other work then. Returns
 * the reach of all.
 */
export function* selectedTransactions(
  open: readonly OpenRecording[],
  groups: TransactionGroups,
  filter: ChosenFilter,
): Generator<TransactionRows, TransactionReach | null> {
  const rows = newRows();
  const { add, reach } = findReach(open, groups);
  const [first, durations] = [wordsOf(rows.startsNs), wordsOf(rows.durationsNs)];
  const { hasError: failed, hashes, excluded, ...bounds } = filter;
  const hasOwners = filter.services || filter.nodes || excluded?.services || excluded?.nodes;
  const isOwned = hasOwners ? ownerTest(open, groups, filter) : undefined;
  const hasFailed = (at: number) => rows.failed[at] === 1;
  const isWanted = boxTest({ ...bounds, ...(failed !== undefined && { failed }) }, { ...rows, hasFailed });
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
    if (!isWanted(at) || (hashes && !hashes.has(rows.hashes[at]!)) || (isOwned && !isOwned(own))) return;
    add(own, rows.startsNs[at]!, rows.startsNs[at]! + rows.durationsNs[at]!);
    rows.length++;
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
  return reach();
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
