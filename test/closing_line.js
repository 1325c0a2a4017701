/** A jest reporter: one plain last line that says how many tests passed, failed, were skipped, and passed when repeated. */
export default class ClosingLine {
  #repeated = 0;

  onTestResult(_test, { testResults }) {
    this.#repeated += testResults.filter(({ status, invocations }) => status === 'passed' && invocations > 1).length;
  }

  onRunComplete(_contexts, { numPassedTests, numFailedTests, numPendingTests, numRuntimeErrorTestSuites }) {
    const failed = numFailedTests + numRuntimeErrorTestSuites;
    const repeated = this.#repeated > 0 ? `, ${this.#repeated} passed when repeated` : '';
    const line = `\n${numPassedTests} passed, ${failed} failed, ${numPendingTests} skipped${repeated}\n`;
    // It follows the summary, which jest prints when all reporters are done.
    process.on('exit', () => process.stdout.write(line));
  }
}
