/** Computes the effect of extra latency on transactions without playing them. */
import { type Response, Router } from 'express';
import type { z } from 'zod';
import { min } from '../../base/bigints.ts';
import { noParameters } from '../../contract/parameters.ts';
import { parseQuery } from '../../contract/query_string.ts';
import type { whatIfSchema } from '../../contract/replay_answers.ts';
import { AFTER_TIMEOUT_DEFAULT, type WhatIfBody, whatIfRequest } from '../../contract/what_if_requests.ts';
import { beginAnswer } from '../../coverage/answer.ts';
import { buildClockView } from '../../replay/plan/clock_offsets.ts';
import { buildCurveView } from '../../replay/plan/curves.ts';
import type { Sessions } from '../../replay/session/sessions.ts';
import type { Store, TransactionSummary, UnendedEvents } from '../../store/store.ts';
import { type ScanGate, SMALL_ROWS_MAX } from '../access/scan_gate.ts';
import { parseBody } from '../body.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';
import { createTransactionOffsetsReader } from './asked_offsets.ts';
import { sendCurves } from './curves.ts';
import { runToEnd, waitForWork } from './run_in_steps.ts';

interface Options {
  store: Store;
  sessions: Sessions;
  now: () => bigint;
  scanGate: ScanGate;
}

export function createWhatIfRoutes(options: Options): Router {
  const router = Router();
  router
    .route('/')
    .post(async (req, res) => {
      parseQuery(req.query, noParameters);
      const { transaction_id, where, ...asked } = parseBody(req, whatIfRequest);
      // Both kinds of answers take a slot, because all events of the transactions are read.
      if (where) await sendCurves(res, options, { where, ...asked });
      else await sendProjection(res, options, transaction_id!, asked);
    })
    .all(refuseOtherMethods('POST'));
  return router;
}

type ProjectionBody = Omit<WhatIfBody, 'transaction_id' | 'where'>;

async function sendProjection(
  res: Response,
  { store, sessions, now, scanGate }: Options,
  transactionId: string,
  asked: ProjectionBody,
): Promise<void> {
  const { extra_latency_ns, timeout_ns, only, limit = AFTER_TIMEOUT_DEFAULT } = asked;
  const offsets = createTransactionOffsetsReader(store, asked.clock_offsets_ns, transactionId);
  const slot = await scanGate.enter(res, { isSmall: limit <= SMALL_ROWS_MAX });
  const nowNs = now();
  const filter = { transactionId };
  const answer = await beginAnswer(store, { nowNs, filter });
  const request = {
    transactionId,
    extraLatencyNs: extra_latency_ns,
    timeoutNs: timeout_ns,
    only,
    limit,
  };
  const found = await runToEnd(
    res,
    slot,
    waitForWork(async (signal) => sessions.whatIf({ ...request, ...(await offsets()) }, signal)),
  );
  if (!found) return;
  const coverage = await answer.describe(await answer.coverEvents(filter), asked.coverage);
  const isLate =
    timeout_ns !== null &&
    goesOnAfter(await answer.store.findTransaction(transactionId), timeout_ns, answer.unended.own);
  sendJson(res, 200, {
    transaction_id: transactionId,
    extra_latency_ns,
    timeout_ns,
    clock: found.clocks.map(buildClockView),
    event_count: found.eventCount,
    written_back_count: found.writtenBackCount,
    affected_count: found.affectedCount,
    duration_ns: found.recordedDurationNs,
    replay_duration_ns: found.durationNs,
    curve: buildCurveView(found.curve),
    times_out: found.afterTimeoutCount > 0,
    in_progress_times_out: isLate,
    after_timeout_count: found.afterTimeoutCount,
    smallest_latency_ns: found.smallestLatencyNs,
    after_timeout: found.afterTimeout.map(({ event, offsetNs, durationNs }) => ({
      ...event,
      replay_offset_ns: offsetNs,
      replay_duration_ns: durationNs,
    })),
    coverage,
  } satisfies z.input<typeof whatIfSchema>);
}

/**
 * Whether a call is still in progress at the deadline, `timeoutNs` after the start of the transaction; null if this is
 * unknown.
 */
function goesOnAfter(
  transaction: TransactionSummary | undefined,
  timeoutNs: bigint,
  own: UnendedEvents,
): boolean | null {
  const calls = own.events.filter(
    ({ transaction_id, event_type }) => transaction_id === transaction?.transactionId && event_type !== 'block_io',
  );
  const starts = calls.map(({ timestamp_ns }) => timestamp_ns);
  const nodes = new Set([...(transaction?.nodes ?? []), ...calls.map(({ node }) => node)]);
  // The clocks of several nodes may differ. So with several nodes, a call counts only if its own duration exceeds the
  // timeout.
  const startNs = nodes.size > 1 ? undefined : starts.reduce(min, transaction?.firstTimestampNs ?? starts[0]!);
  if (calls.some(({ timestamp_ns, untilNs }) => untilNs - (startNs ?? timestamp_ns) > timeoutNs)) return true;
  const isKnown = own.unlisted.every(({ isLost }) => isLost) && (calls.length === 0 || startNs !== undefined);
  return isKnown ? false : null;
}
