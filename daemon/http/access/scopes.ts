/** Maps requests to the token scopes that permit them. */

import type { Request } from 'express';
import { SCOPES, type Scope } from '../../contract/words.ts';

/** Paths that local programs may request without a token: they say whether the daemon is alive. */
export const OPEN_ON_LOOPBACK: ReadonlySet<string> = new Set(['/healthz']);

/** Paths that are open to local programs too if the operator allows it: answers have node names, paths and counts. */
export const OPEN_METRICS: ReadonlySet<string> = new Set(['/readyz', '/metrics']);

const REPLAY = '/api/replay/';
/** Uses POST for its body, but changes nothing. */
const WHAT_IF = '/api/replay/whatif';

/** The path that tells a client what it may do; the answer contains nothing that was recorded. */
const ACCESS = '/api/access';

/** Paths that describe the API, and contain nothing that was recorded. */
function isDescription(path: string): boolean {
  return path === '/' || path === '/openapi.json' || path === '/docs' || path.startsWith('/docs/');
}

/**
 * Returns scopes of which any one permits the request. Changing something (a session, a pin) needs `replay:control`. A
 * client that may play a session or read events may also watch a session. Every token may read the API's own
 * description, and what the token itself permits.
 */
export function chooseScopes({ method, path }: Pick<Request, 'method' | 'path'>): readonly Scope[] {
  if (path === WHAT_IF) return ['events:read', 'replay:control'];
  if (method !== 'GET' && method !== 'HEAD') return ['replay:control'];
  if (isDescription(path) || path === ACCESS) return SCOPES;
  return path.startsWith(REPLAY) ? ['events:read', 'replay:control'] : ['events:read'];
}
