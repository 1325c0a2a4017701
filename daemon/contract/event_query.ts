/** `GET /api/events`: converts the URL's parameters to a scan. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { EventKey } from '../store/blocks/scanned_block.ts';
import type { EventFilter } from '../store/store.ts';
import type { SlowKey } from '../sums/slowest.ts';
import { type CoverageDetail, coverageDetail } from './coverage_schema.ts';
import { computeFingerprint, decodeCursor } from './cursor.ts';
import { buildEventFilter, CONDITION_LISTS, eventConditions } from './event_conditions.ts';
import * as parameter from './parameters.ts';
import { parseQuery, type Query } from './query_string.ts';

export const LIMIT_MAX = 10_000;
export const LIMIT_DEFAULT = 1000;

export const eventQuerySchema = z
  .strictObject({
    ...eventConditions,
    order: z
      .enum(['asc', 'desc'], { error: 'must be asc or desc' })
      .meta({ description: 'direction of the total order by (timestamp_ns, event_id); asc unless given' }),
    sort: z
      .enum(['time', 'slowest'], { error: 'must be time or slowest' })
      .meta({ description: 'slowest sorts by duration, the longest first, and excludes order; time unless given' }),
    limit: parameter.integer(1, LIMIT_MAX).meta({
      description: `maximum number of events of a page, ${LIMIT_DEFAULT} unless given; a page of 8 MiB ends earlier: next_cursor shows whether there are more`,
    }),
    cursor: parameter.text.meta({
      description: 'next_cursor of the previous page; the other parameters must stay the same',
    }),
    coverage: coverageDetail,
  })
  .partial();

export interface EventQuery {
  filter: EventFilter;
  order: 'asc' | 'desc';
  limit: number;
  /** Whether the client requested a limit: a stream without a requested limit is unlimited. */
  limited: boolean;
  after: EventKey | undefined;
  /**
   * Set if events are ordered by duration: the page begins after the event `after`, or with the slowest event if
   * `after` is undefined.
   */
  slowest: { after: SlowKey | undefined } | undefined;
  detail: CoverageDetail | undefined;
  /** The time to which relative times refer. */
  nowNs: bigint;
  fingerprint: Buffer;
}

export function parseEventQuery(query: Query, nowNs: bigint): EventQuery {
  const {
    cursor,
    order = 'asc',
    sort = 'time',
    limit,
    coverage: detail,
    ...conditions
  } = parseQuery(query, eventQuerySchema);
  if (sort === 'slowest' && 'order' in query)
    throw createParameterProblem('order', 'sort=slowest has an order of its own');
  const queryFingerprint = computeFingerprint(query, CONDITION_LISTS);
  const place = cursor === undefined ? undefined : decodeCursor(cursor, queryFingerprint);
  const queryNowNs = place?.nowNs ?? nowNs;
  return {
    filter: buildEventFilter(conditions, queryNowNs),
    order,
    limit: limit ?? LIMIT_DEFAULT,
    limited: limit !== undefined,
    after: sort === 'time' ? place?.key : undefined,
    slowest: sort === 'slowest' ? { after: place && toSlowKey(place.key) } : undefined,
    detail,
    nowNs: queryNowNs,
    fingerprint: queryFingerprint,
  };
}

/** Converts a position in the list of the slowest events to the key of a cursor: the duration replaces the time. */
export function toCursorKey({ duration_ns, timestamp_ns, event_id }: SlowKey): EventKey {
  return { timestamp_ns: duration_ns, event_id: `${timestamp_ns}/${event_id}` };
}

function toSlowKey({ timestamp_ns: duration_ns, event_id: place }: EventKey): SlowKey {
  const [timestamp, event_id] = place.split('/');
  return { duration_ns, timestamp_ns: BigInt(timestamp!), event_id: event_id! };
}

export function createParameterProblem(parameterName: string, message: string): Problem {
  return new Problem('invalid_parameter', `${parameterName}: ${message}`, [{ parameter: parameterName, message }]);
}
