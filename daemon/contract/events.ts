/** Describes the endpoints for events, transactions and pins for the API's document. */
import { z } from 'zod';
import { apiEventSchema } from '../../bpf/schema/api.ts';
import { eventsSchema, statsSchema } from './answers.ts';
import type { Endpoint } from './endpoint.ts';
import { eventQuerySchema } from './event_query.ts';
import { pinRequest } from './pin_request.ts';
import { statsQuerySchema } from './stats_query.ts';
import {
  explanationSchema,
  transactionSummarySchema,
  transactionsSchema,
  wholeTransactionSchema,
} from './transactions.ts';
import {
  explanationQuerySchema,
  summaryQuerySchema,
  transactionQuerySchema,
  transactionsQuerySchema,
} from './transactions_query.ts';
import { dateTime, time, timeOrNull } from './values.ts';

const transactionId = z.object({
  transaction_id: z
    .string()
    .meta({ description: 'id of the transaction, as a label, a trace or a request has named it' }),
});

const pinnedSchema = z
  .object({
    transaction_id: z.string(),
    ...timeOrNull('from', 'start of what is kept'),
    pinned_at: dateTime('when it was pinned first').nullable(),
    nodes: z
      .array(z.string())
      .meta({ description: 'nodes whose recordings keep it; imported recordings lose nothing anyway' }),
  })
  .meta({ id: 'pinned' });

export const pinListSchema = z.object({
  pins: z.array(
    z.object({
      transaction_id: z.string(),
      ...time('from', 'start of what is kept'),
      pinned_at: dateTime('when it was pinned first'),
      node: z.string(),
    }),
  ),
});

const COVERAGE_HEADERS = {
  'Kreplay-Complete': 'NDJSON only: whether nothing is known to be missing in the window',
  'Kreplay-Lost': 'NDJSON only: events that are missing in the window, as far as they could be counted',
  'Kreplay-Recorded-Until': 'NDJSON only: recorded_until of the coverage, nanoseconds since the epoch',
};

