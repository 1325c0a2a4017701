/**
 * `GET /api/events` as a live tail: takes the filters of a query, but not the parameters that make sense only for an
 * answer that ends.
 */
import { Problem } from '../base/problem.ts';
import type { EventFilter } from '../store/store.ts';
import { buildEventFilter } from './event_conditions.ts';
import { eventQuerySchema } from './event_query.ts';
import { parseQuery, type Query } from './query_string.ts';

const WITHOUT = { to: true, order: true, sort: true, limit: true, cursor: true } as const;

export const tailQuerySchema = eventQuerySchema.omit(WITHOUT);

export interface TailQuery {
  /** The filter, which contains no times. */
  filter: EventFilter;
  /** Start of the tail; undefined for a tail that begins with events recorded after the request. */
  fromNs: bigint | undefined;
}

export function parseTailQuery(query: Query, nowNs: bigint): TailQuery {
  const message = 'a live tail has no end, no other order and no pages';
  const senseless = Object.keys(WITHOUT).filter((name) => name in query);
  if (senseless.length > 0) {
    const errors = senseless.map((parameter) => ({ parameter, message }));
    throw new Problem('invalid_parameter', `${senseless.join(', ')}: ${message}`, errors);
  }
  const { fromNs, ...filter } = buildEventFilter(parseQuery(query, tailQuerySchema), nowNs);
  return { filter, fromNs };
}
