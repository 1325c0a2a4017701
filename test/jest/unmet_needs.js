/** Skips the tests of a suite whose needs this machine does not meet: the last line of the run counts them. */
import { expect } from '@jest/globals';
import { unmetNeeds } from './kinds.js';

if (unmetNeeds(expect.getState().testPath).length > 0) {
  globalThis.test = globalThis.test.skip;
  globalThis.it = globalThis.test;
}
