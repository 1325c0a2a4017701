/**
 * Checks which transaction the kernel would attribute this thread to: markers are kept here instead of being written.
 */
import { parseMarker } from '../../../agent/attribution/marker.ts';
import type { MarkerOutput } from '../../../agent/mark/marker_output.ts';
import { createTransactions, type Transactions } from '../../../agent/mark/transactions.ts';

export interface Witness {
  transactions: Transactions;
  lines: string[];
  wrong: string[];
  rightCount: number;
  told(): string | null;
  check(expected: string | null, where: string): void;
  /** Runs `fn` in a transaction of this id. */
  within<T>(id: string, fn: () => Promise<T>): Promise<T>;
}

/** `works` returns whether a marker can be written at the moment. */
export function createWitness(works: () => boolean = () => true): Witness {
  const lines: string[] = [];
  const write: MarkerOutput = (line) => works() && lines.push(line) > 0;
  const witness: Witness = {
    transactions: createTransactions(write),
    lines,
    wrong: [],
    rightCount: 0,
    told: () => parseMarker(lines.at(-1) ?? 'KREPLAY1 end')!.transactionId,
    check(expected, where) {
      if (witness.told() === expected) witness.rightCount++;
      else witness.wrong.push(`${where}: ${witness.told()} instead of ${expected}`);
    },
    async within(id, fn) {
      const { run, close } = witness.transactions.open(`KREPLAY1 txn=${id}\n`);
      try {
        return await run(fn);
      } finally {
        close();
      }
    },
  };
  return witness;
}
