/**
 * `kreplay/mark`: tells the kernel which transaction this thread works for, so that a recording can name it.
 *
 *   import { transaction } from 'kreplay/mark';
 *   await transaction('order-8812', async () => { ... });
 *
 * With or without an agent; one that cannot write its markers runs the program all the same.
 *
 * What it labels is what the thread itself asks of the kernel, in a transaction's callbacks and behind its `await`s:
 * `fs.writeSync()`, `appendFileSync()`, a response that is sent, processes that are started, `better-sqlite3`.
 *
 * What it does not label:
 * - Asynchronous file work (`fs.promises`, `fs.writeFile()`, file streams) runs on libuv's pool threads, where nobody
 *   knows the transaction: these writes have none. What libuv sends by itself, when a socket was full, has none either.
 * - A library that calls back in the context of whoever opened its connection, and not of whoever asked, gives the
 *   callback to the wrong one, here as for everything that builds on AsyncLocalStorage. `await` is not affected.
 * - A thread has one label: a program that also writes marker lines by itself, on the same thread, is at odds with this.
 *   What `kreplay exec` gave to the process ends with the first transaction.
 *
 * While a transaction is open, every callback of the thread takes some 0.3 us more. One that belongs to a transaction,
 * or a row of promises' jobs that do, also writes two lines to /dev/null, some 1 us each; without one, nothing is hooked.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { formatMarker, isTraceId } from '../attribution/marker.ts';
import { createMarkerOutput } from './marker_output.ts';
import { runRequest } from './requests.ts';
import { carryOut, createTransactions, type Transactions } from './transactions.ts';

export interface TransactionOptions {
  /** W3C trace id, 32 hex digits; one that is malformed is left out. */
  traceId?: string | undefined;
  /** Believed of root and of the agent's user; of everyone with `kreplay agent --trust-services`. */
  service?: string | undefined;
}

/**
 * Runs `fn` in a transaction and gives what it gives.
 *
 * The transaction is over when `fn` returns or, when it returns a promise, when that settles: what is given is then a
 * promise of the same outcome. Callbacks that come later belong to the transaction around it, or to none: a function
 * that ends by a callback has to be made to return a promise. Inside another transaction, this one counts, and the
 * other one again behind it.
 *
 * Throws a RangeError for an id that is empty or too long: some 900 bytes, of which every blank, `%` and control
 * character takes three, fit beside trace and service.
 */
export function transaction<T>(id: string, fn: () => PromiseLike<T>, options?: TransactionOptions): Promise<T>;
export function transaction<T>(id: string, fn: () => T, options?: TransactionOptions): T;
export function transaction(id: string, fn: () => unknown, options: TransactionOptions = {}): unknown {
  return carryOut(ofThread().open(lineOf(id, options)), fn);
}

function lineOf(id: string, { traceId, service }: TransactionOptions): string {
  if (typeof id !== 'string' || id === '') throw new RangeError('a transaction needs an id that is not empty');
  const trace = traceId?.toLowerCase();
  return formatMarker({
    transactionId: id,
    traceId: trace !== undefined && isTraceId(trace) ? trace : undefined,
    service: service || undefined,
  });
}

export interface RequestOptions {
  /** Names the transaction; x-transaction-id unless told. */
  header?: string | undefined;
}

const HEADER = 'x-transaction-id';

/**
 * For Express, Connect and their like, in front of what it is to label: runs the rest of a request in the transaction
 * that its header names, with the trace of its W3C `traceparent`; without either it does nothing, and what is too long
 * or malformed counts as not there. The transaction is over when the response is closed: work that goes on then, or in
 * a library's callback of another context, needs a `transaction()` of its own.
 *
 * Whoever sends a request chooses these headers: take them from those you trust.
 */
export function expressMiddleware({ header = HEADER }: RequestOptions = {}) {
  const name = header.toLowerCase();
  return (request: IncomingMessage, response: ServerResponse, next: () => void): void =>
    runRequest(ofThread(), name, request, response, next);
}

/** The same for Koa. What Koa sends when all middleware is done is sent outside of the transaction. */
export function koaMiddleware({ header = HEADER }: RequestOptions = {}) {
  const name = header.toLowerCase();
  return <T>({ req, res }: { req: IncomingMessage; res: ServerResponse }, next: () => T): T =>
    runRequest(ofThread(), name, req, res, next);
}

let transactionsOfThread: Transactions | undefined;

function ofThread(): Transactions {
  transactionsOfThread ??= createTransactions(createMarkerOutput());
  return transactionsOfThread;
}
