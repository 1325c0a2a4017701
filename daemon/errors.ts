/** Every way a request can fail, once; answered as RFC 9457 problem details. */
import type { ErrorRequestHandler, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { cut } from './cut.ts';
import { sendJson } from './json.ts';
import { requestIdOf, routeOf } from './request_log.ts';

/** Codes are part of the API: a retired one is never given another meaning. */
export const ERRORS = {
  invalid_parameter: { status: 400, title: 'Invalid parameter' },
  invalid_body: { status: 400, title: 'Invalid body' },
  malformed_json: { status: 400, title: 'Body is not JSON' },
  malformed_request: { status: 400, title: 'Malformed request' },
  invalid_cursor: { status: 400, title: 'Invalid cursor' },
  cursor_mismatch: { status: 400, title: 'Cursor of another query' },
  too_many_groups: { status: 400, title: 'Too many buckets and groups' },
  unauthorized: { status: 401, title: 'Token needed' },
  forbidden: { status: 403, title: 'Forbidden' },
  forbidden_host: { status: 403, title: 'Host is not this machine' },
  not_found: { status: 404, title: 'Not found' },
  event_not_found: { status: 404, title: 'Event not found' },
  transaction_not_found: { status: 404, title: 'Transaction not found' },
  session_not_found: { status: 404, title: 'Session not found' },
  not_pinned: { status: 404, title: 'Not pinned' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  not_acceptable: { status: 406, title: 'Not acceptable' },
  invalid_transition: { status: 409, title: 'Not possible in this state' },
  pins_full: { status: 409, title: 'No room for another pin' },
  body_too_large: { status: 413, title: 'Body too large' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
  too_many_attempts: { status: 429, title: 'Too many wrong tokens' },
  tail_limit: { status: 429, title: 'Too many live tails' },
  session_limit: { status: 429, title: 'Too many sessions' },
  replay_capacity: { status: 429, title: 'Sessions play too much together' },
  internal: { status: 500, title: 'Internal error' },
  busy: { status: 503, title: 'Too many queries at once' },
  shutting_down: { status: 503, title: 'Daemon is shutting down' },
  query_timeout: { status: 503, title: 'Query takes too long' },
  recording_missing: { status: 503, title: 'No recording yet' },
  not_a_recording: { status: 503, title: 'Not a recording' },
  unsupported_format: { status: 503, title: 'Recording of another version' },
  recording_corrupt: { status: 503, title: 'Recording is damaged' },
  recording_not_writable: { status: 503, title: 'Recording can not be written' },
  recording_unavailable: { status: 503, title: 'Recording can not be used' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ErrorCode = keyof typeof ERRORS;

const RETRY_AFTER_S = '2';
/** Other sessions end or are paused, and the next daemon has kept sessions again. */
const PASSING: ReadonlySet<ErrorCode> = new Set(['shutting_down', 'replay_capacity']);

/** What is wrong with one input: `parameter` of the query or path, `pointer` (RFC 6901) into the body. */
export type InputError = ({ parameter: string } | { pointer: string }) & { message: string };

/** RFC 6901. */
export function pointerTo(path: readonly PropertyKey[]): string {
  return path.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

export class Problem extends Error {
  readonly code: ErrorCode;
  readonly errors: readonly InputError[] | undefined;

  constructor(code: ErrorCode, detail: string, errors?: readonly InputError[]) {
    super(detail);
    this.code = code;
    this.errors = errors;
  }
}

export function problemBody({ code, message, errors }: Problem) {
  const { status, title } = ERRORS[code];
  return { type: `urn:kreplay:error:${code}`, title, status, detail: message, code, ...(errors && { errors }) };
}

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
