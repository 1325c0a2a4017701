/** Finds where and when the transactions that a filter selects took place. */

import { toWords } from '../../../agent/recording/words64.ts';
import { U64_MAX } from '../../base/bigints.ts';
import type { TransactionReach } from '../store.ts';
import type { OpenRecording } from './recording_files.ts';
import { findTableIndex, type TransactionGroups } from './transaction_groups.ts';

export interface ReachFinder {
  /** Adds a transaction: its rows in the tables, its start, and the end of its last own event. */
  add(rows: readonly number[], startNs: bigint, endNs: bigint): void;
  /** Returns the reach of all added transactions; null if there are none. */
  reach(): TransactionReach | null;
}

export function findReach(open: readonly OpenRecording[], groups: TransactionGroups): ReachFinder {
  const isSeen = new Uint8Array(open.length);
  const bounds = new BigUint64Array([U64_MAX, 0n]);
  const given = new BigUint64Array(2);
  // Times are compared as 32-bit words, because comparing bigints would take longer than everything else here.
  const bound = toWords(bounds);
  const words = toWords(given);
  let isAny = false;

  return {
    add(rows, startNs, endNs) {
      isAny = true;
      for (const row of rows) isSeen[findTableIndex(groups, row)] = 1;
      given[0] = startNs;
      given[1] = endNs;
      if (isBelow(words[1]!, words[0]!, bound[1]!, bound[0]!)) bounds[0] = startNs;
      if (isBelow(bound[3]!, bound[2]!, words[3]!, words[2]!)) bounds[1] = endNs;
    },
    reach() {
      if (!isAny) return null;
      const nodes = new Set(open.flatMap(({ node }, table) => (isSeen[table] === 1 ? [node] : [])));
      // `toNs` is exclusive, so 1 ns is added: a lost event may have begun exactly when the last known event ended.
      return { fromNs: bounds[0]!, toNs: bounds[1]! + 1n, nodes: [...nodes].sort() };
    },
  };
}

function isBelow(high: number, low: number, otherHigh: number, otherLow: number): boolean {
  return high < otherHigh || (high === otherHigh && low < otherLow);
}
