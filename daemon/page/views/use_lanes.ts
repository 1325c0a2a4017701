/** The events of a transaction and of what was in its way, as a model of lanes. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { EventColumns } from '../columns/event_columns.ts';
import { mergeColumns } from '../columns/merge.ts';
import type { Coverage, Transaction } from '../feed/answers.ts';
import type { Daemon } from '../feed/daemon.ts';
import { asFailure, type Failure } from '../feed/failure.ts';
import { loadColumns } from '../feed/load_columns.ts';
import { createLanes, type LanesModel } from '../lanes/model.ts';
import { usePage } from './context.ts';

/** Requests that began earlier than this before the transaction are hardly ever still in its way. */
const BEFORE_NS = 1_000_000_000n;
/** The most requests of others that are read. */
const OTHERS_MAX = 200_000;
/** More events than these are not drawn one by one. */
export const EVENTS_MAX = 2_000_000;

type WholeTransaction = Transaction & { coverage: Coverage };

export interface LoadedLanes {
  transaction: WholeTransaction | null;
  model: LanesModel | null;
  /** Null while events are still read. */
  coverage: Coverage | null;
  /** Whether more requests of others were under way than were read. */
  isOthersCut: boolean;
  failure: Failure | null;
  isLoading: boolean;
  askAgain: () => void;
}

interface Loaded {
  transaction: WholeTransaction | null;
  columns: EventColumns | null;
  coverage: Coverage | null;
  isOthersCut: boolean;
  failure: Failure | null;
  isLoading: boolean;
}

const NOTHING: Loaded = {
  ...{ transaction: null, columns: null, coverage: null, isOthersCut: false, failure: null, isLoading: true },
};

export function useLanes(transactionId: string): LoadedLanes {
  const { daemon } = usePage();
  const [loaded, setLoaded] = useState(NOTHING);
  const [round, setRound] = useState(0);
  useEffect(() => {
    const closing = new AbortController();
    const set = (change: Partial<Loaded>) => {
      if (!closing.signal.aborted) setLoaded((before) => ({ ...before, ...change }));
    };
    set({ isLoading: true });
    load(daemon, transactionId, set, closing.signal)
      .then(() => set({ failure: null }))
      .catch((error: unknown) => set({ failure: asFailure(error) }))
      .finally(() => set({ isLoading: false }));
    return () => closing.abort();
  }, [daemon, transactionId, round]);
  const { columns, transaction } = loaded;
  const isDivided = transaction?.written_back !== null;
  const model = useMemo(
    () => columns && createLanes(columns, { transactions: new Set([transactionId]), isDivided }),
    [columns, isDivided, transactionId],
  );
  return { ...loaded, model, askAgain: () => setRound((last) => last + 1) };
}

async function load(
  daemon: Daemon,
  transactionId: string,
  set: (change: Partial<Loaded>) => void,
  signal: AbortSignal,
): Promise<void> {
  const id = encodeURIComponent(transactionId);
  const transaction = await daemon.askJson<WholeTransaction>(`/api/transactions/${id}`, { signal });
  set({ transaction });
  if (transaction.event_count > EVENTS_MAX) return;
  const own = await loadColumns(daemon, `/api/events?transaction_id=${id}`, { onFirst: set, signal });
  set(own);
  const path = othersPath(transaction);
  const others = await loadColumns(daemon, path, { most: OTHERS_MAX, signal });
  set({ columns: mergeColumns(own.columns, others.columns), isOthersCut: others.coverage === null });
}

/** The requests to devices on the transaction's nodes in its time. */
function othersPath({ first_timestamp_ns, last_end_ns, nodes }: Transaction): string {
  const parameters = new URLSearchParams({
    event_type: 'block_io',
    from: (BigInt(first_timestamp_ns) - BEFORE_NS).toString(),
    to: (BigInt(last_end_ns) + 1n).toString(),
  });
  for (const node of nodes) parameters.append('node', node);
  return `/api/events?${parameters}`;
}
