/** How each request ended: for the log, and for whoever counts. */
import type { Request, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';

export interface EndedRequest {
  method: string;
  /** The route's pattern and never the URL: what a user searches for stays out of log and metrics. */
  route: string;
  /** `aborted`: the client went before its answer was whole. */
  status: string;
  /** Of the problem that it was answered with. */
  code: string | undefined;
  seconds: number;
  /** The answer goes on until someone ends it: how long it took says nothing. */
  isLive: boolean;
}

export interface RequestLogOptions {
  log: Logger;
  /** A request that takes longer is worth a line. */
  slowMs: number;
  onEnd: (request: EndedRequest) => void;
}

export function requestLog({ log, slowMs, onEnd }: RequestLogOptions): RequestHandler {
  return (req, res, next) => {
    const start = process.hrtime.bigint();
    res.once('close', () => {
      const ms = Number(process.hrtime.bigint() - start) / 1e6;
      const { method } = req;
      const route = routeOf(req, res);
      const isLive = String(res.getHeader('content-type')).startsWith('text/event-stream');
      const status = res.writableFinished ? String(res.statusCode) : 'aborted';
      onEnd({ method, route, status, code: res.locals.failure?.code, seconds: ms / 1e3, isLive });
      const line = {
        method,
        route,
        status: res.writableFinished ? res.statusCode : status,
        ms,
        id: requestIdOf(res),
        ...res.locals.failure,
      };
      if (res.statusCode >= 500) log.warn(line, 'request failed');
      else if (ms >= slowMs && !isLive) log.info(line, 'slow request');
      else log.debug(line, 'request');
    });
    next();
  };
}

export function routeOf(req: Request, res: Response): string {
  if (!req.route) return 'none';
  const { mountPath = '' } = res.locals;
  return mountPath !== '' && req.route.path === '/' ? mountPath : `${mountPath}${req.route.path}`;
}

export function requestIdOf(res: Response): string | undefined {
  return res.get('X-Request-Id');
}

/** For the log: Express forgets `req.baseUrl` when a handler throws. */
export function mountedAt(path: string): RequestHandler {
  return (_req, res, next) => {
    res.locals.mountPath = path;
    next();
  };
}
