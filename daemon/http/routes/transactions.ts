import { type Response, Router } from 'express';
import type { z } from 'zod';
import { Problem } from '../../base/problem.ts';
import { noParameters } from '../../contract/parameters.ts';
import { parseQuery } from '../../contract/query_string.ts';
import type {
  transactionSchema,
  transactionSummarySchema,
  transactionsSchema,
  wholeTransactionSchema,
} from '../../contract/transactions.ts';
import {
  parseTransactionsQuery,
  SUMMARY_LIMIT_DEFAULT,
  summaryQuerySchema,
  type TransactionsQuery,
} from '../../contract/transactions_query.ts';
import { beginAnswer, type CoveredAnswer } from '../../coverage/answer.ts';
import type { Store, TransactionPage, TransactionSummary, UnendedEvents } from '../../store/store.ts';
import { sumTransactionTimes } from '../../store/transaction_times.ts';
import { needsEvents } from '../../sums/differences/chosen_transactions.ts';
import { type ScanGate, SMALL_ROWS_MAX } from '../access/scan_gate.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';
import { refuseIfPartial } from './partial.ts';
import { runToEnd } from './run_in_steps.ts';

interface Options {
  store: Store;
  now: () => bigint;
  scanGate: ScanGate;
}

export function createTransactionRoutes({ store, now, scanGate }: Options): Router {
  const router = Router();
  router
    .route('/')
    .get(async (req, res) => {
      const query = parseTransactionsQuery(req.query as never, now());
      const keepsEvents = needsEvents(query.request.filter);
      const isSmall = !keepsEvents && query.request.limit <= SMALL_ROWS_MAX;
      const turn = await scanGate.enter(res, { keepsEvents, isSmall });
      const answer = await beginAnswer(store, { nowNs: query.nowNs });
      const page = await runToEnd(res, turn, answer.store.listTransactions(query.request));
      if (page) await sendPage(res, answer, query, page);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  router
    .route('/:transaction_id')
    .get(async (req, res) => {
      parseQuery(req.query, noParameters);
      const answer = await beginTransactionAnswer(req.params.transaction_id);
      const { transaction, view } = await readTransaction(req.params.transaction_id, answer);
      sendJson(res, 200, {
        ...view,
        coverage: await answer.coverTransaction(transaction),
      } satisfies z.input<typeof wholeTransactionSchema>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  router
    .route('/:transaction_id/summary')
    .get(async (req, res) => {
      const { limit = SUMMARY_LIMIT_DEFAULT } = parseQuery(req.query as never, summaryQuerySchema);
      const turn = await scanGate.enter(res, { isSmall: limit <= SMALL_ROWS_MAX });
      const answer = await beginTransactionAnswer(req.params.transaction_id);
      const { transaction, view } = await readTransaction(req.params.transaction_id, answer);
      const { transactionId } = transaction;
      const times = await runToEnd(res, turn, sumTransactionTimes(answer.store, { transactionId, limit }));
      if (!times) return;
      sendJson(res, 200, {
        transaction: view,
        ...times,
        coverage: await answer.coverTransaction(transaction),
      } satisfies z.input<typeof transactionSummarySchema>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));

  function beginTransactionAnswer(transactionId: string): Promise<CoveredAnswer> {
    return beginAnswer(store, { nowNs: now(), filter: { transactionId } });
  }

  async function readTransaction(id: string, answer: CoveredAnswer) {
    const { shards, unended } = answer;
    const transaction = await answer.store.findTransaction(id);
    if (!transaction) refuseIfPartial(shards, `transaction ${id}`);
    if (!transaction) throw createNotFoundProblem(id, unended.own);
    return { transaction, view: buildTransactionView(transaction, (await store.listPins(id)).length > 0) };
  }

  return router;
}

/** A transaction becomes known only when one of its events has ended, so the detail mentions calls in progress. */
function createNotFoundProblem(id: string, { events }: UnendedEvents): Problem {
  const none = `no events of transaction ${id} are recorded`;
  const unended = events.length === 1 ? 'a call is' : `${events.length} calls are`;
  const more = events.length > 0 ? `, but ${unended} in progress: see coverage.in_progress of its events` : '';
  return new Problem('transaction_not_found', `${none}${more}`);
}

async function sendPage(
  res: Response,
  answer: CoveredAnswer,
  { request, encodePlace }: TransactionsQuery,
  page: TransactionPage,
): Promise<void> {
  const { filter } = request;
  const pinned = new Set((await answer.store.listPins()).map(({ transactionId }) => transactionId));
  sendJson(res, 200, {
    transactions: page.transactions.map((transaction) =>
      buildTransactionView(transaction, pinned.has(transaction.transactionId)),
    ),
    next_cursor: page.next && encodePlace(page.next),
    coverage: await answer.coverList(filter, page.reach),
  } satisfies z.input<typeof transactionsSchema>);
}

function buildTransactionView(transaction: TransactionSummary, pinned: boolean): z.input<typeof transactionSchema> {
  const { writtenBack } = transaction;
  return {
    transaction_id: transaction.transactionId,
    trace_id: transaction.traceId,
    first_timestamp_ns: transaction.firstTimestampNs,
    last_end_ns: transaction.lastEndNs,
    duration_ns: transaction.lastEndNs - transaction.firstTimestampNs,
    written_back: {
      count: writtenBack.count,
      bytes: writtenBack.bytes,
      last_end_ns: writtenBack.count > 0 ? writtenBack.lastEndNs : null,
    },
    event_count: transaction.eventCount,
    error_count: transaction.errorCount,
    slowest_event_id: transaction.slowestEventId,
    services: transaction.services,
    nodes: transaction.nodes,
    pinned,
  };
}
