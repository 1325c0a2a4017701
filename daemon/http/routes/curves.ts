/** Computes how the durations of many transactions depend on extra latency. */
import type { Response } from 'express';
import type { z } from 'zod';
import { stringify } from '../../base/exact_json.ts';
import { buildJsonPointer, Problem } from '../../base/problem.ts';
import { resolveTime } from '../../base/time.ts';
import { buildValueFilter } from '../../contract/event_conditions.ts';
import { omitUndefined } from '../../contract/omit_undefined.ts';
import type { curvesSchema } from '../../contract/replay_answers.ts';
import type { WhatIfBody, Where } from '../../contract/what_if_requests.ts';
import { beginAnswer } from '../../coverage/answer.ts';
import { buildCurveView, type Curve, type CurvedTransaction, endWith } from '../../replay/plan/curves.ts';
import type { Sessions } from '../../replay/session/sessions.ts';
import type { Store, TransactionPage, TransactionSummary, TransactionsRequest } from '../../store/store.ts';
import { needsEvents } from '../../sums/differences/chosen_transactions.ts';
import { type ScanGate, type ScanSlot, WHOLE_BYTES_MAX } from '../access/scan_gate.ts';
import { sendJson } from '../send_json.ts';
import { createOffsetsReader, type OffsetsOfNodes } from './asked_offsets.ts';
import { runToEnd, waitForWork } from './run_in_steps.ts';

/** Maximum number of transactions in one answer. */
export const CURVES_MAX = 10_000;
/** Maximum number of transactions that are read at once. It limits the memory of the planner's thread. */
const BATCH_TRANSACTIONS = 2048;
/** Maximum number of events that are read at once, for the same reason. */
const BATCH_EVENTS = 65_536;

interface Options {
  store: Store;
  sessions: Pick<Sessions, 'curves'>;
  now: () => bigint;
  scanGate: ScanGate;
}

type CurvesBody = Omit<WhatIfBody, 'transaction_id' | 'where'> & { where: Where };
type Curves = z.input<typeof curvesSchema>;

export async function sendCurves(res: Response, options: Options, asked: CurvesBody): Promise<void> {
  const { store, sessions, now, scanGate } = options;
  const nowNs = now();
  const filter = buildWhereFilter(asked.where, nowNs);
  const offsets = createOffsetsReader(store, asked.clock_offsets_ns);
  const slot = await scanGate.enter(res, { keepsEvents: needsEvents(filter) });
  const answer = await beginAnswer(store, { nowNs });
  const found = await runToEnd(
    res,
    slot,
    computeCurves({ store: answer.store, sessions, slot, offsets }, filter, asked),
  );
  if (!found) return;
  const { reach, ...curves } = found;
  const coverage = await answer.describe(await answer.coverList(filter, reach), asked.coverage);
  sendJson(res, 200, { ...curves, coverage } satisfies Curves);
  // The response now has the gathered bytes, and its unsent bytes are counted separately.
  slot.reportGathered(0);
}

type CurvesFilter = TransactionsRequest['filter'];

function buildWhereFilter({ from, to, ...where }: Where, nowNs: bigint): CurvesFilter {
  const fromNs = from && resolveTime(from, nowNs);
  const toNs = to && resolveTime(to, nowNs);
  if (fromNs !== undefined && toNs !== undefined && fromNs > toNs)
    throw createReversedWhereProblem('from', 'later than to');
  const { min_duration_ms: minDurationNs, max_duration_ms: maxDurationNs, has_error: hasError } = where;
  if (minDurationNs !== undefined && maxDurationNs !== undefined && minDurationNs > maxDurationNs)
    throw createReversedWhereProblem('min_duration_ms', 'longer than max_duration_ms');
  return omitUndefined({ fromNs, toNs, ...buildValueFilter(where), minDurationNs, maxDurationNs, hasError });
}

function createReversedWhereProblem(low: string, than: string): Problem {
  const message = `must not be ${than}`;
  return new Problem('invalid_body', `where/${low}: ${message}`, [
    { pointer: buildJsonPointer(['where', low]), message },
  ]);
}

async function* computeCurves(
  { store, sessions, slot, offsets }: Pick<Options, 'store' | 'sessions'> & { slot: ScanSlot; offsets: OffsetsOfNodes },
  filter: CurvesFilter,
  { extra_latency_ns, timeout_ns, only }: CurvesBody,
): AsyncGenerator<void, Omit<Curves, 'coverage'> & Pick<TransactionPage, 'reach'>> {
  const page = yield* store.listTransactions({ filter, sort: 'recent', limit: CURVES_MAX });
  slot.endKeeping();
  const applied = yield* waitForWork(() => offsets(async () => page.reach?.nodes ?? []));
  const transactions: Curves['transactions'] = [];
  const counts = { recorded_times_out_count: 0, times_out_count: 0 };
  const timesOut = (curve: Curve, latencyNs: bigint) => timeout_ns !== null && endWith(curve, latencyNs) > timeout_ns;
  let bytes = 0;
  let read = 0;
  do {
    const batch = selectBatch(page.transactions, read);
    read += batch.length;
    const request = { transactions: batch.map(toCurvedTransaction), ...applied, only };
    const curves = yield* waitForWork((signal) => sessions.curves(request, signal));
    for (const [at, curve] of curves.entries()) {
      if (!curve) continue;
      const view = { transaction_id: batch[at]!.transactionId, curve: buildCurveView(curve) };
      bytes += stringify(view).length;
      transactions.push(view);
      if (timesOut(curve, 0n)) counts.recorded_times_out_count++;
      if (timesOut(curve, extra_latency_ns)) counts.times_out_count++;
    }
    slot.reportGathered(bytes);
    yield;
  } while (read < page.transactions.length && bytes < WHOLE_BYTES_MAX);
  const are_more = page.next !== null || read < page.transactions.length;
  const transaction_count = transactions.length;
  const { reach } = page;
  return { extra_latency_ns, timeout_ns, transaction_count, ...counts, are_more, transactions, reach };
}

function selectBatch(transactions: readonly TransactionSummary[], from: number): TransactionSummary[] {
  let [end, events] = [from, 0];
  while (end < transactions.length && end - from < BATCH_TRANSACTIONS && events < BATCH_EVENTS)
    events += transactions[end++]!.eventCount;
  return transactions.slice(from, end);
}

function toCurvedTransaction({ transactionId, nodes, eventCount, ...times }: TransactionSummary): CurvedTransaction {
  const { firstTimestampNs: firstNs, lastEndNs, writtenBack } = times;
  return { transactionId, nodes, isWrittenBack: writtenBack.count > 0, eventCount, firstNs, lastEndNs };
}
