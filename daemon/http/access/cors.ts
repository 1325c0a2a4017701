/** CORS: pages of other sites may use the daemon only if the user has listed their origins. */
import type { RequestHandler } from 'express';

/**
 * Lifetime of a preflight's answer: long enough that a page does not send a preflight before each request, and short
 * enough that removing an origin soon takes effect.
 */
const PREFLIGHT_AGE_S = 600;
const METHODS = 'GET, HEAD, POST, PATCH, DELETE';
const REQUEST_HEADERS = 'Authorization, Content-Type, Last-Event-ID, X-Request-Id';
const RESPONSE_HEADERS =
  'Kreplay-Complete, Kreplay-Lost, Kreplay-Recorded-Until, Location, Retry-After, WWW-Authenticate, X-Request-Id';

/** Whether the text has the exact form that a browser sends: `https://grafana.example`, with no path and no `*`. */
export function isOrigin(text: string): boolean {
  const url = URL.parse(text);
  return (url?.protocol === 'http:' || url?.protocol === 'https:') && url.origin === text;
}

export function allowOrigins(origins: ReadonlySet<string>): RequestHandler {
  return (req, res, next) => {
    if (origins.size === 0) return next();
    // `Vary` is also set on refusals: a cache must not serve one page's answer to another.
    res.vary('Origin');
    const { origin } = req.headers;
    if (origin === undefined || !origins.has(origin)) return next();
    res.set('Access-Control-Allow-Origin', origin);
    res.set('Access-Control-Expose-Headers', RESPONSE_HEADERS);
    if (req.method !== 'OPTIONS' || req.headers['access-control-request-method'] === undefined) return next();
    res.set('Access-Control-Allow-Methods', METHODS);
    res.set('Access-Control-Allow-Headers', REQUEST_HEADERS);
    res.set('Access-Control-Max-Age', String(PREFLIGHT_AGE_S));
    res.status(204).end();
  };
}
