/** Describes the endpoints for events, transactions and pins for the API's document. */
import { z } from 'zod';
import { apiEventSchema } from '../../../bpf/schema/api.ts';
import { eventQuerySchema } from '../../query/event_query.ts';
import { pinRequest } from '../../query/pin_request.ts';
import { statsQuerySchema } from '../../query/stats_query.ts';
import { transactionsQuerySchema } from '../../query/transactions_query.ts';
import { eventsSchema, statsSchema } from './answers.ts';
import type { Endpoint } from './endpoint.ts';
import { transactionsSchema, wholeTransactionSchema } from './transactions.ts';
import { dateTime, timestampNs } from './values.ts';

const transactionId = z.object({
  transaction_id: z.string().meta({ description: 'as a label, a trace or a request has named it' }),
});

const pinnedSchema = z
  .object({
    transaction_id: z.string(),
    from: timestampNs('start of what is kept').nullable(),
    pinned_at: dateTime('when it was pinned first').nullable(),
    nodes: z.array(z.string()).meta({ description: 'whose recordings keep it; those of imports lose nothing anyway' }),
  })
  .meta({ id: 'pinned' });

const pinListSchema = z.object({
  pins: z.array(
    z.object({
      transaction_id: z.string(),
      from: timestampNs('start of what is kept'),
      pinned_at: dateTime('when it was pinned first'),
      node: z.string(),
    }),
  ),
});

const COVERAGE_HEADERS = {
  'Kreplay-Complete': 'of a stream: whether nothing is known to be missing in the window',
  'Kreplay-Lost': 'of a stream: events that are missing in the window, as far as they could be counted',
  'Kreplay-Recorded-Until': 'of a stream: recorded_until of its coverage, nanoseconds since the epoch',
};

export const EVENT_ENDPOINTS: readonly Endpoint[] = [
  {
    method: 'get',
    path: '/api/events',
    operationId: 'listEvents',
    tag: 'events',
    summary: 'Events, in order',
    curl: '"$api/api/events?transaction_id=$transaction&min_duration_ms=0.001&order=desc"',
    description:
      'All conditions hold at once. Without a match the list is empty. Pages have every event that was recorded before the first one exactly once, less what retention takes; what is recorded meanwhile comes when its place is still ahead. Events are recorded when they end and ordered by their start.',
    query: eventQuerySchema,
    headers: z.object({
      'Last-Event-ID': z.string().optional().meta({ description: 'of a live tail: id of the last frame seen' }),
    }),
    success: {
      status: 200,
      description: 'A page of JSON; all of them, an event a line; or events as they are recorded.',
      content: {
        'application/json': eventsSchema,
        'application/x-ndjson': 'an event a line',
        'text/event-stream': 'a live tail: frames `event`, `lost` and `end`, with `id` and `data` in JSON',
      },
      headers: COVERAGE_HEADERS,
    },
    errors: [
      'invalid_parameter',
      'invalid_cursor',
      'cursor_mismatch',
      'not_acceptable',
      'busy',
      'query_timeout',
      'tail_limit',
    ],
  },
  {
    method: 'get',
    path: '/api/events/{event_id}',
    operationId: 'getEvent',
    tag: 'events',
    summary: 'One event',
    curl: '"$api/api/events/$event"',
    pathParameters: z.object({ event_id: z.string() }),
    success: { status: 200, description: 'The event.', content: { 'application/json': apiEventSchema } },
    errors: ['invalid_parameter', 'event_not_found'],
  },
  {
    method: 'get',
    path: '/api/stats',
    operationId: 'getStats',
    tag: 'events',
    summary: 'Sums over events, by time and group',
    curl: '"$api/api/stats?from=-15m&bucket=1m&group_by=service,event_type"',
    query: statsQuerySchema,
    success: { status: 200, description: 'A row each.', content: { 'application/json': statsSchema } },
    errors: ['invalid_parameter', 'too_many_groups', 'busy', 'query_timeout'],
  },
  {
    method: 'get',
    path: '/api/transactions',
    operationId: 'listTransactions',
    tag: 'events',
    summary: 'Transactions, the latest or the slowest first',
    description:
      'A transaction that stays as it is while one pages, and that retention takes nothing of, comes exactly once. One that goes on meanwhile may be missed by `slowest`, when it becomes slower than what was listed already; by `recent` it is not missed, and comes again when an event is recorded late that began before its first one.',
    curl: '"$api/api/transactions?sort=slowest&limit=10"',
    query: transactionsQuerySchema,
    success: { status: 200, description: 'A page.', content: { 'application/json': transactionsSchema } },
    errors: ['invalid_parameter', 'invalid_cursor', 'cursor_mismatch', 'busy', 'query_timeout'],
  },
  {
    method: 'get',
    path: '/api/transactions/{transaction_id}',
    operationId: 'getTransaction',
    tag: 'events',
    summary: 'One transaction',
    curl: '"$api/api/transactions/$transaction"',
    pathParameters: transactionId,
    success: { status: 200, description: 'The transaction.', content: { 'application/json': wholeTransactionSchema } },
    errors: ['invalid_parameter', 'transaction_not_found'],
  },
  {
    method: 'post',
    path: '/api/transactions/{transaction_id}/pin',
    operationId: 'pinTransaction',
    tag: 'events',
    summary: 'Keep a transaction, whatever retention removes',
    curl: '"$api/api/transactions/$transaction/pin" --json \'{"before_ms": 60000}\'',
    pathParameters: transactionId,
    body: pinRequest,
    success: { status: 200, description: 'What is kept.', content: { 'application/json': pinnedSchema } },
    errors: [
      'invalid_parameter',
      'invalid_body',
      'malformed_json',
      'body_too_large',
      'unsupported_media_type',
      'transaction_not_found',
      'pins_full',
      'recording_not_writable',
    ],
  },
  {
    method: 'delete',
    path: '/api/transactions/{transaction_id}/pin',
    operationId: 'unpinTransaction',
    tag: 'events',
    summary: 'Leave a transaction to retention again',
    curl: '-X DELETE "$api/api/transactions/$transaction/pin"',
    pathParameters: transactionId,
    success: { status: 204, description: 'It is not kept any longer than others.' },
    errors: ['invalid_parameter', 'not_pinned', 'recording_not_writable'],
  },
  {
    method: 'get',
    path: '/api/pins',
    operationId: 'listPins',
    tag: 'events',
    summary: 'Transactions that are kept',
    curl: '"$api/api/pins"',
    success: { status: 200, description: 'The oldest first.', content: { 'application/json': pinListSchema } },
    errors: ['invalid_parameter'],
  },
];
