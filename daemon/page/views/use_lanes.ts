/** Reads the events of a transaction, and the requests of others that may have delayed it, as a model of lanes. */

import { useEffect, useState } from 'preact/hooks';
import { escapeListItem } from '../../base/list_text.ts';
import type { ReceivedTransaction, WholeTransaction } from '../../contract/received.ts';
import { formatName } from '../../model/wording/names.ts';
import type { Daemon } from '../api/daemon.ts';
import { type Failure, toFailure } from '../api/failure.ts';
import { type LanesQuestion, loadLanes, type ReadLanes } from '../api/load_lanes.ts';
import { parseClockOffsets } from '../link/clock_offsets.ts';
import type { Link } from '../link/link.ts';
import { usePage } from './context.ts';
import { useRetry } from './use_retry.ts';

/**
 * Requests are also read from this long before the transaction. Earlier requests have almost always ended before the
 * transaction begins.
 */
const BEFORE_NS = 1_000_000_000n;
/** Maximum number of requests that are read from `othersPath`. */
const OTHERS_MAX = 200_000;
/** Maximum number of events that are drawn one by one. */
export const EVENTS_MAX = 2_000_000;

export interface LoadedLanes {
  transaction: WholeTransaction | null;
  /** Null until the first events have been read. */
  lanes: ReadLanes | null;
  /** Whether the lanes were laid out with clock offsets that differ from the link's. */
  isOld: boolean;
  failure: Failure | null;
  isLoading: boolean;
  askAgain: () => void;
}

interface Loaded extends Omit<LoadedLanes, 'askAgain' | 'isOld'> {
  /** The clock offsets with which the lanes were laid out. */
  of: string;
}

const NOTHING: Loaded = { transaction: null, lanes: null, of: '', failure: null, isLoading: true };

export function useLanes(transactionId: string): LoadedLanes {
  const { daemon, link } = usePage();
  const { clock_offset } = link;
  const offsets = clock_offset.join('\n');
  const [loaded, setLoaded] = useState(NOTHING);
  const [round, setRound] = useState(0);
  useEffect(() => {
    const closing = new AbortController();
    const set = (change: Partial<Loaded>) => {
      if (!closing.signal.aborted)
        setLoaded((before) => ({ ...before, ...(change.lanes && { of: offsets }), ...change }));
    };
    set({ isLoading: true });
    load(daemon, { transactionId, clock_offset }, set, closing.signal)
      .then(() => set({ failure: null }))
      .catch((error: unknown) => set({ failure: toFailure(error) }))
      .finally(() => set({ isLoading: false }));
    return () => closing.abort();
  }, [daemon, transactionId, round, offsets]);
  const askAgain = () => setRound((last) => last + 1);
  useRetry(loaded, askAgain);
  return { ...loaded, isOld: loaded.lanes !== null && loaded.of !== offsets, askAgain };
}

async function load(
  daemon: Daemon,
  { transactionId, clock_offset }: { transactionId: string } & Pick<Link, 'clock_offset'>,
  set: (change: Partial<Loaded>) => void,
  signal: AbortSignal,
): Promise<void> {
  const transaction = await askTransaction(daemon, transactionId, signal);
  set({ transaction });
  if (transaction.event_count > EVENTS_MAX) return;
  await loadLanes(daemon, buildLanesQuestion(transaction, { clock_offset }), (lanes) => set({ lanes }), signal);
}

export function askTransaction(daemon: Daemon, transactionId: string, signal: AbortSignal): Promise<WholeTransaction> {
  return daemon.askJson<WholeTransaction>(`/api/transactions/${encodeURIComponent(transactionId)}`, { signal });
}

/** Builds the second thread's question about a transaction. */
export function buildLanesQuestion(
  transaction: ReceivedTransaction,
  link: Pick<Link, 'clock_offset'>,
): Omit<LanesQuestion, 'headers'> {
  const { transaction_id } = transaction;
  const ownPath = `/api/events?transaction_id=${encodeURIComponent(transaction_id)}`;
  return { ...buildCommonQuestion([transaction], link), name: formatName(transaction_id), ownPath };
}

/** Builds the fields that all questions have in common: everything except the name, and the path of the own events. */
export function buildCommonQuestion(
  transactions: readonly ReceivedTransaction[],
  { clock_offset }: Pick<Link, 'clock_offset'>,
): Omit<LanesQuestion, 'headers' | 'name' | 'ownPath' | 'firstNs'> {
  const { offsets } = parseClockOffsets({ clock_offset }, [...new Set(transactions.flatMap(({ nodes }) => nodes))]);
  return {
    clockOffsetsNs: offsets,
    transactions: transactions.map(({ transaction_id }) => transaction_id),
    eventCount: transactions.reduce((sum, { event_count }) => sum + event_count, 0),
    queuedPaths: buildQueuedPaths(transactions),
    othersPath: buildWholeOthersPath(transactions),
    othersMax: OTHERS_MAX,
  };
}

/**
 * Builds the question about the transaction's events that began in a part of its time, and about the requests that may
 * have delayed them.
 */
export function buildPartQuestion(transaction: ReceivedTransaction, { from, to }: { from: bigint; to: bigint }) {
  const id = encodeURIComponent(transaction.transaction_id);
  return {
    ...buildCommonQuestion([transaction], { clock_offset: [] }),
    firstNs: BigInt(transaction.first_timestamp_ns),
    ownPath: `/api/events?transaction_id=${id}&from=${from}&to=${to}`,
    queuedPaths: buildQueuedPaths([transaction]).map((path) => `${path}&from=${from}&to=${to}`),
    othersPath: buildOthersPath(from - BEFORE_NS, to, transaction.nodes),
  };
}

/** Builds the paths of the requests that tasks of the transactions queued. */
function buildQueuedPaths(transactions: readonly ReceivedTransaction[]): string[] {
  return transactions.map((one) => `/api/events?queued_by=${encodeURIComponent(escapeListItem(one.transaction_id))}`);
}

/** Builds the path of all requests to devices of the transactions' nodes during the transactions' time. */
function buildWholeOthersPath(transactions: readonly ReceivedTransaction[]): string {
  const firsts = transactions.map(({ first_timestamp_ns }) => BigInt(first_timestamp_ns));
  const lasts = transactions.map(({ last_end_ns }) => BigInt(last_end_ns));
  const from = firsts.reduce((least, ns) => (ns < least ? ns : least)) - BEFORE_NS;
  const to = lasts.reduce((most, ns) => (ns > most ? ns : most)) + 1n;
  return buildOthersPath(from, to, [...new Set(transactions.flatMap(({ nodes }) => nodes))]);
}

function buildOthersPath(from: bigint, to: bigint, nodes: readonly string[]): string {
  const parameters = new URLSearchParams({ event_type: 'block_io', from: `${from < 0n ? 0n : from}`, to: `${to}` });
  for (const node of nodes) parameters.append('node', escapeListItem(node));
  return `/api/events?${parameters}`;
}
