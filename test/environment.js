/** The environment of Node, in a process whose results may be about 64-bit integers: they go to the parent as JSON. */
import { TestEnvironment } from 'jest-environment-node';

BigInt.prototype.toJSON ??= function () {
  return String(this);
};

export default TestEnvironment;
