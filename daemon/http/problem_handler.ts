/** Converts errors of requests to problem details (RFC 9457) and to lines in the log. */
import type { ErrorRequestHandler, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { buildProblemBody, ERRORS, type ErrorCode, hasErrorCode, Problem } from '../base/problem.ts';
import { abortResponse } from './abort_response.ts';
import { describeRoute, getRequestId } from './request_log.ts';
import { sendJson } from './send_json.ts';

const RETRY_AFTER_S = '2';
/**
 * Problems after which a retry makes sense. `replay_capacity` passes when another session ends or pauses, and
 * `shutting_down` when the next daemon has started, which restores kept sessions.
 */
const PASSING: ReadonlySet<ErrorCode> = new Set(['shutting_down', 'replay_capacity']);

function sendProblem(res: Response, problem: Problem): void {
  sendJson(res, ERRORS[problem.code].status, buildProblemBody(problem), 'application/problem+json');
}

/** Maps the `type` of an error of body-parser to the code of the problem. */
const BODY_READER_CODES: Record<string, ErrorCode> = {
  'entity.too.large': 'body_too_large',
  'encoding.unsupported': 'unsupported_media_type',
};

/** Converts an error to a problem; returns null for an unforeseen error. */
function toProblem(error: unknown): Problem | null {
  if (error instanceof Problem) return error;
  if (!(error instanceof Error)) return null;
  if (hasErrorCode(error)) return new Problem(error.code, error.message);
  const { type, status } = error as { type?: unknown; status?: unknown };
  if (typeof type === 'string' && BODY_READER_CODES[type]) return new Problem(BODY_READER_CODES[type], error.message);
  // Express gives each client error a 4xx status, for example for a path that cannot be decoded, or for a truncated
  // body.
  if (typeof status === 'number' && status >= 400 && status < 500)
    return new Problem('malformed_request', error.message);
  return null;
}

export function createProblemHandler(log: Logger): ErrorRequestHandler {
  return (error, req, res, _next) => {
    const problem = toProblem(error);
    const where = { method: req.method, route: describeRoute(req, res), id: getRequestId(res) };
    if (!problem) log.error({ err: error, ...where }, 'unforeseen failure');
    else if (res.headersSent) log.warn({ code: problem.code, detail: problem.message, ...where }, 'answer broke off');
    else res.locals.failure = describeFailure(problem);
    // A partial answer has already been sent; cutting the connection shows the client that it is incomplete.
    if (res.headersSent) abortResponse(res);
    else {
      if (problem && PASSING.has(problem.code)) res.set('Retry-After', RETRY_AFTER_S);
      sendProblem(res, problem ?? new Problem('internal', 'the daemon failed to answer; its log has the cause'));
    }
  };
}

/**
 * Returns details for the request's line in the log. The detail of a client error is omitted, because it may quote the
 * request.
 */
function describeFailure({ code, message }: Problem): object {
  return ERRORS[code].status >= 500 ? { code, detail: message } : { code };
}

export const notFoundHandler: RequestHandler = (req) => {
  throw new Problem('not_found', `nothing at ${req.path}`);
};

/**
 * Refuses API paths that end in a slash. If a client forms `/api/events/$id` with an empty id, Express would otherwise
 * answer with the whole list of events.
 */
export const refuseEmptyName: RequestHandler = (req, res, next) => {
  if (req.path.startsWith('/api/') && req.path.endsWith('/')) notFoundHandler(req, res, next);
  else next();
};

/**
 * Returns a handler that refuses all other methods: `router.route('/x').get(...).all(refuseOtherMethods('GET',
 * 'HEAD'))`.
 */
export function refuseOtherMethods(...allowed: string[]): RequestHandler {
  return (req, res) => {
    res.set('Allow', allowed.join(', '));
    throw new Problem('method_not_allowed', `${req.method} is not possible here; allowed: ${allowed.join(', ')}`);
  };
}
