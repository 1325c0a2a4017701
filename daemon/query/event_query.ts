/** `GET /api/events`: from the parameters of the URL to a scan. */
import { z } from 'zod';
import { type InputError, Problem } from '../errors.ts';
import { parseQuery, type Query } from '../input.ts';
import type { EventFilter, EventKey } from '../store/store.ts';
import { decodeCursor, fingerprint } from './cursor.ts';
import * as parameter from './parameters.ts';
import { resolveTime } from './time.ts';

export const LIMIT_MAX = 10_000;
const LIMIT_DEFAULT = 1000;
const LISTS = ['event_type', 'service', 'node'];

const eventQuerySchema = z
  .strictObject({
    transaction_id: parameter.text,
    trace_id: parameter.traceId,
    service: parameter.texts,
    node: parameter.texts,
    event_type: parameter.eventTypes,
    from: parameter.time,
    to: parameter.time,
    min_duration_ms: parameter.milliseconds,
    max_duration_ms: parameter.milliseconds,
    pid: parameter.processId,
    comm: parameter.text,
    failed: parameter.boolean,
    order: z.enum(['asc', 'desc'], { error: 'must be asc or desc' }),
    limit: parameter.integer(1, LIMIT_MAX),
    cursor: parameter.text,
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
  const fromNs = given.from && resolveTime(given.from, nowNs);
  const toNs = given.to && resolveTime(given.to, nowNs);
  if (fromNs !== undefined && toNs !== undefined && fromNs > toNs) throw reversed('from', 'to', 'later than');
  const { min_duration_ms: minDurationNs, max_duration_ms: maxDurationNs } = given;
  if (minDurationNs !== undefined && maxDurationNs !== undefined && minDurationNs > maxDurationNs)
    throw reversed('min_duration_ms', 'max_duration_ms', 'longer than');
  return defined({
    transactionId: given.transaction_id,
    traceId: given.trace_id,
    services: given.service,
    nodes: given.node,
    eventTypes: given.event_type,
    fromNs,
    toNs,
    minDurationNs,
    maxDurationNs,
    pid: given.pid,
    comm: given.comm,
    failed: given.failed,
  });
}

function reversed(low: string, high: string, relation: string): Problem {
  const message = `must not be ${relation} ${high}`;
  const errors: InputError[] = [{ parameter: low, message }];
  return new Problem('invalid_parameter', `${low}: ${message}`, errors);
}

function defined<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined),
  ) as typeof values as never;
}
