/** HTTP requests as transactions. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { formatMarker, type MarkerFields, parseMarker } from '../attribution/marker.ts';
import type { Transactions } from './transactions.ts';

/** Runs the rest of a request, until its response is closed, in the transaction that its headers name, if they do. */
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
  // Whoever asked is gone, and no other close will come.
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
  // What is too long comes from the network: as if it were not there.
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

/** Of a W3C traceparent. */
function traceIdOf(header: unknown): string | undefined {
  if (typeof header !== 'string' || header.includes(' ')) return undefined;
  return parseMarker(`KREPLAY1 tp=${header}`)?.traceId ?? undefined;
}
