/**
 * Runs the suites in two lanes, side by side and each in a process of its own: those that record with a kernel, which
 * would see each other's work, in one, and all others in the other.
 */
import TestRunner from 'jest-runner';

const WITH_KERNEL = /\/test\/(e2e|fuzz|kernel|native|package|soak)\//;

export default class SideBySide {
  supportsEventEmitters = true;
  #lanes;

  constructor(globalConfig, context) {
    this.#lanes = [true, false].map((withKernel) => ({
      withKernel,
      runner: new TestRunner({ ...globalConfig, maxWorkers: 1 }, context),
    }));
  }

  async runTests(tests, watcher, options) {
    const isAlone = tests.length === 1;
    const work = this.#lanes.map(({ withKernel, runner }) => {
      const own = tests.filter(({ path }) => WITH_KERNEL.test(path) === withKernel);
      return own.length > 0 && runner.runTests(own, watcher, { ...options, serial: isAlone });
    });
    await Promise.all(work);
  }

  on(name, listener) {
    const stops = this.#lanes.map(({ runner }) => runner.on(name, listener));
    return () => {
      for (const stop of stops) stop();
    };
  }
}
