/**
 * The environment of a suite: that of Node, and a meter. Results may be about 64-bit integers, which go to the parent as
 * JSON.
 */
import { TestEnvironment } from 'jest-environment-node';
import { startMeter } from './costs.js';

BigInt.prototype.toJSON ??= function () {
  return String(this);
};

export default class Environment extends TestEnvironment {
  #stopMeter;

  constructor(config, context) {
    super(config, context);
    this.#stopMeter = startMeter(context.testPath);
  }

  async teardown() {
    await super.teardown();
    this.#stopMeter();
  }
}
