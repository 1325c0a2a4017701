/**
 * Shows a transaction with too many events to be drawn one by one: counts by process, and the individual events of a
 * part of its time.
 */

import { useEffect, useMemo, useState } from 'preact/hooks';
import type { ReceivedCoverage, ReceivedTransaction } from '../../contract/received.ts';
import { OTHER } from '../../model/lanes/shares.ts';
import { formatQuantity } from '../../model/wording/amounts.ts';
import { formatExactOffset, formatShortDuration, groupDigits } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import type { Daemon } from '../api/daemon.ts';
import { FailedRequest, toFailure } from '../api/failure.ts';
import { loadLanes, type ReadLanes } from '../api/load_lanes.ts';
import {
  type BucketCounts,
  type CountedRow,
  computeBucketNs,
  computeLastEndNs,
  countMostEvents,
  sumCounts,
} from '../draw/counts.ts';
import { usePage } from './context.ts';
import { CountsPicture } from './counts_picture.tsx';
import { FailureNote } from './failure_note.tsx';
import { LanesPanel, Losses } from './lanes_panel.tsx';
import type { Around } from './lanes_picture.tsx';
import { type Answer, useAnswer } from './use_answer.ts';
import { buildPartQuestion, EVENTS_MAX } from './use_lanes.ts';
import { useRetry } from './use_retry.ts';

interface Props {
  transaction: ReceivedTransaction;
}

export function LargeTransaction({ transaction }: Props) {
  const { setCoverage } = usePage();
  const { body, failure, isLoading, askAgain } = useCounts(transaction);
  useEffect(() => {
    if (body) setCoverage(body.coverage);
  }, [body, setCoverage]);
  return (
    <>
      {isLoading && <div class="loading" />}
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      {body && <Losses coverage={body.coverage} />}
      {body && <Counted transaction={transaction} counts={body.counts} />}
    </>
  );
}

function Counted({ transaction, counts }: Props & { counts: BucketCounts }) {
  const part = useWantedPart(counts);
  const { body, failure, isLoading, askAgain } = usePart(transaction, part);
  const around = useMemo(
    (): Around => ({
      baseNs: counts.baseNs,
      bounds: { fromNs: 0, toNs: Number(counts.bucketNs) * counts.bucketCount },
      density: counts.all,
    }),
    [counts],
  );
  const name = formatName(transaction.transaction_id);
  const lanes = part && body && body.lanes.model.columns.count > 0 ? body : null;
  const sentence = lanes
    ? describePart(transaction, lanes.lanes, lanes.part)
    : `${name} has ${groupDigits(transaction.event_count)} events: zoom to under ${groupDigits(EVENTS_MAX)} for single ones.`;
  return (
    <>
      {isLoading && <div class="loading" />}
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      <h1>{sentence}</h1>
      {lanes && <Losses coverage={null} lanes={lanes.lanes} hasFailed={failure !== null} />}
      {lanes ? (
        <LanesPanel lanes={{ ...lanes.lanes, sentence }} name={`this part of ${name}`} around={around} />
      ) : (
        <CountsPicture counts={counts} around={around} summary={sentence} />
      )}
    </>
  );
}

/**
 * Chooses the part of the time whose individual events are shown; null if the view has too many events. The part is
 * three times as long as the view; if such a part has too many events, the part is the view itself. The part does not
 * change while it contains the view.
 */
function useWantedPart(counts: BucketCounts): TransactionPart | null {
  const { link } = usePage();
  const [part, setPart] = useState<TransactionPart | null>(null);
  const { zoom_from: from, zoom_to: to } = link;
  useEffect(() => {
    if (from === null || to === null || countMostEvents(counts, from, to) > EVENTS_MAX) return setPart(null);
    const before = to - from < from ? from - (to - from) : 0n;
    const wide = { from: before, to: to + (to - from) };
    const wanted = countMostEvents(counts, wide.from, wide.to) <= EVENTS_MAX ? wide : { from, to };
    setPart((last) => (last && last.from <= from && last.to >= to ? last : wanted));
  }, [counts, from, to]);
  return part;
}

function describePart(
  { transaction_id, event_count, first_timestamp_ns }: ReceivedTransaction,
  lanes: ReadLanes,
  part: TransactionPart,
) {
  const { shares } = lanes.model;
  const count = shares.reduce((sum, share) => sum + (share === OTHER ? 0 : 1), 0);
  const first = BigInt(first_timestamp_ns);
  const from = part.from < first ? first : part.from;
  return (
    `A part of ${formatName(transaction_id)}: ${groupDigits(count)} of its ${formatQuantity(event_count, 'event')}, ` +
    `those that began in ${formatShortDuration(part.to - from)} from ${formatExactOffset(from - first)} on.`
  );
}

/* Reads the counts of a transaction that has too many events, and the individual events of a part of its time. */

/** Part of a transaction's time, in nanoseconds since the epoch; `to` is excluded. */
interface TransactionPart {
  from: bigint;
  to: bigint;
}

const BUCKETS = 200;

function useCounts(transaction: ReceivedTransaction): Answer<{ counts: BucketCounts; coverage: ReceivedCoverage }> {
  const { daemon } = usePage();
  return useAnswer(transaction.transaction_id, (signal) => readCounts(daemon, transaction, signal));
}

/**
 * Reads the counts. The daemon limits the rows of an answer, so with too many processes the request is repeated with
 * longer buckets.
 */
async function readCounts(daemon: Daemon, transaction: ReceivedTransaction, signal: AbortSignal) {
  const firstNs = BigInt(transaction.first_timestamp_ns);
  const lastNs = computeLastEndNs(transaction);
  for (let buckets = BUCKETS; ; buckets = Math.ceil(buckets / 4)) {
    const bucketNs = computeBucketNs(firstNs, lastNs, buckets);
    const given = new URLSearchParams({
      transaction_id: transaction.transaction_id,
      bucket: `${bucketNs}ns`,
      group_by: 'node,service,pid,event_type',
    });
    try {
      type CountsAnswer = { stats: CountedRow[]; coverage: ReceivedCoverage };
      const { stats, coverage } = await daemon.askJson<CountsAnswer>(`/api/stats?${given}`, { signal });
      return { counts: sumCounts(stats, firstNs, lastNs, bucketNs), coverage };
    } catch (error) {
      const isTooMany = error instanceof FailedRequest && error.failure.code === 'too_many_groups';
      if (!isTooMany || buckets <= 2) throw error;
    }
  }
}

type PartAnswer = Omit<Answer<{ lanes: ReadLanes; part: TransactionPart }>, 'isOld'>;

/** Reads the events that began in a part of the transaction's time; without a part, the body is null. */
function usePart(transaction: ReceivedTransaction, part: TransactionPart | null): PartAnswer {
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
    const question = { ...buildPartQuestion(transaction, part), name: formatName(transaction.transaction_id) };
    // Lanes that have only the first events are skipped, because they would make the picture jump.
    const takeLanes = (lanes: ReadLanes) => {
      if (lanes.coverage !== null) set({ body: { lanes, part } });
    };
    loadLanes(daemon, question, takeLanes, closing.signal)
      .catch((error: unknown) => set({ failure: toFailure(error) }))
      .finally(() => set({ isLoading: false }));
    return () => closing.abort();
  }, [daemon, transaction, part, round]);
  const askAgain = () => setRound((last) => last + 1);
  useRetry(state, askAgain);
  return { ...state, askAgain };
}

const NOTHING = { body: null, failure: null, isLoading: false };
