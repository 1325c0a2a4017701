/** Counts of a transaction that has too many events, and the single events of a part of its time. */
import { useEffect, useState } from 'preact/hooks';
import { bucketFor, type CountedRow, type Counts, countsOf, lastEndNs } from '../draw/counts.ts';
import type { Coverage, Transaction } from '../feed/answers.ts';
import type { Daemon } from '../feed/daemon.ts';
import { asFailure, FailedRequest } from '../feed/failure.ts';
import { loadLanes, type ReadLanes } from '../feed/load_lanes.ts';
import { usePage } from './context.ts';
import { shownName } from './names.ts';
import { type Answer, useAnswer } from './use_answer.ts';
import { partQuestionOf } from './use_lanes.ts';
import { useRetry } from './use_retry.ts';

/** Half-open, nanoseconds since the epoch. */
export interface Part {
  from: bigint;
  to: bigint;
}

const BUCKETS = 200;

export function useCounts(transaction: Transaction): Answer<{ counts: Counts; coverage: Coverage }> {
  const { daemon } = usePage();
  return useAnswer(transaction.transaction_id, (signal) => readCounts(daemon, transaction, signal));
}

/** With many processes, only longer buckets leave the daemon's answer below its limit of rows. */
async function readCounts(daemon: Daemon, transaction: Transaction, signal: AbortSignal) {
  const [firstNs, lastNs] = [BigInt(transaction.first_timestamp_ns), lastEndNs(transaction)];
  for (let buckets = BUCKETS; ; buckets = Math.ceil(buckets / 4)) {
    const bucketNs = bucketFor(firstNs, lastNs, buckets);
    const given = new URLSearchParams({
      ...{ transaction_id: transaction.transaction_id, bucket: `${bucketNs}ns` },
      group_by: 'node,service,pid,event_type',
    });
    try {
      type Sums = { stats: CountedRow[]; coverage: Coverage };
      const { stats, coverage } = await daemon.askJson<Sums>(`/api/stats?${given}`, { signal });
      return { counts: countsOf(stats, firstNs, lastNs, bucketNs), coverage };
    } catch (error) {
      const isTooMany = error instanceof FailedRequest && error.failure.code === 'too_many_groups';
      if (!isTooMany || buckets <= 2) throw error;
    }
  }
}

type PartAnswer = Omit<Answer<{ lanes: ReadLanes; part: Part }>, 'isOld'>;

/** The events that began in a part of the time; null without a part. */
export function usePart(transaction: Transaction, part: Part | null): PartAnswer {
  const { daemon } = usePage();
  const [state, setState] = useState<Omit<PartAnswer, 'askAgain'>>(NOTHING);
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (!part) {
      setState(NOTHING);
      return undefined;
    }
    const closing = new AbortController();
    const set = (change: Partial<typeof state>) => {
      if (!closing.signal.aborted) setState((before) => ({ ...before, ...change }));
    };
    set({ isLoading: true, failure: null });
    const question = { ...partQuestionOf(transaction, part), name: shownName(transaction.transaction_id) };
    // The first events alone would make the picture jump.
    const taken = (lanes: ReadLanes) => {
      if (lanes.coverage !== null) set({ body: { lanes, part } });
    };
    loadLanes(daemon, question, taken, closing.signal)
      .catch((error: unknown) => set({ failure: asFailure(error) }))
      .finally(() => set({ isLoading: false }));
    return () => closing.abort();
  }, [daemon, transaction, part, round]);
  const askAgain = () => setRound((last) => last + 1);
  useRetry(state, askAgain);
  return { ...state, askAgain };
}

const NOTHING = { body: null, failure: null, isLoading: false };
