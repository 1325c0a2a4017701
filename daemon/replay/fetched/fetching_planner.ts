/** Plans replays of a fleet's transactions, from copies of them on this machine. */
import { Problem } from '../../problem.ts';
import { openRecordingStore } from '../../store/embedded/recording_store.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import { closeFleet, type Fleet, withFleetErrors } from '../../store/fleet/fleet.ts';
import { transactionsById } from '../../store/fleet/transactions_by_id.ts';
import type { TransactionSummary } from '../../store/store.ts';
import { createPlanner, type Planner, type ReplayPlan } from '../plan/planner.ts';
import type { Copies } from './copies.ts';

/** Transactions whose curves are computed from one copy. */
const TOGETHER_MAX = 500;

const NEVER = new AbortController().signal;

export function fetchingPlanner(fleet: Fleet, copies: Copies): Planner {
  const open = new Set<() => Promise<void>>();

  async function summaryOf(transactionId: string): Promise<TransactionSummary> {
    const known = (await transactionsById(fleet, [transactionId])).get(transactionId);
    if (known) return known;
    throw new Problem('transaction_not_found', `no event of transaction ${transactionId} is in the fleet`);
  }

  /** Opens a copy, and a planner over it; `close` ends both. */
  async function planned(
    transactions: readonly TransactionSummary[],
    signal: AbortSignal,
  ): Promise<{ planner: Planner; close(): Promise<void> }> {
    const copy = await copies.take(transactions, signal);
    let recordings: Recordings | undefined;
    try {
      recordings = openRecordingStore(undefined, copy.paths);
    } catch (error) {
      copy.release();
      throw error;
    }
    const planner = createPlanner(recordings);
    const close = async () => {
      if (!open.delete(close)) return;
      await planner.close();
      recordings.close();
      copy.release();
    };
    open.add(close);
    return { planner, close };
  }

  async function using<Result>(
    transactions: readonly TransactionSummary[],
    signal: AbortSignal,
    work: (planner: Planner) => Promise<Result>,
  ): Promise<Result> {
    const { planner, close } = await planned(transactions, signal);
    try {
      return await work(planner);
    } finally {
      await close();
    }
  }

  return {
    open: (request, onOutline) =>
      withFleetErrors(async () => {
        const { planner, close } = await planned([await summaryOf(request.transactionId)], NEVER);
        try {
          return closing(await planner.open(request, onOutline), close);
        } catch (error) {
          await close();
          throw error;
        }
      }),
    has: (transactionId) =>
      withFleetErrors(async () => (await transactionsById(fleet, [transactionId])).has(transactionId)),
    whatIf: (request, signal = NEVER) =>
      withFleetErrors(async () => {
        const summary = await summaryOf(request.transactionId);
        return using([summary], signal, (planner) => planner.whatIf(request, signal));
      }),
    curves: (request, signal) =>
      withFleetErrors(async () => {
        const curves = [];
        for (let from = 0; from < request.transactions.length; from += TOGETHER_MAX) {
          const transactions = request.transactions.slice(from, from + TOGETHER_MAX);
          const known = await transactionsById(
            fleet,
            transactions.map(({ transactionId }) => transactionId),
          );
          const work = (planner: Planner) => planner.curves({ ...request, transactions }, signal);
          curves.push(
            ...(known.size > 0 ? await using([...known.values()], signal, work) : transactions.map(() => null)),
          );
        }
        return curves;
      }),
    async close() {
      for (const close of [...open]) await close();
      closeFleet(fleet);
    },
  };
}

function closing(plan: ReplayPlan, close: () => Promise<void>): ReplayPlan {
  return {
    get outline() {
      return plan.outline;
    },
    page: plan.page,
    place: plan.place,
    changeLatency: plan.changeLatency,
    changeTimeout: plan.changeTimeout,
    endWith: plan.endWith,
    close() {
      plan.close();
      void close();
    },
  };
}
