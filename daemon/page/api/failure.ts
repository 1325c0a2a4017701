/** Reasons why a request to the daemon failed, in words for a person. */

export interface Failure {
  /**
   * Problem code of the API, or a code of the page: `unreachable` if no answer came, `cut` or `malformed` if the answer
   * cannot be read, `signed_out` if a proxy asks the user to sign in.
   */
  code: string;
  /** HTTP status of the answer; 0 without an answer. */
  status: number;
  detail: string;
  requestId: string | null;
  /** Seconds after which a retry may succeed; null if a retry would not help. */
  retryAfter_s: number | null;
}

export class FailedRequest extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.detail);
    this.failure = failure;
  }
}

/** Failure code of an answer that ended early. */
export const CUT = 'cut';

/** Advice on what to do next, by problem code. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  ['unauthorized', 'enter a token'],
  ['forbidden', 'use a token with this scope'],
  ['forbidden_origin', 'the proxy before it must pass on Host'],
  ['forbidden_host', 'open the page as http://127.0.0.1, or ask for tokens to be set up'],
  ['too_many_attempts', 'wait, then enter a right token'],
  ['busy', 'ask again, or for less'],
  ['query_timeout', 'ask for less: a shorter window, or one service'],
  ['tail_limit', 'close another tab or a kreplay tail'],
  ['session_limit', 'delete a session that is not used, in Health'],
  ['replay_capacity', 'pause another session, or play more slowly'],
  ['transaction_not_found', 'it was never recorded, or retention has removed it'],
  ['session_not_found', 'it was deleted or has expired: play makes a new one'],
  ['invalid_body', 'choose another value, here or in the link'],
  ['invalid_parameter', 'choose another value, here or in the link'],
  ['invalid_transition', 'see the buttons for what it can do now'],
  ['event_not_found', 'retention has removed it'],
  ['recording_missing', 'start an agent: kreplay agent, or kreplay up'],
  ['unreachable', 'see whether kreplay daemon is running'],
  ['malformed', 'reload the page, which may be of another version than the daemon'],
  ['signed_out', 'sign in there: reload the page'],
  [CUT, 'if it stays so, ask for less, and see the log of the daemon'],
]);

/**
 * Statuses with which a proxy asks the user to sign in. A redirect has status 0, because `redirect: 'manual'` hides
 * its status.
 */
const SIGNED_OUT = [0, 401, 403, 407];

/** Codes of failures after which the same request may succeed. */
const PASSING = ['tail_limit', 'unreachable', CUT];

export function isPassing({ code }: Failure): boolean {
  return PASSING.includes(code);
}

/** Chooses the advice for a failure; `isRetried` says whether the page retries by itself when a retry may succeed. */
export function chooseAdvice(failure: Failure, isRetried: boolean): string | null {
  const { code, retryAfter_s } = failure;
  const advice = ADVICE.get(code) ?? null;
  if (isRetried && isPassing(failure)) return `${advice}; the page asks again by itself`;
  if (retryAfter_s === null || advice !== null) return advice;
  return `try again in ${retryAfter_s} s`;
}

/** Reads the failure that an answer of the API reports. */
export async function readFailure(response: Response): Promise<Failure> {
  const retryAfter = Number(response.headers.get('Retry-After') ?? Number.NaN);
  const { status } = response;
  const about = {
    status,
    requestId: response.headers.get('X-Request-Id'),
    retryAfter_s: Number.isFinite(retryAfter) ? retryAfter : null,
  };
  try {
    const body: unknown = await response.json();
    if (typeof body === 'object' && body !== null && 'code' in body && 'detail' in body)
      return { ...about, code: String(body.code), detail: String(body.detail) };
  } catch {
    // The answer is a proxy's own page or was cut, so only its status is known.
  }
  // A redirect to a sign-in page has status 0.
  const by = `a proxy before the daemon answers with ${status ? `status ${status}` : 'a redirect'}`;
  if (SIGNED_OUT.includes(status)) return { ...about, code: 'signed_out', detail: by };
  if (status > 501) return { ...about, code: 'unreachable', detail: by };
  return { ...about, code: 'malformed', detail: `the answer has status ${status} and cannot be read` };
}

export function createUnreachableFailure(cause: unknown): Failure {
  return createFailure(
    'unreachable',
    `the daemon does not answer (${cause instanceof Error ? cause.message : String(cause)})`,
  );
}

export function cutAnswer(): Failure {
  return createFailure(CUT, 'the answer was cut: events are missing at its end');
}

function createFailure(code: string, detail: string): Failure {
  return { code, status: 0, detail, requestId: null, retryAfter_s: 1 };
}

export function toFailure(error: unknown): Failure {
  if (error instanceof FailedRequest) return error.failure;
  return {
    ...createUnreachableFailure(error),
    code: 'malformed',
    detail: error instanceof Error ? error.message : String(error),
  };
}
