/**
 * Finds the transactions whose ids contain a text. The tables in memory have only hashes of the ids, so the ids are
 * read from the recordings, a few thousand in each step. Steps with no row in the filter's time range are skipped.
 */
import { findFirstNotBelow } from '../../base/binary_search.ts';
import type { TransactionFilter } from '../store.ts';
import { withFileErrors } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import type { TransactionGroups } from './transaction_groups.ts';

/** Number of ids that are read in a step, which takes some milliseconds. */
const ROWS_A_STEP = 4096;

/** Whether the id of the transaction with these rows contains the text. */
export type IdTest = (rows: readonly number[]) => boolean;

/** Creates the test for the filter's `idPart`; returns undefined if the filter has none. */
export function* createIdTest(
  open: readonly OpenRecording[],
  { tables, starts, covered }: TransactionGroups,
  { idPart, fromNs, toNs }: Pick<TransactionFilter, 'idPart' | 'fromNs' | 'toNs'>,
): Generator<void, IdTest | undefined> {
  if (idPart === undefined) return undefined;
  const marks = new Uint8Array(covered.length);
  for (const [i, { file, reader }] of open.entries()) {
    const { keys, firstNs, length } = tables[i]!;
    for (let from = 0; from < length; from += ROWS_A_STEP) {
      yield;
      const end = Math.min(from + ROWS_A_STEP, length);
      // A transaction starts when one of its rows starts, so rows outside the time range need no mark.
      const isInTime = (ns: bigint) => (fromNs === undefined || ns >= fromNs) && (toNs === undefined || ns < toNs);
      if (!firstNs.subarray(from, end).some(isInTime)) continue;
      const { findKeysByIdPart } = reader.transactionIndex;
      const found: number[] = withFileErrors(file, () => findKeysByIdPart(idPart, keys[from]!, keys[end - 1]!));
      for (const key of found) {
        const place = findFirstNotBelow(keys, key, from, end);
        if (keys[place] === key) marks[starts[i]! + place] = 1;
      }
    }
  }
  return (rows) => rows.some((row) => marks[row] === 1);
}