export const EVENT_ENDPOINTS: readonly Endpoint[] = [
  {
    method: 'get',
    path: '/api/events',
    operationId: 'listEvents',
    tag: 'events',
    summary: 'Events, in order',
    description:
      'Finds events by conditions that all hold at once; without a match the list is empty. A page of JSON carries ' +
      'a cursor for the next page and the coverage of the answer, NDJSON streams the whole answer, columns do so in a ' +
      'tenth of the bytes, in order of time only, and server-sent events follow the recording live. Pages have every event that was recorded before the first page exactly ' +
      'once, except those that retention removes; events are ordered by their start, and one that is recorded ' +
      'meanwhile is returned if its place is still ahead. `cursor_mismatch` means that another parameter was ' +
      'changed between pages, `tail_limit` that no further live tail can be opened; after `busy` and ' +
      '`query_timeout` try again, or ask for less.',
    curl: '"$api/api/events?transaction_id=$transaction&min_duration_ms=0.001&order=desc"',
    query: eventQuerySchema,
    headers: z.object({
      'Last-Event-ID': z.string().optional().meta({ description: 'id of the last frame seen of a live tail' }),
    }),
    success: {
      status: 200,
      description: 'A page in JSON; all events, one per line or as columns; or events as they are recorded.',
      content: {
        'application/json': eventsSchema,
        'application/x-ndjson': 'one event per line',
        'text/event-stream': 'a live tail: frames `event`, `lost` and `end`, with `id` and `data` in JSON',
        'application/vnd.kreplay.columns':
          'lines of JSON with an array for each field of up to 4096 events, and a last line with `coverage`: see /docs/guide/',
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
    description:
      'Looks up one event by the `event_id` that a list, a stream or a replay gave, and returns all of its fields. ' +
      '`event_not_found` means that no recording that is served has this event: retention may have removed it ' +
      'since.',
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
    description:
      'Counts the events that the conditions select, and sums up their bytes and durations: in rows by time and ' +
      'group, and in total. Buckets and groups without events are left out; `coverage` says whether events are ' +
      'missing from the sums. `too_many_groups` means that there are too many rows: ask for longer buckets, fewer ' +
      'groups or a shorter time; after `busy` and `query_timeout` try again.',
    curl: '"$api/api/stats?from=-15m&bucket=1m&group_by=service,event_type"',
    query: statsQuerySchema,
    success: {
      status: 200,
      description: 'A row for each bucket and group.',
      content: { 'application/json': statsSchema },
    },
    errors: ['invalid_parameter', 'too_many_groups', 'busy', 'query_timeout'],
  },
  {
    method: 'get',
    path: '/api/transactions',
    operationId: 'listTransactions',
    tag: 'events',
    summary: 'Transactions, the latest or the slowest first',
    description:
      'Finds transactions over all recordings, and returns for each what `getTransaction` returns, with the ' +
      'coverage of the list. A transaction that does not change while you page, and that retention leaves alone, is ' +
      'returned exactly once. One that continues meanwhile may be missed by `slowest`, if it becomes slower than ' +
      'what was already listed; `recent` does not miss it, and returns it again if an event is recorded late that ' +
      'began before its first one. `cursor_mismatch` means that another parameter was changed between pages, `too_many_events` that a filter by ' +
      'other values than services and nodes needs too many events of the window; after `busy` and `query_timeout` ' +
      'try again.',
    curl: '"$api/api/transactions?sort=slowest&limit=10"',
    query: transactionsQuerySchema,
    success: { status: 200, description: 'A page.', content: { 'application/json': transactionsSchema } },
    errors: ['invalid_parameter', 'invalid_cursor', 'cursor_mismatch', 'too_many_events', 'busy', 'query_timeout'],
  },
  {
    method: 'get',
    path: '/api/transactions/{transaction_id}',
    operationId: 'getTransaction',
    tag: 'events',
    summary: 'One transaction',
    description:
      'Sums up one transaction: when it began and ended, how long its caller waited, how many events it has and how ' +
      'many failed, who took part, whether it is pinned, and whether its calls are in several bursts, as when an id is used again. `coverage` says whether events of it may be missing. ' +
      '`transaction_not_found` means that no recording that is served has an event of it.',
    curl: '"$api/api/transactions/$transaction"',
    pathParameters: transactionId,
    query: transactionQuerySchema,
    success: { status: 200, description: 'The transaction.', content: { 'application/json': wholeTransactionSchema } },
    errors: ['invalid_parameter', 'transaction_not_found'],
  },
  {
    method: 'get',
    path: '/api/transactions/{transaction_id}/summary',
    operationId: 'getTransactionSummary',
    tag: 'events',
    summary: "Where a transaction's time went",
    description:
      'Returns the slowest calls of a transaction, and its calls by file, with the sums of their durations: divided ' +
      "by the transaction's own duration, a sum is the file's share of the time that the caller waited, which is " +
      'more than all of it when threads waited at the same time. `transaction_not_found` means that no recording ' +
      'that is served has an event of it, `too_many_groups` that it wrote to too many files.',
    curl: '"$api/api/transactions/$transaction/summary?limit=5"',
    pathParameters: transactionId,
    query: summaryQuerySchema,
    success: { status: 200, description: 'The sums.', content: { 'application/json': transactionSummarySchema } },
    errors: ['invalid_parameter', 'transaction_not_found', 'too_many_groups', 'busy', 'query_timeout'],
  },
  {
    method: 'get',
    path: '/api/transactions/{transaction_id}/explain',
    operationId: 'explainTransaction',
    tag: 'events',
    summary: 'Why a transaction took its time',
    description:
      'Says in one sentence which calls took the time of a transaction, on which file, what they waited for, and who ' +
      'had requests on the same device meanwhile, with the figures behind the sentence. The page and `kreplay show` ' +
      'begin with the same sentence. What others did meanwhile is no proof that it was the cause. ' +
      '`transaction_not_found` means that no recording that is served has an event of it, `too_many_events` that it ' +
      'has too many in this time: narrow it with `from` and `to`, or ask for its summary.',
    curl: '"$api/api/transactions/$transaction/explain"',
    pathParameters: transactionId,
    query: explanationQuerySchema,
    success: { status: 200, description: 'The explanation.', content: { 'application/json': explanationSchema } },
    errors: ['invalid_parameter', 'transaction_not_found', 'too_many_events', 'busy', 'query_timeout'],
  },
  {
    method: 'post',
    path: '/api/transactions/{transaction_id}/pin',
    operationId: 'pinTransaction',
    tag: 'events',
    summary: 'Keep a transaction, whatever retention removes',
    description:
      'Protects a transaction from retention, with everything that its nodes recorded in the time before it; ' +
      'pinning it again keeps the longer time. It returns from when on events are kept, and on which nodes. ' +
      'What the transaction does later is kept too, however much it is. ' +
      '`pins_full` means that all pins together would take more than their share of a recording, ' +
      "`recording_not_writable` that the daemon's user may not write to it.",
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
    description:
      'Removes the pin of a transaction from every recording that has one; its events are then removed like others ' +
      'when they are the oldest. The answer has no content. `not_pinned` means that there is no such pin, ' +
      "`recording_not_writable` that the daemon's user may not write to the recording.",
    curl: '-X DELETE "$api/api/transactions/$transaction/pin"',
    pathParameters: transactionId,
    success: { status: 204, description: 'The transaction is not pinned any more.' },
    errors: ['invalid_parameter', 'not_pinned', 'recording_not_writable'],
  },
  {
    method: 'get',
    path: '/api/pins',
    operationId: 'listPins',
    tag: 'events',
    summary: 'Transactions that are kept',
    description:
      'Lists what is pinned, a row for each transaction and node, in the order in which it was pinned. Each row ' +
      "says from when on the node's events are kept; imported recordings lose nothing and have no pins. Without " +
      'pins the list is empty; an error of status 503 names a recording that cannot be read.',
    curl: '"$api/api/pins"',
    success: { status: 200, description: 'The oldest first.', content: { 'application/json': pinListSchema } },
    errors: ['invalid_parameter'],
  },
];
