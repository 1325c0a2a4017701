/**
 * Repeats a failed test once, in suites that judge how punctual calls are: another process on the machine can delay a
 * call. Suites that judge data, such as owners, losses and recordings, are never repeated: one wrong result is one too
 * many. jest prints both failures, and the last line of the run counts such tests.
 */
import { expect, jest } from '@jest/globals';

const PUNCTUAL =
  /\/test\/(native\/runner|daemon\/(cli\/player|replay|run))\/|\/test\/e2e\/(moved_work|run|slow_disk|transcripts)/;

if (PUNCTUAL.test(expect.getState().testPath)) jest.retryTimes(1, { logErrorsBeforeRetry: true });
