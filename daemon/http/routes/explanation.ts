/** Answers of `GET /api/transactions/{transaction_id}/explain`. */
import type { z } from 'zod';
import { Problem } from '../../base/problem.ts';
import { addTimeTexts } from '../../base/time_text.ts';
import type { Coverage } from '../../contract/coverage_schema.ts';
import type { explanationSchema } from '../../contract/transactions.ts';
import type { ExplanationQuery } from '../../contract/transactions_query.ts';
import type { CallGroup, Wait } from '../../model/explanation/explain.ts';
import { describeExplanation, findMissing } from '../../model/explanation/sentence.ts';
import { formatName } from '../../model/wording/names.ts';
import type { ExplainedTransaction } from '../../store/explained_transaction.ts';
import type { Store, TransactionSummary } from '../../store/store.ts';
import { CALL_TYPES } from '../../store/transaction_times.ts';
import type { SlowestPage } from '../../sums/slowest.ts';

/** Maximum number of events in an explained transaction. Explaining this many events takes half a second. */
export const EXPLAINED_EVENTS_MAX = 200_000;
/** Maximum number of other transactions' requests that are counted, the same as in the page's lanes. */
export const EXPLAINED_OTHERS_MAX = 200_000;

interface Explained extends ExplainedTransaction {
  slowest: SlowestPage['events'];
}

export async function* explainTransaction(
  store: Store,
  { transactionId, nodes }: TransactionSummary,
  { limit, detail: _, ...range }: ExplanationQuery,
): AsyncGenerator<void, Explained> {
  const explained = yield* store.explainTransaction({
    transactionId,
    nodes,
    ...range,
    eventsMax: EXPLAINED_EVENTS_MAX,
    othersMax: EXPLAINED_OTHERS_MAX,
  });
  if (!explained) throw createTooManyEventsProblem(transactionId);
  const filter = { ...range, transactionId, eventTypes: CALL_TYPES };
  const { events: slowest } = yield* store.findSlowest({ filter, limit });
  return { ...explained, slowest };
}

function createTooManyEventsProblem(transactionId: string): Problem {
  const detail = `${transactionId} has more than ${EXPLAINED_EVENTS_MAX} events in this time: narrow it with from and to, or ask for its summary`;
  return new Problem('too_many_events', detail);
}

type ExplanationView = Omit<z.input<typeof explanationSchema>, 'transaction' | 'slowest' | 'coverage'>;

export function buildExplanationView(
  transactionId: string,
  { baseNs, explanation, longestEventId, isOthersCut }: ExplainedTransaction,
  coverage: Coverage,
): ExplanationView {
  const missing = findMissing(coverage, isOthersCut);
  const parts = explanation?.breakdown.parts;
  return {
    sentence: describeExplanation(explanation, formatName(transactionId), formatName, missing),
    duration_ns: toInteger(explanation?.breakdown.durationNs ?? 0),
    parts: parts
      ? {
          queue_ns: toInteger(parts.queue),
          service_ns: toInteger(parts.service),
          sync_ns: toInteger(parts.sync),
          write_ns: toInteger(parts.write),
          request_ns: toInteger(parts.request),
          untraced_ns: toInteger(parts.untraced),
        }
      : null,
    calls: explanation?.calls ? buildCallsView(explanation.calls, longestEventId!) : null,
    wait: explanation?.wait ? buildWaitView(explanation.wait) : null,
    neighbours: (explanation?.neighbours ?? []).map(({ device, name, count, bytes }) => ({
      name,
      node: device.node,
      device: device.name,
      count,
      bytes: toInteger(bytes),
    })),
    neighbours_complete: !isOthersCut,
    failures: explanation?.failures ?? [],
    bursts: (explanation?.bursts ?? []).map(({ fromNs, toNs, count }) => ({
      ...addTimeTexts({ from: baseNs + toInteger(fromNs), to: baseNs + toInteger(toNs) }),
      event_count: count,
    })),
  };
}

function buildCallsView(
  { call, file, fileCount, unknownComms, count, timeNs, longest }: CallGroup,
  longestEventId: string,
): ExplanationView['calls'] {
  return {
    call,
    file,
    file_count: fileCount,
    unknown_file_comms: unknownComms,
    count,
    time_ns: toInteger(timeNs),
    longest: {
      event_id: longestEventId,
      call: longest.call,
      file: longest.file,
      comm: longest.comm,
      duration_ns: toInteger(longest.durationNs),
    },
  };
}

function buildWaitView({ part, timeNs, device, isInferred }: Wait): ExplanationView['wait'] {
  const place = { node: device?.node ?? null, device: device?.name ?? null };
  return { part, time_ns: toInteger(timeNs), ...place, inferred: isInferred };
}

const toInteger = (value: number) => BigInt(value);
