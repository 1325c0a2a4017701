/** All errors with which a request can fail, answered as RFC 9457 problem details. */

/** Codes are part of the API: a retired code never gets another meaning. */
export const ERRORS = {
  invalid_parameter: { status: 400, title: 'Invalid parameter' },
  invalid_body: { status: 400, title: 'Invalid body' },
  malformed_json: { status: 400, title: 'Body is not JSON' },
  malformed_request: { status: 400, title: 'Malformed request' },
  invalid_cursor: { status: 400, title: 'Invalid cursor' },
  cursor_mismatch: { status: 400, title: 'Cursor of another query' },
  too_many_groups: { status: 400, title: 'Too many buckets and groups' },
  too_many_events: { status: 400, title: 'Too many events' },
  unauthorized: { status: 401, title: 'Token needed' },
  forbidden: { status: 403, title: 'Forbidden' },
  forbidden_origin: { status: 403, title: 'Page of another site' },
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
  recording_not_writable: { status: 503, title: 'Recording cannot be written' },
  recording_unavailable: { status: 503, title: 'Recording cannot be used' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ErrorCode = keyof typeof ERRORS;

/** An error in one input: a `parameter` of the query or path, or a `pointer` (RFC 6901) into the body. */
export type InputError = ({ parameter: string } | { pointer: string }) & { message: string };

/** Builds a JSON pointer (RFC 6901). */
export function buildJsonPointer(path: readonly PropertyKey[]): string {
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

/** Returns whether the error has a code of the API: it is a Problem, or an error of a recording. */
export function hasErrorCode(error: unknown): error is Error & { code: ErrorCode } {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && Object.hasOwn(ERRORS, code);
}

export function buildProblemBody({ code, message, errors }: Problem) {
  const { status, title } = ERRORS[code];
  return { type: `urn:kreplay:error:${code}`, title, status, detail: message, code, ...(errors && { errors }) };
}
