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
import { type AnswerSpans, readAnswerSpans } from '../../coverage/coverage.ts';
import { readListCoverage } from '../../coverage/population_coverage.ts';
import { readTransactionCoverage } from '../../coverage/transaction_coverage.ts';
import type { Store, TransactionPage, TransactionSummary, Unended } from '../../store/store.ts';
import { sumTransactionTimes } from '../../store/transaction_times.ts';
import { needsEvents } from '../../sums/differences/chosen_transactions.ts';
import { type ScanGate, SMALL_ROWS_MAX } from '../access/scan_gate.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';
import { runToEnd } from './finished.ts';
import { refuseIfPartial } from './partial.ts';

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
      const spans = await readAnswerSpans(store, undefined, query.nowNs);
      const page = await runToEnd(res, turn, store.listTransactions(query.request));
      if (page) await sendPage(res, store, query, page, spans);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  router
    .route('/:transaction_id')
    .get(async (req, res) => {
      parseQuery(req.query, noParameters);
      const nowNs = now();
      const spans = await readAnswerSpans(store, undefined, nowNs, { transactionId: req.params.transaction_id });
      const { transaction, view } = await readTransaction(req.params.transaction_id, spans);
      sendJson(res, 200, {
        ...view,
        coverage: await readTransactionCoverage(store, spans, transaction, nowNs),
      } satisfies z.input<typeof wholeTransactionSchema>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  router
    .route('/:transaction_id/summary')
    .get(async (req, res) => {
      const { limit = SUMMARY_LIMIT_DEFAULT } = parseQuery(req.query as never, summaryQuerySchema);
      const turn = await scanGate.enter(res, { isSmall: limit <= SMALL_ROWS_MAX });
      const nowNs = now();
      const spans = await readAnswerSpans(store, undefined, nowNs, { transactionId: req.params.transaction_id });
      const { transaction, view, answering } = await readTransaction(req.params.transaction_id, spans);
      const { transactionId } = transaction;
      const times = await runToEnd(res, turn, sumTransactionTimes(answering, { transactionId, limit }));
      if (!times) return;
      sendJson(res, 200, {
        transaction: view,
        ...times,
        coverage: await readTransactionCoverage(store, spans, transaction, nowNs),
      } satisfies z.input<typeof transactionSummarySchema>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));

  async function readTransaction(id: string, { shards, unended }: AnswerSpans) {
    const answering = store.createAnswerStore?.() ?? store;
    const transaction = await answering.findTransaction(id);
    if (!transaction) refuseIfPartial(shards, `transaction ${id}`);
    if (!transaction) throw createNotFoundProblem(id, unended.own);
    return { transaction, answering, view: buildTransactionView(transaction, (await store.listPins(id)).length > 0) };
  }

  return router;
}

/** A transaction is known by events that have ended. */
function createNotFoundProblem(id: string, { events }: Unended): Problem {
  const none = `no events of transaction ${id} are recorded`;
  const unended = events.length === 1 ? 'a call is' : `${events.length} calls are`;
  const more = events.length > 0 ? `, but ${unended} in progress: see coverage.in_progress of its events` : '';
  return new Problem('transaction_not_found', `${none}${more}`);
}

async function sendPage(
  res: Response,
  store: Store,
  { request, nowNs, encodePlace }: TransactionsQuery,
  page: TransactionPage,
  spans: AnswerSpans,
): Promise<void> {
  const { filter } = request;
  const pinned = new Set((await store.listPins()).map(({ transactionId }) => transactionId));
  sendJson(res, 200, {
    transactions: page.transactions.map((transaction) =>
      buildTransactionView(transaction, pinned.has(transaction.transactionId)),
    ),
    next_cursor: page.next && encodePlace(page.next),
    coverage: await readListCoverage(store, spans, { filter, reach: page.reach, nowNs }),
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
