/**
 * The runner of jest: each suite runs in a process of its own, on Node as users have it, without a sandbox of jest. As
 * many suites run at the same time as jest has workers, and further ones while CPUs idle, as suites wait for disks,
 * clocks and servers. Of a word that allows only some suites at once (test/jest/kinds.ts), no more run; suites that judge
 * time run last, with nothing beside them.
 */
import { fork } from 'node:child_process';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createEmptyTestResult } from '@jest/test-result';
import { formatResultsErrors } from 'jest-message-util';
import { watchCpus } from './cpus.ts';
import { newQueue } from './queue.ts';

const SUITE = join(import.meta.dirname, 'suite.js');
/** Further suites, for each worker of jest. */
const FURTHER_MAX = 1;
/** A further suite starts when this share of the CPUs has idled since the last start or look, for at least LOOK_MS. */
const IDLE_SHARE = 0.3;
const LOOK_MS = 1000;
/**
 * What one suite mounts, no other one sees: a mount namespace that another made meanwhile would hold its file systems,
 * and the disks below them, for as long as it exists.
 */
const OWN_MOUNTS =
  process.getuid() === 0
    ? { execPath: 'unshare', execArgv: ['--mount', '--propagation', 'private', process.execPath, ...process.execArgv] }
    : {};

export default class Runner {
  #globalConfig;

  constructor(globalConfig) {
    this.#globalConfig = globalConfig;
  }

  async runTests(tests, watcher, onStart, onResult, onFailure) {
    const globalConfig = this.#globalConfig;
    const { maxWorkers } = globalConfig;
    // One worker, as of `-i`, means one suite at a time.
    const most = maxWorkers === 1 ? 1 : maxWorkers * (1 + FURTHER_MAX);
    const cpus = watchCpus();
    const queue = newQueue(tests);
    const running = new Map();

    async function runOne(test) {
      await onStart(test);
      const ended = await runSuite(test, globalConfig);
      if ('error' in ended) await onFailure(test, ended.error);
      else await onResult(test, resultOf(test, globalConfig, ended));
      running.delete(test);
    }

    const hasRoom = () => running.size < maxWorkers || (running.size < most && cpus.idleShare(LOOK_MS) > IDLE_SHARE);

    while (!watcher.isInterrupted()) {
      const test = hasRoom() ? queue.take([...running.keys()]) : undefined;
      if (test !== undefined) {
        running.set(test, runOne(test));
        cpus.restart();
      } else if (running.size > 0) await Promise.race([...running.values(), sleep(LOOK_MS)]);
      else break;
    }
    await Promise.all(running.values());
  }
}

/** Resolves with what the suite has sent, or with the error that kept it from that. */
function runSuite({ path, context }, { testNamePattern, testTimeout, maxConcurrency }) {
  const options = { path, rootDir: context.config.rootDir, testNamePattern, testTimeout, maxConcurrency };
  const { promise, resolve } = Promise.withResolvers();
  // What the suite leaves running is found by the variable.
  const env = { ...process.env, KREPLAY_TEST_SUITE: relative(context.config.rootDir, path) };
  const stdio = ['ignore', 'pipe', 'pipe', 'ipc'];
  const child = fork(SUITE, [JSON.stringify(options)], { env, stdio, ...OWN_MOUNTS });
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
