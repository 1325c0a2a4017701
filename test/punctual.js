/**
 * Repeats a failed test once, in suites whose verdict depends on how punctual calls are, or on events that a busy kernel
 * loses: another process on the machine can delay a call, hardly twice. Tests of owners are not repeated, as one wrong
 * owner is one too many. jest prints both failures, and the last line of the run counts such tests.
 */
import { expect, jest } from '@jest/globals';

const PUNCTUAL =
  /\/test\/(daemon|e2e|export|kernel\/(?!truth|http|origins)|native\/runner\/|player|recording|replay|run\/|soak)/;

if (PUNCTUAL.test(expect.getState().testPath)) jest.retryTimes(1, { logErrorsBeforeRetry: true });
