/** The process of one suite: runs its tests with jest's own functions, and sends the results to the runner. */
import { createRequire } from 'node:module';
import {
  addEventHandler,
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  getState,
  run,
  setState,
  test,
} from 'jest-circus';
import { countStarts, cpuTime } from './costs.js';
import { unmetNeeds } from './kinds.ts';

const { jestExpect } = createRequire(import.meta.url)('@jest/expect');

const { path, rootDir, testNamePattern, testTimeout, maxConcurrency } = JSON.parse(process.argv[2]);
const started = countStarts();
const startMs = Date.now();
process.chdir(rootDir);
process.env.NODE_ENV = 'test';

// Tests of needs that this machine does not meet are skipped: the last line of the run counts them.
const oneTest = unmetNeeds(path).length === 0 ? test : test.skip;
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, test: oneTest, it: oneTest });
globalThis.expect = jestExpect;
setState({
  ...getState(),
  maxConcurrency,
  testTimeout,
  testNamePattern: testNamePattern ? new RegExp(testNamePattern, 'i') : null,
});
addEventHandler(({ name, test: one }) => {
  if (name === 'test_done') one.errors.push(...jestExpect.extractExpectedAssertionsErrors().map(({ error }) => error));
});
for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, blame);

// The runner was killed.
process.on('disconnect', () => process.exit(1));

let message;
try {
  await import(path);
  const { testResults, unhandledErrors } = await run();
  message = { testResults: testResults.map(resultOf), errors: unhandledErrors, startMs, endMs: Date.now() };
} catch (error) {
  message = { error: { message: String(error), stack: error.stack ?? String(error) } };
}
process.send({ ...message, cost: { ...cpuTime(), started } }, () => process.exit());

/** An error that nothing has caught fails the test that runs, or the suite between its tests. */
function blame(error) {
  const { currentlyRunningTest, unhandledErrors } = getState();
  (currentlyRunningTest?.errors ?? unhandledErrors).push([error, new Error('caught by nothing')]);
}

function resultOf({ testPath, status, errors, duration, invocations, numPassingAsserts }) {
  const titles = testPath.slice(1);
  return {
    ancestorTitles: titles.slice(0, -1),
    title: titles.at(-1),
    fullName: titles.join(' '),
    status: errors.length > 0 ? 'failed' : ({ skip: 'pending', todo: 'todo' }[status] ?? 'passed'),
    failureMessages: errors,
    failureDetails: [],
    ...{ duration, invocations, numPassingAsserts, location: null },
  };
}
