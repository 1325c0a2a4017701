/** Which token opens what. */
import type { Request } from 'express';
import type { Scope } from './token.ts';

/** Without a token for programs on this machine: they say how the daemon is, and nothing of what was recorded. */
export const OPEN_ON_LOOPBACK: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);

const REPLAY = '/api/replay/';

/**
 * Any of these opens it. What changes something (a session, a pin) needs `replay:control`. Whoever plays a session may
 * watch it, and whoever may read events may watch too.
 */
export function scopesFor({ method, path }: Pick<Request, 'method' | 'path'>): readonly Scope[] {
  if (method !== 'GET' && method !== 'HEAD') return ['replay:control'];
  return path.startsWith(REPLAY) ? ['events:read', 'replay:control'] : ['events:read'];
}
