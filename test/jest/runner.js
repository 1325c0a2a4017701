/**
 * The runner of jest: each suite runs in a process of its own, on Node as users have it, without a sandbox of jest. Two
 * suites run at the same time. Those that need root record the whole kernel, where the labels of one suite would reach
 * another's agent, so one of them runs at a time; suites that judge time run last, with nothing beside them.
 */
import { fork } from 'node:child_process';
import { join, relative } from 'node:path';
import { createEmptyTestResult } from '@jest/test-result';
import { formatResultsErrors } from 'jest-message-util';
import { kindsOf } from './kinds.ts';

const SUITE = join(import.meta.dirname, 'suite.js');

export default class Runner {
  #globalConfig;

  constructor(globalConfig) {
    this.#globalConfig = globalConfig;
  }

  async runTests(tests, watcher, onStart, onResult, onFailure) {
    const globalConfig = this.#globalConfig;
    const { recording = [], beside = [], alone = [] } = Object.groupBy(tests, laneOf);

    async function runAll(take) {
      for (let test = take(); test !== undefined && !watcher.isInterrupted(); test = take()) await runOne(test);
    }

    async function runOne(test) {
      await onStart(test);
      const ended = await runSuite(test, globalConfig);
      if ('error' in ended) await onFailure(test, ended.error);
      else await onResult(test, resultOf(test, globalConfig, ended));
    }

    await Promise.all([
      runAll(() => recording.shift() ?? beside.shift()),
      ...Array.from({ length: globalConfig.maxWorkers - 1 }, () => runAll(() => beside.shift())),
    ]);
    await runAll(() => alone.shift());
  }
}

function laneOf({ path }) {
  const kinds = kindsOf(path);
  if (kinds.includes('alone')) return 'alone';
  return kinds.includes('root') ? 'recording' : 'beside';
}

/** Resolves with what the suite has sent, or with the error that kept it from that. */
function runSuite({ path, context }, { testNamePattern, testTimeout, maxConcurrency }) {
  const options = { path, rootDir: context.config.rootDir, testNamePattern, testTimeout, maxConcurrency };
  const { promise, resolve } = Promise.withResolvers();
  // What the suite leaves running is found by the variable.
  const env = { ...process.env, KREPLAY_TEST_SUITE: relative(context.config.rootDir, path) };
  const child = fork(SUITE, [JSON.stringify(options)], { env, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  let [sent, output] = [undefined, ''];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  child.on('message', (message) => {
    sent = message;
  });
  child.on('error', (error) => resolve({ error }));
  // A process that the suite has left running may keep its output open, so `close` may never come.
  child.on('exit', (code, signal) => {
    setImmediate(() => {
      if (output !== '') process.stderr.write(`output of ${path}:\n${output.replace(/\n*$/, '\n')}`);
      resolve(sent ?? { error: plainError(`the process of the suite ended with ${signal ?? code}\n${output}`) });
    });
  });
  return promise;
}

/** What jest prints of a suite that did not run. */
const plainError = (message) => ({ message, stack: message });

function resultOf({ path, context }, globalConfig, { testResults, errors, startMs, endMs, cost }) {
  const count = (status) => testResults.filter((result) => result.status === status).length;
  const unhandled = errors.length > 0 ? { testExecError: plainError(errors.join('\n\n')) } : {};
  const messages = [formatResultsErrors(testResults, context.config, globalConfig, path), ...errors];
  return {
    ...createEmptyTestResult(),
    ...unhandled,
    testFilePath: path,
    testResults,
    cost,
    failureMessage: messages.filter(Boolean).join('\n\n') || null,
    numPassingTests: count('passed'),
    numFailingTests: count('failed'),
    numPendingTests: count('pending'),
    numTodoTests: count('todo'),
    perfStats: { start: startMs, end: endMs, runtime: endMs - startMs, slow: false },
  };
}
