/** Maps requests to the token scopes that permit them. */

import type { Request } from 'express';
import { SCOPES, type Scope } from '../../contract/words.ts';

/** Paths that local programs may request without a token. Their answers only say whether the daemon is alive. */
export const OPEN_ON_LOOPBACK: ReadonlySet<string> = new Set(['/healthz']);

/**
 * Paths that are also open to local programs if the operator allows it. Their answers contain node names, paths and
 * counts.
 */
export const OPEN_METRICS: ReadonlySet<string> = new Set(['/readyz', '/metrics']);

const REPLAY = '/api/replay/';
/** Path of what-if queries. They use POST because they have a body, but they change nothing. */
const WHAT_IF = '/api/replay/whatif';

/** Path whose answer lists what a client's token permits. The answer contains nothing that was recorded. */
const ACCESS = '/api/access';

/** Whether the path leads to a description of the API, which contains nothing that was recorded. */
function isDescription(path: string): boolean {
  return path === '/' || path === '/openapi.json' || path === '/docs' || path.startsWith('/docs/');
}

/**
 * Returns the scopes that permit the request; any one of them is enough. Changing something (a session, a pin) requires
 * `replay:control`. A client that may play a session or read events may also watch a session. Every token may read the
 * API's description and the list of what the token permits.
 */
export function chooseScopes({ method, path }: Pick<Request, 'method' | 'path'>): readonly Scope[] {
  if (path === WHAT_IF) return ['events:read', 'replay:control'];
  if (method !== 'GET' && method !== 'HEAD') return ['replay:control'];
  if (isDescription(path) || path === ACCESS) return SCOPES;
  return path.startsWith(REPLAY) ? ['events:read', 'replay:control'] : ['events:read'];
}
