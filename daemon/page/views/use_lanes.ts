/** The events of a transaction and of what was in its way, as a model of lanes. */
import { useEffect, useState } from 'preact/hooks';
import type { Coverage, Transaction } from '../feed/answers.ts';
import type { Daemon } from '../feed/daemon.ts';
import { asFailure, type Failure } from '../feed/failure.ts';
import { loadLanes, type ReadLanes } from '../feed/load_lanes.ts';
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
  /** Null until the first events were read. */
  lanes: ReadLanes | null;
  failure: Failure | null;
  isLoading: boolean;
  askAgain: () => void;
}

type Loaded = Omit<LoadedLanes, 'askAgain'>;

const NOTHING: Loaded = { transaction: null, lanes: null, failure: null, isLoading: true };

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
  return { ...loaded, askAgain: () => setRound((last) => last + 1) };
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
  const question = {
    ...{ transactionId, isDivided: transaction.written_back !== null, othersMax: OTHERS_MAX },
    ...{ ownPath: `/api/events?transaction_id=${id}`, othersPath: othersPath(transaction) },
  };
  await loadLanes(daemon, question, (lanes) => set({ lanes }), signal);
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
