/** Checks that protect the daemon from web pages, with or without tokens. */
import type { Request } from 'express';
import { Problem } from '../../base/problem.ts';
import { type Asker, readHost } from './proxies.ts';

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i;

/**
 * Whether the Host header names this machine. Any other name reveals DNS rebinding: a page of any site can point its
 * own name to 127.0.0.1, but no page can forge the Host header.
 */
export function isForLoopback(req: Request): boolean {
  const host = readHost(req);
  return host !== undefined && LOOPBACK.test(host);
}

/**
 * Refuses requests of other sites' pages (CSRF). Origin and Sec-Fetch-Site reveal the site of the page. Sec-Fetch-Site
 * takes precedence: the browser computes it from the addresses that it used, whereas a proxy may change scheme, host
 * and port. Browsers send Sec-Fetch-Site only over TLS or to this machine, so a page that uses DNS rebinding lacks it.
 */
export function refuseForeignPage(req: Request, { scheme, host }: Asker, origins: ReadonlySet<string>): void {
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (origin !== undefined && origins.has(origin)) return;
  if (site === 'same-origin') return;
  // Browsers also send Origin when they load the page's own scripts. The scripts are public, so any page may load them.
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

/**
 * Whether the request opens a whole page, for example from a link. The linking site can neither read nor frame the
 * page.
 */
export function isFollowedLink({ headers }: Request): boolean {
  return headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
}
