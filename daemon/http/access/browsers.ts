/** Checks that protect the daemon from web pages, with or without tokens. */
import type { Request } from 'express';
import { Problem } from '../../base/problem.ts';
import { type Asker, readHost } from './proxies.ts';

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i;

/**
 * Detects DNS rebinding: a page of any site can point its own name to 127.0.0.1, but the Host header, which no page can
 * forge, reveals that name.
 */
export function isForLoopback(req: Request): boolean {
  const host = readHost(req);
  return host !== undefined && LOOPBACK.test(host);
}

/**
 * Detects CSRF: a page of any site can post here without reading the answer, but Origin and Sec-Fetch-Site reveal the
 * page's site. Sec-Fetch-Site takes precedence: for it, the browser compares the addresses that it knows, whereas a
 * proxy may change scheme, host and port on the way. Browsers send it only over TLS or to this machine, so a page
 * behind a rebound name does not have it.
 */
export function refuseForeignPage(req: Request, { scheme, host }: Asker, origins: ReadonlySet<string>): void {
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (origin !== undefined && origins.has(origin)) return;
  if (site === 'same-origin') return;
  // Browsers also send Origin for the page's own scripts, which any page could obtain elsewhere.
  if (site === undefined && isPageRequest(req)) return;
  const sameOrigin = origin === undefined || origin.toLowerCase() === `${scheme}://${host?.toLowerCase()}`;
  if (sameOrigin && (site === undefined || site === 'none')) return;
  throw new Problem('forbidden_origin', 'a page of another site may not use this daemon');
}

/** Path of the web page's files, which are part of the daemon and contain nothing that was recorded. */
export const PAGE_FILES = '/page/';

/** Whether a browser requests the web page or one of its files; a program that requests `/` gets links instead. */
export function isPageRequest(req: Request): boolean {
  if (req.method !== 'GET' && req.method !== 'HEAD') return false;
  if (req.path.startsWith(PAGE_FILES)) return true;
  return req.path === '/' && req.accepts(['application/json', 'text/html']) === 'text/html';
}

/** Whether the request follows a link that opens a whole page, which the linking site can neither read nor frame. */
export function isFollowedLink({ headers }: Request): boolean {
  return headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
}
