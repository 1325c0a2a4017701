/** Runs HTTP requests as transactions. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { formatMarker, type MarkerFields, parseMarker } from '../attribution/marker.ts';
import type { Transactions } from './transactions.ts';

/** Runs the rest of a request, until its response is closed, in the transaction that its headers name, if any. */
export function runRequest<T>(
  transactions: Transactions,
  header: string,
  { headers }: IncomingMessage,
  response: ServerResponse,
  next: () => T,
): T {
  const line = markerOf(headers, header);
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

/** The marker line of a request; undefined when its headers name nothing, or nothing that fits. */
export function markerOf(headers: IncomingHttpHeaders, header: string): string | undefined {
  const named = headers[header];
  const traceId = traceIdOf(headers.traceparent);
  // Values come from the network: one that is too long is ignored.
  return lineOf({ transactionId: typeof named === 'string' ? named : '', traceId }) ?? lineOf({ traceId });
}

function lineOf({ transactionId, traceId }: MarkerFields): string | undefined {
  if (!transactionId && !traceId) return undefined;
  try {
    return formatMarker({ transactionId: transactionId || undefined, traceId });
  } catch {
    return undefined;
  }
}

/** Trace id in a W3C traceparent. */
function traceIdOf(header: unknown): string | undefined {
  if (typeof header !== 'string' || header.includes(' ')) return undefined;
  return parseMarker(`KREPLAY1 tp=${header}`)?.traceId ?? undefined;
}
