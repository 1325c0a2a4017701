/** Which token opens what. */
import type { Request } from 'express';
import { SCOPES, type Scope } from './token.ts';

/** Without a token for programs on this machine: they say how the daemon is, and nothing of what was recorded. */
export const OPEN_ON_LOOPBACK: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);

const REPLAY = '/api/replay/';
/** Asked with POST for its body; it changes nothing. */
const WHAT_IF = '/api/replay/whatif';

/** What the API is, and nothing of what was recorded. */
function isDescription(path: string): boolean {
  return path === '/' || path === '/openapi.json' || path === '/docs' || path.startsWith('/docs/');
}

/**
 * Any of these opens it. What changes something (a session, a pin) needs `replay:control`. Whoever plays a session may
 * watch it, and whoever may read events may watch too. The API's own description is for every token.
 */
export function scopesFor({ method, path }: Pick<Request, 'method' | 'path'>): readonly Scope[] {
  if (path === WHAT_IF) return ['events:read', 'replay:control'];
  if (method !== 'GET' && method !== 'HEAD') return ['replay:control'];
  if (isDescription(path)) return SCOPES;
  return path.startsWith(REPLAY) ? ['events:read', 'replay:control'] : ['events:read'];
}
