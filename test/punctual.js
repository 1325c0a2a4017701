/**
 * Repeats a failed test once, in suites whose verdict depends on how punctual calls are: another process on the machine
 * can delay a call, hardly twice. jest prints both failures, and the last line of the run counts such tests.
 */
import { expect, jest } from '@jest/globals';

const PUNCTUAL = /\/test\/(daemon|e2e|native\/runner|player|replay|run|soak)\//;

if (PUNCTUAL.test(expect.getState().testPath)) jest.retryTimes(1, { logErrorsBeforeRetry: true });
