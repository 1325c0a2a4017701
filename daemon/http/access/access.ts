/**
 * Access control: local clients need no token, remote clients need one, and browser pages must come from an allowed
 * origin.
 */
import type { Request, RequestHandler } from 'express';
import { Problem } from '../../base/problem.ts';
import type { BearerCheck } from './bearer.ts';
import { isFollowedLink, isForLoopback, isPageRequest, refuseForeignPage } from './browsers.ts';
import { isLocalClient } from './client_address.ts';
import { allowOrigins } from './cors.ts';
import { createProxies, isPassedOn, type Proxies } from './proxies.ts';
import { OPEN_METRICS, OPEN_ON_LOOPBACK } from './scopes.ts';

export interface AccessOptions {
  /** Checks tokens. If omitted, the daemon can only be reached from this machine and requires no token. */
  bearer?: BearerCheck;
  /** Sites whose pages may use the daemon. */
  origins?: ReadonlySet<string>;
  /** Proxies whose headers about their clients (`X-Forwarded-For` and others) are trusted; none if omitted. */
  proxies?: Proxies;
  /** Whether programs on this machine may read the metrics without a token. */
  openMetrics?: boolean;
}

export function createAccessHandlers(options: AccessOptions): RequestHandler[] {
  const { bearer, origins = new Set(), proxies = createProxies(), openMetrics = false } = options;
  // A local client may be a proxy that forwards requests of other machines, so forwarded requests for metrics need a
  // token. A proxy that leaves no sign is not detected, so metrics are open only if the operator allows it.
  const isOpenHere = (req: Request) => {
    const isOpen = OPEN_ON_LOOPBACK.has(req.path) || (openMetrics && OPEN_METRICS.has(req.path) && !isPassedOn(req));
    return isOpen && isLocalClient(req.socket.remoteAddress);
  };
  const check: RequestHandler = (req, res, next) => {
    // With several Host headers, an intermediary might use a different one than the daemon (RFC 9112, 3.2).
    if (req.headersDistinct.host?.length !== undefined && req.headersDistinct.host.length > 1)
      throw new Problem('malformed_request', 'Host is given twice');
    const isPage = isPageRequest(req);
    if (!isPage || !isFollowedLink(req)) refuseForeignPage(req, proxies.findAsker(req), origins);
    const forLoopback = isForLoopback(req);
    if (!bearer && !forLoopback)
      throw new Problem('forbidden_host', 'Host is not a loopback name: use 127.0.0.1, [::1] or localhost');
    // With tokens, any Host is accepted: a page that uses DNS rebinding has no token, because browsers never add one.
    if (!bearer || isPage || (forLoopback && isOpenHere(req))) next();
    else bearer.check(req, res, next);
  };
  return [allowOrigins(origins), check];
}
