/** `GET /api/replay/sessions`: converts the URL's parameters to a page of the list of sessions. */
import { z } from 'zod';
import { described } from '../../bpf/schema/api.ts';
import { computeFingerprint, decodeCursor, encodeCursor } from './cursor.ts';
import * as parameter from './parameters.ts';
import { parseQuery, type Query } from './query_string.ts';

const LIMIT_MAX = 1000;

export const sessionsQuerySchema = z
  .strictObject({
    limit: described(
      parameter.integer(1, LIMIT_MAX),
      `maximum number of sessions of a page, ${LIMIT_MAX} unless given`,
    ),
    cursor: described(parameter.text, 'next_cursor of the previous page; the limit must stay the same'),
  })
  .partial();

interface SessionKey {
  session_id: string;
  /** Creation time in RFC 3339 format. */
  created_at: string;
}

export interface SessionsPage<T> {
  sessions: T[];
  next_cursor: string | null;
}

/**
 * Returns a page of sessions, the oldest first; `all` may be in any order. Sessions that are created or deleted between
 * two pages do not shift the other sessions.
 */
export function buildSessionsPage<T extends SessionKey>(query: Query, all: readonly T[]): SessionsPage<T> {
  const { cursor, limit = LIMIT_MAX } = parseQuery(query, sessionsQuerySchema);
  const queryFingerprint = computeFingerprint({ ...query, 'a list of': 'sessions' }, []);
  const after = cursor === undefined ? undefined : decodeCursor(cursor, queryFingerprint).key.event_id;
  const rest = all
    .map((session) => ({ session, place: buildSortKey(session) }))
    .filter(({ place }) => after === undefined || place > after)
    .sort((a, b) => (a.place < b.place ? -1 : 1));
  const page = rest.slice(0, limit);
  const last = rest.length > limit ? page.at(-1)!.place : undefined;
  return {
    sessions: page.map(({ session }) => session),
    next_cursor:
      last === undefined
        ? null
        : encodeCursor({ key: { timestamp_ns: 0n, event_id: last }, nowNs: 0n }, queryFingerprint),
  };
}

/** Returns a sort key: times in RFC 3339 format and UTC sort correctly as text. */
function buildSortKey({ created_at, session_id }: SessionKey): string {
  return `${created_at} ${session_id}`;
}
