/** Errors of requests become problem details (RFC 9457), and lines of the log. */
import type { ErrorRequestHandler, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { ERRORS, type ErrorCode, Problem, problemBody } from '../problem.ts';
import { cut } from './cut.ts';
import { requestIdOf, routeOf } from './request_log.ts';
import { sendJson } from './send_json.ts';

const RETRY_AFTER_S = '2';
/** Other sessions end or are paused, and the next daemon has kept sessions again. */
const PASSING: ReadonlySet<ErrorCode> = new Set(['shutting_down', 'replay_capacity']);

function sendProblem(res: Response, problem: Problem): void {
  sendJson(res, ERRORS[problem.code].status, problemBody(problem), 'application/problem+json');
}

function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(ERRORS, code);
}

/** The body reader's errors carry a `type`; a recording's carry one of our codes. */
const BODY_READER_CODES: Record<string, ErrorCode> = {
  'entity.too.large': 'body_too_large',
  'encoding.unsupported': 'unsupported_media_type',
};

/** Null for an error that nobody foresaw. */
function problemOf(error: unknown): Problem | null {
  if (error instanceof Problem) return error;
  if (!(error instanceof Error)) return null;
  const { type, status, code } = error as { type?: unknown; status?: unknown; code?: unknown };
  if (isErrorCode(code)) return new Problem(code, error.message);
  if (typeof type === 'string' && BODY_READER_CODES[type]) return new Problem(BODY_READER_CODES[type], error.message);
  // Express marks what is the client's fault: a path that does not decode, a body cut short or badly compressed.
  if (typeof status === 'number' && status >= 400 && status < 500)
    return new Problem('malformed_request', error.message);
  return null;
}

export function problemHandler(log: Logger): ErrorRequestHandler {
  return (error, req, res, _next) => {
    const problem = problemOf(error);
    const where = { method: req.method, route: routeOf(req, res), id: requestIdOf(res) };
    if (!problem) log.error({ err: error, ...where }, 'unforeseen failure');
    else if (res.headersSent) log.warn({ code: problem.code, detail: problem.message, ...where }, 'answer broke off');
    else res.locals.failure = failureOf(problem);
    // Half an answer can't become another one: cutting the connection tells the client that it is not whole.
    if (res.headersSent) cut(res);
    else {
      if (problem && PASSING.has(problem.code)) res.set('Retry-After', RETRY_AFTER_S);
      sendProblem(res, problem ?? new Problem('internal', 'the daemon failed to answer; its log says more'));
    }
  };
}

/** For the request's line in the log. What a client did wrong is its own business: the detail may quote it. */
function failureOf({ code, message }: Problem): object {
  return ERRORS[code].status >= 500 ? { code, detail: message } : { code };
}

export const notFoundHandler: RequestHandler = (req) => {
  throw new Problem('not_found', `nothing at ${req.path}`);
};

/** What is left of `/api/events/$id` when the name is empty: the list would be the wider answer. */
export const refuseEmptyName: RequestHandler = (req, res, next) => {
  if (req.path.startsWith('/api/') && req.path.endsWith('/')) notFoundHandler(req, res, next);
  else next();
};

/** Closes a route: `router.route('/x').get(...).all(methodNotAllowed('GET', 'HEAD'))`. */
export function methodNotAllowed(...allowed: string[]): RequestHandler {
  return (req, res) => {
    res.set('Allow', allowed.join(', '));
    throw new Problem('method_not_allowed', `${req.method} is not possible here; allowed: ${allowed.join(', ')}`);
  };
}
