import { type Response, Router } from 'express';
import type { z } from 'zod';
import { Problem } from '../../base/problem.ts';
import { addTimeTexts } from '../../base/time_text.ts';
import { parseQuery } from '../../contract/query_string.ts';
import type {
  explanationSchema,
  transactionSchema,
  transactionSummarySchema,
  transactionsSchema,
  wholeTransactionSchema,
} from '../../contract/transactions.ts';
import {
  parseExplanationQuery,
  parseTransactionsQuery,
  SUMMARY_LIMIT_DEFAULT,
  summaryQuerySchema,
  type TransactionsQuery,
  transactionQuerySchema,
} from '../../contract/transactions_query.ts';
import { beginAnswer, type CoveredAnswer } from '../../coverage/answer.ts';
import type { NodeLoss, Store, TransactionPage, TransactionSummary, UnendedEvents } from '../../store/store.ts';
import {
  type BurstLimits,
  type BurstSums,
  countBursts,
  createKnownBursts,
  deriveBursts,
  type KnownBursts,
  LISTED_BURSTS,
  OWN_BURSTS,
} from '../../store/transaction_bursts.ts';
import { sumTransactionTimes } from '../../store/transaction_times.ts';
import { needsEvents } from '../../sums/differences/chosen_transactions.ts';
import { isRefusal, type ScanGate, type ScanSlot, SMALL_ROWS_MAX } from '../access/scan_gate.ts';
import { isOpen } from '../ndjson.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';
import { buildExplanationView, explainTransaction } from './explanation.ts';
import { refuseIfPartial } from './partial.ts';
import { runToEnd } from './run_in_steps.ts';

interface Options {
  store: Store;
  now: () => bigint;
  scanGate: ScanGate;
}

