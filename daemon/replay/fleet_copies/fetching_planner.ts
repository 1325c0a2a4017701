/** Plans replays of a fleet's transactions from copies on this machine. */
import { Problem } from '../../base/problem.ts';
import { openRecordingStore } from '../../store/embedded/recording_store.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import { closeFleet, type Fleet, withFleetErrors } from '../../store/fleet/fleet.ts';
import { readFleetNodes } from '../../store/fleet/fleet_info.ts';
import { findFleetTransactions } from '../../store/fleet/transactions_by_id.ts';
import type { TransactionSummary } from '../../store/store.ts';
import { type AppliedOffsets, checkNodes } from '../plan/clock_offsets.ts';
import { createPlanner, type Planner, type ReplayPlan } from '../plan/planner.ts';
import type { Copies } from './copies.ts';

/** Maximum number of transactions whose curves are computed from one copy. */
const TOGETHER_MAX = 500;

const NEVER = new AbortController().signal;

/** A planner for the transactions of a copy. */
interface Planned {
  planner: Planner;
  /** Returns the request without the clock offsets of nodes that have no events in the copy. */
  restrictOffsets<Request extends AppliedOffsets>(request: Request): Request;
  /** Ends the planner and releases the copy. */
  close(): Promise<void>;
}

export function createFetchingPlanner(fleet: Fleet, copies: Copies): Planner {
  const open = new Set<() => Promise<void>>();

  async function readSummary(transactionId: string): Promise<TransactionSummary> {
    const known = (await findFleetTransactions(fleet, [transactionId])).get(transactionId);
    if (known) return known;
    throw new Problem('transaction_not_found', `no event of transaction ${transactionId} is in the fleet`);
  }

  /**
   * Throws a Problem for a node that the fleet does not have. A copy contains only the nodes of its transactions, so
   * the fleet is asked.
   */
  async function checkOffsets(offsets: AppliedOffsets): Promise<void> {
    if (Object.keys(offsets.clockOffsetsNs).length === 0) return;
    const nodes = await readFleetNodes(fleet);
    checkNodes(offsets, { nodes: () => nodes });
  }

  /** Opens a copy and a planner that reads it; `close` closes the planner and releases the copy. */
  async function openCopyPlanner(transactions: readonly TransactionSummary[], signal: AbortSignal): Promise<Planned> {
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
    const nodes = recordings.nodes();
    const restrictOffsets = <Request extends AppliedOffsets>(request: Request): Request => ({
      ...request,
      clockOffsetsNs: Object.fromEntries(
        Object.entries(request.clockOffsetsNs).filter(([node]) => nodes.includes(node)),
      ),
    });
    return { planner, restrictOffsets, close };
  }

  async function runWithPlanner<Result>(
    transactions: readonly TransactionSummary[],
    signal: AbortSignal,
    work: (planned: Planned) => Promise<Result>,
  ): Promise<Result> {
    const { close, ...own } = await openCopyPlanner(transactions, signal);
    try {
      return await work({ ...own, close });
    } finally {
      await close();
    }
  }

  return {
    open: (request, onOutline) =>
      withFleetErrors(async () => {
        await checkOffsets(request);
        const { planner, restrictOffsets, close } = await openCopyPlanner(
          [await readSummary(request.transactionId)],
          NEVER,
        );
        try {
          return wrapPlan(await planner.open(restrictOffsets(request), onOutline), close);
        } catch (error) {
          await close();
          throw error;
        }
      }),
    has: (transactionId) =>
      withFleetErrors(async () => (await findFleetTransactions(fleet, [transactionId])).has(transactionId)),
    whatIf: (request, signal = NEVER) =>
      withFleetErrors(async () => {
        await checkOffsets(request);
        const summary = await readSummary(request.transactionId);
        return runWithPlanner([summary], signal, ({ planner, restrictOffsets }) =>
          planner.whatIf(restrictOffsets(request), signal),
        );
      }),
    curves: (request, signal) =>
      withFleetErrors(async () => {
        await checkOffsets(request);
        const curves = [];
        for (let from = 0; from < request.transactions.length; from += TOGETHER_MAX) {
          const transactions = request.transactions.slice(from, from + TOGETHER_MAX);
          const known = await findFleetTransactions(
            fleet,
            transactions.map(({ transactionId }) => transactionId),
          );
          const work = ({ planner, restrictOffsets }: Planned) =>
            planner.curves(restrictOffsets({ ...request, transactions }), signal);
          curves.push(
            ...(known.size > 0
              ? await runWithPlanner([...known.values()], signal, work)
              : transactions.map(() => null)),
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

function wrapPlan(plan: ReplayPlan, close: () => Promise<void>): ReplayPlan {
  return {
    get outline() {
      return plan.outline;
    },
    readPage: plan.readPage,
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
