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

/** Every second suite: jest orders them from the slowest on, as they were the last time. */
const halves = (tests) => [tests.filter((_, i) => i % 2 === 0), tests.filter((_, i) => i % 2 === 1)];

export default class Lanes extends TestRunner {
  isSerial = true;
  #beside;

  constructor(globalConfig, context) {
    super({ ...globalConfig, maxWorkers: 1 }, context);
    this.#beside = new TestRunner({ ...globalConfig, maxWorkers: 1 }, context);
  }

  on(eventName, listener) {
    const removals = [super.on(eventName, listener), this.#beside.on(eventName, listener)];
    return () => removals.forEach((remove) => void remove());
  }

  async runTests(tests, watcher) {
    const options = { serial: false };
    const { recording = [], beside = [], judging = [] } = Object.groupBy(tests, laneOf);
    // Where nothing is recorded, those that would run beside it take both lanes.
    const [first, second] = recording.length > 0 ? [recording, beside] : halves(beside);
    await Promise.all([super.runTests(first, watcher, options), this.#beside.runTests(second, watcher, options)]);
    await super.runTests(judging, watcher, options);
  }
}