export function createTransactionRoutes({ store, now, scanGate }: Options): Router {
  const router = Router();
  const known = createKnownBursts();
  router
    .route('/')
    .get(async (req, res) => {
      const query = parseTransactionsQuery(req.query as never, now());
      const keepsEvents = needsEvents(query.request.filter);
      const isRead = query.request.filter.idPart !== undefined;
      const isSmall = !keepsEvents && !isRead && query.request.limit <= SMALL_ROWS_MAX;
      const slot = await scanGate.enter(res, { keepsEvents, isSmall });
      const answer = await beginAnswer(store, { nowNs: query.nowNs });
      const found = await runAndCount(res, slot, answer.store.listTransactions(query.request), {
        store: answer.store,
        known,
        limits: LISTED_BURSTS,
        listOf: ({ transactions }) => transactions,
      });
      if (found) await sendPage(res, answer, query, found);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  router
    .route('/:transaction_id')
    .get(async (req, res) => {
      const { coverage: detail } = parseQuery(req.query as never, transactionQuerySchema);
      const answer = await beginTransactionAnswer(req.params.transaction_id);
      const transaction = await findTransaction(req.params.transaction_id, answer);
      const bursts = await countOwn(res, answer.store, transaction);
      if (bursts === undefined) return;
      sendJson(res, 200, {
        ...(await readView(answer.store, transaction, bursts)),
        coverage: await answer.describe(await answer.coverTransaction(transaction), detail),
      } satisfies z.input<typeof wholeTransactionSchema>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  router
    .route('/:transaction_id/summary')
    .get(async (req, res) => {
      const { limit = SUMMARY_LIMIT_DEFAULT, coverage: detail } = parseQuery(req.query as never, summaryQuerySchema);
      const slot = await scanGate.enter(res, { isSmall: limit <= SMALL_ROWS_MAX });
      const answer = await beginTransactionAnswer(req.params.transaction_id);
      const transaction = await findTransaction(req.params.transaction_id, answer);
      const { transactionId } = transaction;
      const found = await runAndCount(res, slot, sumTransactionTimes(answer.store, { transactionId, limit }), {
        store: answer.store,
        known,
        limits: OWN_BURSTS,
        listOf: () => [transaction],
      });
      if (!found) return;
      sendJson(res, 200, {
        transaction: await readView(answer.store, transaction, found.bursts[0]!),
        ...found.result,
        coverage: await answer.describe(await answer.coverTransaction(transaction), detail),
      } satisfies z.input<typeof transactionSummarySchema>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  router
    .route('/:transaction_id/explain')
    .get(async (req, res) => {
      const query = parseExplanationQuery(req.query as never, now());
      const { transaction_id: id } = req.params;
      const answer = await beginTransactionAnswer(id);
      const transaction = await findTransaction(id, answer);
      const isSmall = transaction.eventCount <= SMALL_ROWS_MAX;
      const slot = await scanGate.enter(res, isSmall ? { isSmall } : { keepsEvents: true });
      const found = await runAndCount(res, slot, explainTransaction(answer.store, transaction, query), {
        store: answer.store,
        known,
        limits: OWN_BURSTS,
        listOf: () => [transaction],
      });
      if (!found) return;
      const { result, bursts } = found;
      const coverage = await answer.describe(await answer.coverTransaction(transaction), query.detail);
      sendJson(res, 200, {
        ...buildExplanationView(id, result, coverage),
        transaction: await readView(answer.store, transaction, bursts[0]!),
        slowest: result.slowest,
        coverage,
      } satisfies z.input<typeof explanationSchema>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));

  function beginTransactionAnswer(transactionId: string): Promise<CoveredAnswer> {
    return beginAnswer(store, { nowNs: now(), filter: { transactionId } });
  }

  async function findTransaction(id: string, answer: CoveredAnswer): Promise<TransactionSummary> {
    const { shards, unended } = answer;
    const transaction = await answer.store.findTransaction(id);
    if (!transaction) refuseIfPartial(shards, `transaction ${id}`);
    if (!transaction)
      throw createNotFoundProblem(
        id,
        unended.own,
        await answer.store.listLosses(undefined, undefined, undefined, { transactionId: id }),
      );
    return transaction;
  }

  /**
   * Counts the bursts of one transaction. A slot is requested only if events must be read, which is rare. Resolves to
   * null if the gate refuses the slot or the count takes too long, and to undefined if the client has disconnected.
   */
  async function countOwn(
    res: Response,
    from: Store,
    transaction: TransactionSummary,
  ): Promise<BurstSums | null | undefined> {
    const counted = deriveBursts(transaction) ?? known.find(transaction);
    if (counted) return counted;
    try {
      const slot = await scanGate.enter(res, { isSmall: true });
      return (await runToEnd(res, slot, countBursts(from, [transaction], OWN_BURSTS, known)))?.[0];
    } catch (error) {
      return goOnWithout(res, error) ? null : undefined;
    }
  }

  return router;
}

type TransactionView = z.input<typeof transactionSchema>;

async function readView(
  store: Store,
  transaction: TransactionSummary,
  bursts: BurstSums | null,
): Promise<TransactionView> {
  const pins = await store.listPins(transaction.transactionId);
  return buildTransactionView(transaction, bursts, pins.length > 0);
}

interface Counted<Result> {
  result: Result;
  /** Bursts of each transaction of the result. */
  bursts: (BurstSums | null)[];
}

interface Counting<Result> {
  store: Store;
  known: KnownBursts;
  limits: BurstLimits;
  listOf(result: Result): readonly TransactionSummary[];
}

/**
 * Runs the work as `runToEnd` does, and then counts the bursts of the transactions in its result. If counting takes too
 * long, the result is complete, but has only the counts that are known without reading events.
 */
async function runAndCount<Result>(
  res: Response,
  slot: ScanSlot,
  work: AsyncGenerator<void, Result>,
  { store, known, limits, listOf }: Counting<Result>,
): Promise<Counted<Result> | undefined> {
  const done: Result[] = [];
  async function* runSteps(): AsyncGenerator<void, Counted<Result>> {
    const result = yield* work;
    done.push(result);
    return { result, bursts: yield* countBursts(store, listOf(result), limits, known) };
  }
  try {
    return await runToEnd(res, slot, runSteps());
  } catch (error) {
    if (done.length === 0) throw error;
    if (!goOnWithout(res, error)) return undefined;
    const [result] = done as [Result];
    const bursts = listOf(result).map((transaction) => deriveBursts(transaction) ?? known.find(transaction) ?? null);
    return { result, bursts };
  }
}

/**
 * Handles the gate's refusal to read events for counts. Returns whether the answer is sent without these counts: false
 * if the client has disconnected. Rethrows any other error.
 */
function goOnWithout(res: Response, error: unknown): boolean {
  if (!isRefusal(error)) throw error;
  res.removeHeader('Retry-After');
  return isOpen(res);
}

/**
 * Creates the problem for an unknown transaction. A transaction is known only from an event that has ended and is
 * recorded, so the detail mentions calls in progress, and calls that were left out.
 */
function createNotFoundProblem(id: string, { events }: UnendedEvents, losses: readonly NodeLoss[]): Problem {
  const none = `no events of transaction ${id} are recorded`;
  const count = losses.reduce((sum, { transactionId, lost }) => sum + (transactionId === id ? lost : 0), 0);
  const more = [
    ...(events.length > 0 ? [`${formatCalls(events.length)} in progress: see coverage.in_progress of its events`] : []),
    ...(count > 0 ? [`${formatCalls(count)} missing: see coverage.losses of its events`] : []),
  ];
  return new Problem('transaction_not_found', [none, ...more].join(', but '));
}

const formatCalls = (count: number) => (count === 1 ? 'a call is' : `${count} calls are`);

async function sendPage(
  res: Response,
  answer: CoveredAnswer,
  { request, encodePlace, detail }: TransactionsQuery,
  { result: page, bursts }: Counted<TransactionPage>,
): Promise<void> {
  const { filter } = request;
  const pinned = new Set((await answer.store.listPins()).map(({ transactionId }) => transactionId));
  sendJson(res, 200, {
    transactions: page.transactions.map((transaction, i) =>
      buildTransactionView(transaction, bursts[i]!, pinned.has(transaction.transactionId)),
    ),
    next_cursor: page.next && encodePlace(page.next),
    coverage: await answer.describe(await answer.coverList(filter, page.reach), detail),
  } satisfies z.input<typeof transactionsSchema>);
}

function buildTransactionView(
  transaction: TransactionSummary,
  bursts: BurstSums | null,
  pinned: boolean,
): TransactionView {
  const { writtenBack } = transaction;
  return {
    transaction_id: transaction.transactionId,
    trace_id: transaction.traceId,
    ...addTimeTexts({ first_timestamp_ns: transaction.firstTimestampNs, last_end_ns: transaction.lastEndNs }),
    duration_ns: transaction.lastEndNs - transaction.firstTimestampNs,
    written_back: {
      count: writtenBack.count,
      bytes: writtenBack.bytes,
      ...addTimeTexts({ last_end_ns: writtenBack.count > 0 ? writtenBack.lastEndNs : null }),
    },
    event_count: transaction.eventCount,
    error_count: transaction.errorCount,
    slowest_event_id: transaction.slowestEventId,
    burst_count: bursts?.count ?? null,
    bursts_apart_ns: bursts?.apartNs ?? null,
    services: transaction.services,
    nodes: transaction.nodes,
    pinned,
  };
}
