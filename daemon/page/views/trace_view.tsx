/**
 * Shows the transactions of a trace in common lanes. A trace that has only one transaction is shown as that
 * transaction.
 */

import { useEffect, useState } from 'preact/hooks';
import type { ReceivedTransaction } from '../../contract/received.ts';
import { formatQuantity } from '../../model/wording/amounts.ts';
import { formatShortDuration, groupDigits } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import type { Daemon } from '../api/daemon.ts';
import { type Failure, toFailure } from '../api/failure.ts';
import { loadLanes, type ReadLanes } from '../api/load_lanes.ts';
import { readTrace, type Trace } from '../api/trace.ts';
import { BreakdownBar } from './breakdown_bar.tsx';
import { usePage } from './context.ts';
import { FailureNote } from './failure_note.tsx';
import { LanesPanel, Losses } from './lanes_panel.tsx';
import { TransactionLink } from './transaction_link.tsx';
import { buildCommonQuestion, EVENTS_MAX } from './use_lanes.ts';
import { useRetry } from './use_retry.ts';

interface Loaded {
  trace: Trace | null;
  lanes: ReadLanes | null;
  failure: Failure | null;
  isLoading: boolean;
}

const NOTHING: Loaded = { trace: null, lanes: null, failure: null, isLoading: true };
/** Maximum number of transactions that the sentence names. */
const NAMED_MAX = 3;

export function TraceView({ traceId }: { traceId: string }) {
  const { daemon, go, setCoverage } = usePage();
  const [{ trace, lanes, failure, isLoading }, setLoaded] = useState(NOTHING);
  const [round, setRound] = useState(0);
  const askAgain = () => setRound((last) => last + 1);
  useEffect(() => {
    const closing = new AbortController();
    const set = (change: Partial<Loaded>) => {
      if (!closing.signal.aborted) setLoaded((before) => ({ ...before, ...change }));
    };
    set({ isLoading: true });
    load(daemon, traceId, set, closing.signal)
      .then(() => set({ failure: null }))
      .catch((error: unknown) => set({ failure: toFailure(error) }))
      .finally(() => set({ isLoading: false }));
    return () => closing.abort();
  }, [daemon, traceId, round]);
  useRetry({ failure, isLoading }, askAgain);
  const only = trace?.transactions.length === 1 ? trace.transactions[0]! : null;
  useEffect(() => {
    // No history entry is made, so that the browser's Back button leaves the trace instead of coming back here.
    if (only) go({ transaction: only.transaction_id, trace: null }, false);
  }, [only, go]);
  const coverage = (lanes ?? trace)?.coverage ?? null;
  useEffect(() => setCoverage(coverage), [coverage, setCoverage]);
  const name = trace ? nameTrace(traceId, trace) : '';
  return (
    <main aria-busy={isLoading}>
      {isLoading && <div class="loading" />}
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      {trace && !only && !lanes && !isLoading && <h1>{describeMissingLanes(traceId, trace)}</h1>}
      {lanes && !only && <h1>{lanes.sentence}</h1>}
      {trace && !only && trace.transactions.length > 0 && <Transactions transactions={trace.transactions} />}
      {lanes && !only && (
        <>
          <Losses {...{ coverage, lanes, hasFailed: failure !== null }} />
          {lanes.breakdown && <BreakdownBar breakdown={lanes.breakdown} />}
          <LanesPanel lanes={lanes} name={name} />
        </>
      )}
    </main>
  );
}

async function load(daemon: Daemon, traceId: string, set: (change: Partial<Loaded>) => void, signal: AbortSignal) {
  const trace = await readTrace(daemon, traceId, signal);
  set({ trace });
  if (trace.transactions.length < 2 || trace.eventCount > EVENTS_MAX) return;
  const question = {
    ...buildCommonQuestion(trace.transactions, { clock_offset: [] }),
    name: nameTrace(traceId, trace),
    eventCount: trace.eventCount,
    ownPath: `/api/events?trace_id=${traceId}&coverage=full`,
  };
  await loadLanes(daemon, question, (lanes) => set({ lanes }), signal);
}

function describeMissingLanes(traceId: string, trace: Trace): string {
  if (trace.eventCount === 0)
    return `No event of trace ${traceId} is here: none was recorded, or all were overwritten.`;
  if (trace.transactions.length === 0)
    return `Trace ${traceId} has ${formatQuantity(trace.eventCount, 'event')}, and no transaction: there is nothing to show in lanes.`;
  return (
    `${nameTrace(traceId, trace)} has ${groupDigits(trace.eventCount)} events, more than the ${groupDigits(EVENTS_MAX)} that are drawn: ` +
    'choose one of its transactions.'
  );
}

/** Formats the name as `Trace 4bf9… with order-1, order-2 and 7 more transactions`. */
function nameTrace(traceId: string, { transactions }: Trace): string {
  const names = transactions.map(({ transaction_id }) => formatName(transaction_id));
  const more = names.length - NAMED_MAX;
  const all = more > 0 ? [...names.slice(0, NAMED_MAX), formatQuantity(more, 'more transaction')] : names;
  return `Trace ${traceId} with ${[all.slice(0, -1).join(', '), all.at(-1)].filter(Boolean).join(' and ')}`;
}

function Transactions({ transactions }: { transactions: readonly ReceivedTransaction[] }) {
  return (
    <ul class="figures" aria-label="Transactions of the trace">
      {transactions.map(({ transaction_id, duration_ns, error_count }) => (
        <li key={transaction_id}>
          <TransactionLink transaction={transaction_id} /> {formatShortDuration(Number(duration_ns))}
          {error_count > 0 && ` ✕ ${groupDigits(error_count)} failed`}
        </li>
      ))}
    </ul>
  );
}
