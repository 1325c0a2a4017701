/** A jest reporter: one plain last line that says how many tests passed, failed and were skipped. */
export default class ClosingLine {
  onRunComplete(_contexts, { numPassedTests, numFailedTests, numPendingTests, numRuntimeErrorTestSuites }) {
    const failed = numFailedTests + numRuntimeErrorTestSuites;
    const line = `\n${numPassedTests} passed, ${failed} failed, ${numPendingTests} skipped\n`;
    // It follows the summary, which jest prints when all reporters are done.
    process.on('exit', () => process.stdout.write(line));
  }
}
