/**
 * `kreplay/mark` reports to the kernel which transaction this thread works for, so that a recording can name it.
 *
 *   import { transaction } from 'kreplay/mark';
 *   await transaction('order-8812', async () => { ... });
 *
 * The program runs with or without an agent, and even if its markers cannot be written.
 *
 * A transaction labels the requests that the thread itself makes to the kernel, in the transaction's callbacks and
 * after its `await`s: `fs.writeSync()`, `appendFileSync()`, a response that is sent, processes that are started,
 * `better-sqlite3`.
 *
 * Some work has no label, or a wrong one:
 * - Asynchronous file work (`fs.promises`, `fs.writeFile()`, file streams) runs on libuv's pool threads, where the
 *   transaction is unknown: these writes have no label. Data that libuv sends by itself, when a socket was full, has no
 *   label either.
 * - Some libraries call back in the context that opened the connection, not in the caller's context. Such a callback
 *   gets the wrong transaction, as with everything that builds on AsyncLocalStorage. `await` is not affected.
 * - A thread has one label, so this module conflicts with a program that also writes marker lines on the same thread.
 *   The label that `kreplay exec` gave to the process ends with the first transaction.
 *
 * While a transaction is open, every callback of the thread takes some 0.3 us more. A callback of a transaction, or a
 * sequence of its promise jobs, also writes two lines to /dev/null, which take some 1 us each. While no transaction is
 * open, there is no hook.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { formatMarker, isTraceId, type MarkerFields, parseMarker } from '../attribution/marker.ts';
import { createMarkerOutput } from './marker_output.ts';
import { carryOut, createTransactions, type Transactions } from './transactions.ts';

export interface TransactionOptions {
  /** W3C trace id, 32 hex digits; a malformed id is ignored. */
  traceId?: string | undefined;
  /**
   * Service name. The agent accepts it from root and the agent's user; with `kreplay agent --trust-services`, from
   * every user.
   */
  service?: string | undefined;
}

/**
 * Runs `fn` in a transaction and returns its result.
 *
 * The transaction ends when `fn` returns. If `fn` returns a promise, the transaction ends when the promise settles, and
 * the result is a promise with the same outcome. Later callbacks belong to the enclosing transaction, if there is one.
 * So a function that finishes in a callback must be converted to return a promise. A nested transaction replaces the
 * outer transaction until the nested transaction ends.
 *
 * Throws a RangeError for an id that is empty, `.`, `..` or too long. Next to trace and service, an id may take some
 * 900 bytes; every blank, `%` and control character takes three bytes.
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
 * Returns middleware for Express, Connect and similar frameworks, to be placed in front of the handlers that it should
 * label. The middleware runs the rest of a request in the transaction that the request's header names, with the trace
 * of the W3C `traceparent`. A request with neither is not labelled; values that are too long or malformed are ignored.
 * The transaction ends when the response is closed. Later work, and callbacks that a library runs in another context,
 * need a `transaction()` of their own.
 *
 * Clients choose these headers: take them only from clients that you trust.
 */
export function expressMiddleware({ header = HEADER }: RequestOptions = {}) {
  const name = header.toLowerCase();
  return (request: IncomingMessage, response: ServerResponse, next: () => void): void =>
    runRequest(ensureThreadTransactions(), name, request, response, next);
}

/**
 * Returns middleware like `expressMiddleware`, for Koa. The transaction does not include data that Koa sends when all
 * middleware has run.
 */
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
  // The response is already closed, and will not emit another `close`.
  try {
    return transaction.run(next);
  } finally {
    transaction.close();
  }
}

/**
 * Returns the marker line of a request; undefined if the headers name neither a valid transaction nor a valid trace.
 */
export function formatRequestMarker(headers: IncomingHttpHeaders, header: string): string | undefined {
  const named = headers[header];
  const traceId = parseTraceId(headers.traceparent);
  // Values come from the network. If the transaction's id is too long, only the trace is used.
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

/** Returns the trace id of a W3C traceparent; undefined if it is malformed. */
function parseTraceId(header: unknown): string | undefined {
  if (typeof header !== 'string' || header.includes(' ')) return undefined;
  return parseMarker(`KREPLAY1 tp=${header}`)?.traceId ?? undefined;
}
