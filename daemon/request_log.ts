import type { RequestHandler } from 'express';
import type { Logger } from 'pino';

/** The route's pattern and never the URL: what a user searches for stays out of the log. */
export function requestLog(log: Logger): RequestHandler {
  return (req, res, next) => {
    const start = process.hrtime.bigint();
    res.once('close', () => {
      const ms = Number(process.hrtime.bigint() - start) / 1e6;
      const route = req.route ? `${res.locals.mountPath ?? ''}${req.route.path}` : null;
      log.debug({ method: req.method, route, status: res.statusCode, ms, id: res.get('X-Request-Id') }, 'request');
    });
    next();
  };
}

/** For the log: Express forgets `req.baseUrl` when a handler throws. */
export function mountedAt(path: string): RequestHandler {
  return (_req, res, next) => {
    res.locals.mountPath = path;
    next();
  };
}
