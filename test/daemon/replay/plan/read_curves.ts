/** Asks a planner for the curves of all transactions of a store. */
import type { ClockOffsets } from '../../../../daemon/replay/plan/clock_offsets.ts';
import type { CurvedTransaction } from '../../../../daemon/replay/plan/curves.ts';
import { createPlanner } from '../../../../daemon/replay/plan/planner.ts';
import type { OnlyFilter } from '../../../../daemon/replay/plan/recorded.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';

/** The newest first. */
export function transactionsOf(store: Recordings): CurvedTransaction[] {
  const listing = store.listTransactions({ filter: {}, sort: 'recent', limit: 1000 });
  let step = listing.next();
  while (!step.done) step = listing.next();
  return step.value.transactions.map(({ writtenBack, firstTimestampNs: firstNs, ...one }) => {
    return { ...one, isDivided: writtenBack !== null, isWrittenBack: (writtenBack?.count ?? 0) > 0, firstNs };
  });
}

export function readCurves(
  store: Recordings,
  transactions: readonly CurvedTransaction[],
  only: OnlyFilter = {},
  clockOffsetsNs: ClockOffsets = {},
) {
  const request = { transactions, only, clockOffsetsNs };
  return createPlanner(store).curves(request, new AbortController().signal);
}

export async function curvesOf(store: Recordings, only: OnlyFilter, clockOffsetsNs: ClockOffsets) {
  const transactions = transactionsOf(store);
  const curves = await readCurves(store, transactions, only, clockOffsetsNs);
  return curves.map((curve, i) => [transactions[i]!.transactionId, curve!] as const);
}
