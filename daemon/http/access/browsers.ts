/** What no page of the web may do, tokens or not. */
import type { Request } from 'express';
import { Problem } from '../../problem.ts';

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i;

/** A target with a host of its own overrides the header (RFC 9112, 3.2.2). */
function hostOf(req: Request): string | undefined {
  return URL.parse(req.url)?.host ?? req.headers.host;
}

/** A page of any site can point its own name at 127.0.0.1 (DNS rebinding). It shows in Host, which no page can forge. */
export function isForLoopback(req: Request): boolean {
  const host = hostOf(req);
  return host !== undefined && LOOPBACK.test(host);
}

/** A page of any site can post here without reading the answer (CSRF). It shows in Origin and Sec-Fetch-Site. */
export function refuseForeignPage(req: Request, origins: ReadonlySet<string>): void {
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (origin !== undefined && origins.has(origin)) return;
  const sameOrigin = origin === undefined || origin.toLowerCase() === `${req.protocol}://${hostOf(req)?.toLowerCase()}`;
  const sameSite = site === undefined || site === 'same-origin' || site === 'none';
  if (!sameOrigin || !sameSite) throw new Problem('forbidden', 'a page of another site may not use this daemon');
}
