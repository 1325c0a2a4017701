/**
 * Runs the suites in processes of their own. First those whose verdict depends on how punctual calls are, one after the
 * other and alone. Then the others in two lanes, side by side: suites that record with a kernel, which would see each
 * other's work, in one, and the rest in the other.
 */
import TestRunner from 'jest-runner';

const PUNCTUAL = /\/test\/(e2e|player|replay|run|soak|native\/runner)\//;
const WITH_KERNEL = /\/test\/(fuzz|kernel|native|package)\//;

export default class SideBySide {
  supportsEventEmitters = true;
  #lanes;

  constructor(globalConfig, context) {
    this.#lanes = Array.from({ length: 2 }, () => new TestRunner({ ...globalConfig, maxWorkers: 1 }, context));
  }

  async runTests(tests, watcher, options) {
    const isAlone = tests.length === 1;
    const run = async (lane, own) =>
      own.length > 0 && this.#lanes[lane].runTests(own, watcher, { ...options, serial: isAlone });
    const punctual = tests.filter(({ path }) => PUNCTUAL.test(path));
    const others = tests.filter(({ path }) => !PUNCTUAL.test(path));
    await run(0, punctual);
    await Promise.all(
      [true, false].map((withKernel, lane) =>
        run(
          lane,
          others.filter(({ path }) => WITH_KERNEL.test(path) === withKernel),
        ),
      ),
    );
  }

  on(name, listener) {
    const stops = this.#lanes.map((lane) => lane.on(name, listener));
    return () => {
      for (const stop of stops) stop();
    };
  }
}
