/** Checks that protect the daemon from web pages, with or without tokens. */
import type { Request } from 'express';
import { Problem } from '../../problem.ts';

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i;

/** An absolute-form request target overrides the Host header (RFC 9112, 3.2.2). */
function hostOf(req: Request): string | undefined {
  return URL.parse(req.url)?.host ?? req.headers.host;
}

/**
 * Detects DNS rebinding: a page of any site can point its own name at 127.0.0.1, but Host, which no page can forge,
 * shows it.
 */
export function isForLoopback(req: Request): boolean {
  const host = hostOf(req);
  return host !== undefined && LOOPBACK.test(host);
}

/** Detects CSRF: a page of any site can post here without reading the answer, but Origin and Sec-Fetch-Site show it. */
export function refuseForeignPage(req: Request, origins: ReadonlySet<string>): void {
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (origin !== undefined && origins.has(origin)) return;
  const sameOrigin = origin === undefined || origin.toLowerCase() === `${req.protocol}://${hostOf(req)?.toLowerCase()}`;
  const sameSite = site === undefined || site === 'same-origin' || site === 'none';
  if (!sameOrigin || !sameSite) throw new Problem('forbidden', 'a page of another site may not use this daemon');
}
