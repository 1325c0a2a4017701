/**
 * The runner of jest for suites that cannot all run side by side. Suites that record run one after another, as the
 * labels of one would reach the other's agent; beside them, one at a time, those that neither record nor judge time or
 * memory; after both, with the machine to themselves, those that do. Each lane has a process of its own.
 */
import TestRunner from 'jest-runner';
import { BESIDE, JUDGING } from './kinds_of_suites.js';

const matches = (patterns, { path }) => patterns.some((pattern) => new RegExp(pattern).test(path));

function laneOf(test) {
  if (matches(JUDGING, test)) return 'judging';
  return matches(BESIDE, test) ? 'beside' : 'recording';
}

export default class Lanes extends TestRunner {
  isSerial = true;
  #beside;
  /** Runs those of `beside` in both lanes, where nothing is recorded. */
  #pairs;

  constructor(globalConfig, context) {
    super({ ...globalConfig, maxWorkers: 1 }, context);
    this.#beside = new TestRunner({ ...globalConfig, maxWorkers: 1 }, context);
    this.#pairs = new TestRunner({ ...globalConfig, maxWorkers: 2 }, context);
  }

  on(eventName, listener) {
    const runners = [this.#beside, this.#pairs];
    const removals = [super.on(eventName, listener), ...runners.map((runner) => runner.on(eventName, listener))];
    return () => removals.forEach((remove) => void remove());
  }

  async runTests(tests, watcher) {
    const options = { serial: false };
    const { recording = [], beside = [], judging = [] } = Object.groupBy(tests, laneOf);
    if (recording.length === 0) await this.#pairs.runTests(beside, watcher, options);
    else
      await Promise.all([super.runTests(recording, watcher, options), this.#beside.runTests(beside, watcher, options)]);
    await super.runTests(judging, watcher, options);
  }
}
