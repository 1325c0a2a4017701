/**
 * Finds the rows in the recordings' tables that belong to one transaction. A transaction has several rows if it ran on
 * several nodes, if a recording has copies, or if a recording dropped the transaction and saw it again later. Rows are
 * numbered across all tables, and the rows of one transaction form a chain:
 *
 *   tables   0 1 2 3 | 4 5 6
 *   next     - - - - | 1 - 2       6 -> 2 and 4 -> 1 are chains; 0, 3 and 5 are alone
 *   covered    x x   |             rows that are not the first row of a chain
 *
 * Ids are compared by a 53-bit hash. In 1 of 18 000 recordings with a million ids, two ids share a hash, and their
 * transactions are then listed as one.
 */
import type { TransactionColumns } from '../../../agent/recording/read/transactions.ts';

const ROWS_A_STEP = 16_384;
const NONE = -1;

export interface TransactionGroups {
  tables: readonly TransactionColumns[];
  /** First row of each table, followed by the end of the last table. */
  starts: readonly number[];
  next: Int32Array;
  covered: Uint8Array;
}

export function* groupTransactions(tables: readonly TransactionColumns[]): Generator<void, TransactionGroups> {
  const starts = [0];
  for (const { length } of tables) starts.push(starts.at(-1)! + length);
  const count = starts.at(-1)!;
  const next = new Int32Array(count).fill(NONE);
  const covered = new Uint8Array(count);
  const slots = createSlots(count);
  for (const [i, { hashes, gone, length }] of tables.entries()) {
    const start = starts[i]!;
    for (let row = 0; row < length; row++) {
      if (row % ROWS_A_STEP === ROWS_A_STEP - 1) yield;
      if (gone[row] === 1) covered[start + row] = 1;
      else {
        const before = slots.exchange(hashes[row]!, start + row);
        next[start + row] = before;
        if (before !== NONE) covered[before] = 1;
      }
    }
  }
  return { tables, starts, next, covered };
}

/**
 * Creates a hash table with open addressing, of which at most half is used. `exchange` sets the row of a hash, and
 * returns the previous row.
 */
function createSlots(count: number): { exchange(hash: number, row: number): number } {
  const size = 2 ** Math.ceil(Math.log2(Math.max(count, 1) * 2));
  const rows = new Int32Array(size).fill(NONE);
  const hashes = new Float64Array(size);
  return {
    exchange(hash, row) {
      let slot = hash % size;
      while (rows[slot] !== NONE && hashes[slot] !== hash) slot = slot + 1 === size ? 0 : slot + 1;
      const before = rows[slot]!;
      rows[slot] = row;
      hashes[slot] = hash;
      return before;
    },
  };
}

/** Returns the index of the table that contains a row. */
export function findTableIndex({ starts }: TransactionGroups, row: number): number {
  let table = 0;
  while (row >= starts[table + 1]!) table++;
  return table;
}

/** Returns the rows of a chain, starting with its first row. */
export function collectChainRows({ next }: TransactionGroups, first: number): number[] {
  const rows: number[] = [];
  for (let row = first; row !== NONE; row = next[row]!) rows.push(row);
  return rows;
}

export function isAlone({ next }: TransactionGroups, first: number): boolean {
  return next[first] === NONE;
}
