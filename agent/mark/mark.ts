/**
 * `kreplay/mark` reports to the kernel which transaction this thread works for, so that a recording can name it.
 *
 *   import { transaction } from 'kreplay/mark';
 *   await transaction('order-8812', async () => { ... });
 *
 * The program runs with or without an agent, and even if its markers cannot be written.
 *
 * Labels are on what the thread itself requests from the kernel, in a transaction's callbacks and after its `await`s:
 * `fs.writeSync()`, `appendFileSync()`, a response that is sent, processes that are started, `better-sqlite3`.
 *
 * Some work has no label, or a wrong one:
 * - Asynchronous file work (`fs.promises`, `fs.writeFile()`, file streams) runs on libuv's pool threads, where the
 *   transaction is unknown: these writes have no label. Data that libuv sends by itself, when a socket was full, has no
 *   label either.
 * - A library that calls back in the context that opened its connection, and not in its caller's context, assigns the
 *   callback to the wrong transaction, as with everything that builds on AsyncLocalStorage. `await` is not affected.
 * - A thread has one label: a program that also writes marker lines by itself, on the same thread, conflicts with this.
 *   The label that `kreplay exec` gave to the process ends with the first transaction.
 *
 * While a transaction is open, every callback of the thread takes some 0.3 us more. A callback that belongs to a
 * transaction, or a sequence of promise jobs that do, also writes two lines to /dev/null, some 1 us each. While no
 * transaction is open, nothing is hooked.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { formatMarker, isTraceId, type MarkerFields, parseMarker } from '../attribution/marker.ts';
import { createMarkerOutput } from './marker_output.ts';
import { carryOut, createTransactions, type Transactions } from './transactions.ts';

export interface TransactionOptions {
  /** W3C trace id, 32 hex digits; a malformed one is left out. */
  traceId?: string | undefined;
  /** Accepted from root and the agent's user, and from every user with `kreplay agent --trust-services`. */
  service?: string | undefined;
}

/**
 * Runs `fn` in a transaction and returns its result.
 *
 * The transaction ends when `fn` returns or, if it returns a promise, when that settles: the result is then a promise
 * with the same outcome. Later callbacks belong to the enclosing transaction, or to none: a function that ends with a
 * callback has to be made to return a promise. A transaction inside another one replaces it until the inner one ends.
 *
 * Throws a RangeError for an id that is empty, `.`, `..` or too long: trace and service leave room for some 900 bytes.
 * Every blank, `%` and control character takes three bytes.
 */
export function transaction<T>(id: string, fn: () => PromiseLike<T>, options?: TransactionOptions): Promise<T>;
export function transaction<T>(id: string, fn: () => T, options?: TransactionOptions): T;
export function transaction(id: string, fn: () => unknown, options: TransactionOptions = {}): unknown {
  return carryOut(ensureThreadTransactions().open(formatTransactionLine(id, options)), fn);
}

function formatTransactionLine(id: string, { traceId, service }: TransactionOptions): string {
  if (typeof id !== 'string' || id === '') throw new RangeError('a transaction needs an id that is not empty');
  const trace = traceId?.toLowerCase();
  return formatMarker({
    transactionId: id,
    traceId: trace !== undefined && isTraceId(trace) ? trace : undefined,
    service: service || undefined,
  });
}

export interface RequestOptions {
  /** Header that names the transaction; x-transaction-id by default. */
  header?: string | undefined;
}

const HEADER = 'x-transaction-id';

/**
 * Middleware for Express, Connect and the like, to be placed in front of what it is to label. Runs the rest of a
 * request in the transaction that its header names, with the trace of its W3C `traceparent`; without either it does
 * nothing, and values that are too long or malformed are ignored. The transaction ends when the response is closed:
 * work that goes on then, or in a library's callback of another context, needs a `transaction()` of its own.
 *
 * Clients choose these headers: take them only from clients that you trust.
 */
export function expressMiddleware({ header = HEADER }: RequestOptions = {}) {
  const name = header.toLowerCase();
  return (request: IncomingMessage, response: ServerResponse, next: () => void): void =>
    runRequest(ensureThreadTransactions(), name, request, response, next);
}

/** Does the same as `expressMiddleware` for Koa. What Koa sends after all middleware is outside the transaction. */
export function koaMiddleware({ header = HEADER }: RequestOptions = {}) {
  const name = header.toLowerCase();
  return <T>({ req, res }: { req: IncomingMessage; res: ServerResponse }, next: () => T): T =>
    runRequest(ensureThreadTransactions(), name, req, res, next);
}

let transactionsOfThread: Transactions | undefined;

function ensureThreadTransactions(): Transactions {
  transactionsOfThread ??= createTransactions(createMarkerOutput());
  return transactionsOfThread;
}

/* Runs HTTP requests as transactions. */

/** Runs the rest of a request, until its response is closed, in the transaction that its headers name, if any. */
export function runRequest<T>(
  transactions: Transactions,
  header: string,
  { headers }: IncomingMessage,
  response: ServerResponse,
  next: () => T,
): T {
  const line = formatRequestMarker(headers, header);
  if (line === undefined) return next();
  const transaction = transactions.open(line);
  if (!response.closed) {
    response.once('close', transaction.close);
    return transaction.run(next);
  }
  // The client is gone, and the response will not emit another close.
  try {
    return transaction.run(next);
  } finally {
    transaction.close();
  }
}

/** Returns the marker line of a request; undefined if its headers name no transaction or trace, or none that fits. */
export function formatRequestMarker(headers: IncomingHttpHeaders, header: string): string | undefined {
  const named = headers[header];
  const traceId = parseTraceId(headers.traceparent);
  // Values come from the network: a value that is too long is ignored.
  return (
    formatMarkerLine({ transactionId: typeof named === 'string' ? named : '', traceId }) ??
    formatMarkerLine({ traceId })
  );
}

function formatMarkerLine({ transactionId, traceId }: MarkerFields): string | undefined {
  if (!transactionId && !traceId) return undefined;
  try {
    return formatMarker({ transactionId: transactionId || undefined, traceId });
  } catch {
    return undefined;
  }
}

/** Returns the trace id of a W3C traceparent. */
function parseTraceId(header: unknown): string | undefined {
  if (typeof header !== 'string' || header.includes(' ')) return undefined;
  return parseMarker(`KREPLAY1 tp=${header}`)?.traceId ?? undefined;
}
