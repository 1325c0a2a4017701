/** Gives each request an id, and reports the end of each request to the log and the metrics. */
import { randomUUID } from 'node:crypto';
import type { Request, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';

/** Ids that a caller may choose. They are restricted because they appear in the log. */
const ACCEPTABLE_ID = /^[\w.-]{1,64}$/;

export const requestId: RequestHandler = (req, res, next) => {
  const given = req.get('X-Request-Id');
  res.set('X-Request-Id', given !== undefined && ACCEPTABLE_ID.test(given) ? given : randomUUID());
  next();
};

export interface EndedRequest {
  method: string;
  /** The route's pattern, never the URL: search terms of users must not appear in the log or the metrics. */
  route: string;
  /** `aborted` means that the client disconnected before the answer was complete. */
  status: string;
  /** Code of the problem with which the request was answered. */
  code: string | undefined;
  seconds: number;
  /** Whether the answer is a live stream. The duration of a live stream says nothing about the daemon's speed. */
  isLive: boolean;
}

export interface RequestLogOptions {
  log: Logger;
  /** Minimum duration in milliseconds of a request that is logged as slow. */
  slowMs: number;
  onEnd: (request: EndedRequest) => void;
}

export function requestLog({ log, slowMs, onEnd }: RequestLogOptions): RequestHandler {
  return (req, res, next) => {
    const start = process.hrtime.bigint();
    res.once('close', () => {
      const ms = Number(process.hrtime.bigint() - start) / 1e6;
      const { method } = req;
      const route = describeRoute(req, res);
      const isLive = String(res.getHeader('content-type')).startsWith('text/event-stream');
      const status = res.writableFinished ? String(res.statusCode) : 'aborted';
      onEnd({ method, route, status, code: res.locals.failure?.code, seconds: ms / 1e3, isLive });
      const line = {
        method,
        route,
        status: res.writableFinished ? res.statusCode : status,
        ms,
        id: getRequestId(res),
        ...res.locals.failure,
      };
      if (res.statusCode >= 500) log.warn(line, 'request failed');
      else if (ms >= slowMs && !isLive) log.info(line, 'slow request');
      else log.debug(line, 'request');
    });
    next();
  };
}

export function describeRoute(req: Request, res: Response): string {
  if (!req.route) return 'none';
  const { mountPath = '' } = res.locals;
  return mountPath !== '' && req.route.path === '/' ? mountPath : `${mountPath}${req.route.path}`;
}

export function getRequestId(res: Response): string | undefined {
  return res.get('X-Request-Id');
}

/** Keeps the mount path for the log, because Express resets `req.baseUrl` when a handler throws. */
export function createMountHandler(path: string): RequestHandler {
  return (_req, res, next) => {
    res.locals.mountPath = path;
    next();
  };
}
