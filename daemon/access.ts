/** Who may talk to a daemon that asks for no token: programs on this machine, and no page of the web. */
import type { RequestHandler } from 'express';
import { Problem } from './errors.ts';

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i;

/**
 * A page of any site can point its own name at 127.0.0.1 (DNS rebinding) or post here without reading the answer (CSRF).
 * The first shows in Host, the second in Origin and Sec-Fetch-Site, and no page can forge these.
 */
export const localOnly: RequestHandler = (req, _res, next) => {
  const { origin, 'sec-fetch-site': site } = req.headers;
  // A target with a host of its own overrides the header (RFC 9112, 3.2.2).
  const host = URL.parse(req.url)?.host ?? req.headers.host;
  if (host === undefined || !LOOPBACK.test(host))
    throw new Problem('forbidden_host', 'Host is not a loopback name: use 127.0.0.1, [::1] or localhost');
  const sameOrigin = origin === undefined || origin.toLowerCase() === `http://${host.toLowerCase()}`;
  const sameSite = site === undefined || site === 'same-origin' || site === 'none';
  if (!sameOrigin || !sameSite) throw new Problem('forbidden', 'a page of another site may not use this daemon');
  next();
};
