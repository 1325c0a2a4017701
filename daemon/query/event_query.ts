/** `GET /api/events`: from the parameters of the URL to a scan. */
import { z } from 'zod';
import { parseQuery, type Query } from '../input.ts';
import type { EventFilter, EventKey } from '../store/store.ts';
import { decodeCursor, fingerprint } from './cursor.ts';
import { defined } from './defined.ts';
import * as parameter from './parameters.ts';
import { resolveWindow, reversed } from './window.ts';

export const LIMIT_MAX = 10_000;
const LIMIT_DEFAULT = 1000;
const LISTS = ['event_type', 'service', 'node'];

const about = <Schema extends z.ZodType>(schema: Schema, description: string) => schema.meta({ description });

export const eventQuerySchema = z
  .strictObject({
    transaction_id: about(parameter.text, 'events of one transaction'),
    trace_id: about(parameter.traceId, 'W3C trace id, in any case'),
    service: about(parameter.texts, 'services, one or several'),
    node: about(parameter.texts, 'hosts that recorded it, one or several'),
    event_type: about(parameter.eventTypes, 'types of event, one or several'),
    from: about(parameter.time, 'start of the window, on `timestamp_ns`; itself in it'),
    to: about(parameter.time, 'end of the window; itself not in it'),
    min_duration_ms: about(parameter.milliseconds, 'shortest duration, inclusive: `0.05` is 50 us'),
    max_duration_ms: about(parameter.milliseconds, 'longest duration, inclusive'),
    pid: about(parameter.processId, 'process id'),
    comm: about(parameter.text, 'command name of the thread'),
    failed: about(parameter.boolean, '`true`: results below 0; `false`: all others'),
    order: about(
      z.enum(['asc', 'desc'], { error: 'must be asc or desc' }),
      'on `(timestamp_ns, event_id)`, a total order; `asc` unless given',
    ),
    limit: about(parameter.integer(1, LIMIT_MAX), `events of a page; ${LIMIT_DEFAULT} unless given`),
    cursor: about(parameter.text, '`next_cursor` of the page before, with all other parameters as they were'),
  })
  .partial();

export interface EventQuery {
  filter: EventFilter;
  order: 'asc' | 'desc';
  limit: number;
  /** Whether the client asked for a limit: a stream has none of its own. */
  limited: boolean;
  after: EventKey | undefined;
  /** What relative times are relative to. */
  nowNs: bigint;
  fingerprint: Buffer;
}

export function parseEventQuery(query: Query, nowNs: bigint): EventQuery {
  const { cursor, order = 'asc', limit, ...conditions } = parseQuery(query, eventQuerySchema);
  const queryFingerprint = fingerprint(query, LISTS);
  const place = cursor === undefined ? undefined : decodeCursor(cursor, queryFingerprint);
  const queryNowNs = place?.nowNs ?? nowNs;
  return {
    filter: filterOf(conditions, queryNowNs),
    order,
    limit: limit ?? LIMIT_DEFAULT,
    limited: limit !== undefined,
    after: place?.key,
    nowNs: queryNowNs,
    fingerprint: queryFingerprint,
  };
}

type Conditions = Omit<z.output<typeof eventQuerySchema>, 'cursor' | 'order' | 'limit'>;

function filterOf(given: Conditions, nowNs: bigint): EventFilter {
  const { min_duration_ms: minDurationNs, max_duration_ms: maxDurationNs } = given;
  if (minDurationNs !== undefined && maxDurationNs !== undefined && minDurationNs > maxDurationNs)
    throw reversed('min_duration_ms', 'max_duration_ms', 'longer than');
  return defined({
    transactionId: given.transaction_id,
    traceId: given.trace_id,
    services: given.service,
    nodes: given.node,
    eventTypes: given.event_type,
    ...resolveWindow(given, nowNs),
    minDurationNs,
    maxDurationNs,
    pid: given.pid,
    comm: given.comm,
    failed: given.failed,
  });
}
