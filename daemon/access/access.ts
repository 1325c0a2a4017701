/** Who may ask: programs on this machine, or whoever shows a token; and no page of the web that was not named. */
import type { RequestHandler } from 'express';
import type { BearerCheck } from './bearer.ts';
import { refuseForeignHost, refuseForeignPage } from './browsers.ts';
import { isLocalClient } from './client_address.ts';
import { allowOrigins } from './cors.ts';
import { OPEN_ON_LOOPBACK } from './scopes.ts';

export interface AccessOptions {
  /** Without it the daemon can only be reached from this machine, and asks for no token. */
  bearer?: BearerCheck;
  /** Sites whose pages may use the daemon. */
  origins?: ReadonlySet<string>;
}

export function access({ bearer, origins = new Set() }: AccessOptions): RequestHandler[] {
  const check: RequestHandler = (req, res, next) => {
    const open = OPEN_ON_LOOPBACK.has(req.path) && isLocalClient(req.socket.remoteAddress);
    // A token is nothing that a browser sends by itself: a page that comes by another name has none.
    if (!bearer || open) refuseForeignHost(req);
    refuseForeignPage(req, origins);
    if (!bearer || open) next();
    else bearer.check(req, res, next);
  };
  return [allowOrigins(origins), check];
}
