/** The runner of jest for suites that cannot run beside another: all in the process of jest itself. */
import TestRunner from 'jest-runner';

export default class OneAfterAnother extends TestRunner {
  isSerial = true;
}
