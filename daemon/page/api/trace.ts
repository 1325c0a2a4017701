/** Reads the transactions of a trace, with the daemon's summary of each transaction. */
import type { ReceivedCoverage, ReceivedTransaction } from '../../contract/received.ts';
import type { Daemon } from './daemon.ts';

export interface Trace {
  transactions: ReceivedTransaction[];
  /** Number of events whose owner or origin belongs to the trace. */
  eventCount: number;
  coverage: ReceivedCoverage;
}

interface TraceSums {
  stats: { group: { transaction_id: string | null; event_type: string } }[];
  total: { count: number };
  coverage: ReceivedCoverage;
}

/** Maximum number of requests in flight: a browser opens only six connections to a host. */
const AT_ONCE = 4;

export async function readTrace(daemon: Daemon, traceId: string, signal: AbortSignal): Promise<Trace> {
  const path = `/api/stats?trace_id=${traceId}&group_by=transaction_id,event_type&coverage=full`;
  const { stats, total, coverage } = await daemon.askJson<TraceSums>(path, { signal });
  const named = stats.filter(({ group }) => group.transaction_id !== null);
  const typesOf = Map.groupBy(named, ({ group }) => group.transaction_id!);
  const found = await askEach([...typesOf], async ([id, rows]) => {
    const transaction = await daemon.askJson<ReceivedTransaction>(`/api/transactions/${encodeURIComponent(id)}`, {
      signal,
    });
    // A block request can carry data of the trace although its own transaction is outside the trace. So a transaction
    // that has only block requests counts only if its own trace id matches.
    const isOfCall = rows.some(({ group }) => !group.event_type.startsWith('block_'));
    return isOfCall || transaction.trace_id === traceId ? [transaction] : [];
  });
  const transactions = found
    .flat()
    .sort((a, b) => (BigInt(a.first_timestamp_ns) < BigInt(b.first_timestamp_ns) ? -1 : 1));
  return { transactions, eventCount: total.count, coverage };
}

/** Calls `ask` for each element, a few at a time, and returns the answers in order. */
async function askEach<One, Answer>(all: readonly One[], ask: (one: One) => Promise<Answer>): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let at = 0; at < all.length; at += AT_ONCE)
    answers.push(...(await Promise.all(all.slice(at, at + AT_ONCE).map(ask))));
  return answers;
}
