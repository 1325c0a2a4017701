/** A jest reporter: it says what did not run and why, and ends with one plain line that counts the tests. */
import { globSync } from 'node:fs';
import { KINDS, kindsOf, unmetNeeds } from './kinds.ts';

export default class ClosingLine {
  #leftOut;

  /** `leftOut` are the kinds of suites that the run does not include. */
  constructor(_globalConfig, { leftOut }) {
    this.#leftOut = leftOut;
  }

  onRunComplete(_contexts, { testResults, ...counts }) {
    const skipped = Map.groupBy(
      testResults.filter(({ testFilePath }) => unmetNeeds(testFilePath).length > 0),
      ({ testFilePath }) => unmetNeeds(testFilePath).join(' and '),
    );
    const lines = [...skipped].map(([needs, suites]) => `skipped: ${suites.length} suites that need ${needs}`);
    const suites = globSync('test/**/*.test.ts');
    const others = suites.filter((suite) => kindsOf(suite).some((kind) => this.#leftOut.includes(kind)));
    const words = [...this.#leftOut].map(
      (kind) => `${others.filter((suite) => kindsOf(suite).includes(kind)).length} ${kind}`,
    );
    if (others.length > 0)
      lines.push(
        `left out: ${others.length} of ${suites.length} suites (${words.join(', ')}); ${commandsOf(this.#leftOut)}`,
      );
    const failed = counts.numFailedTests + counts.numRuntimeErrorTestSuites;
    lines.push(`${counts.numPassedTests} passed, ${failed} failed, ${counts.numPendingTests} skipped`);
    // The lines follow the summary, which jest prints when all reporters are done.
    process.on('exit', () => process.stdout.write(`\n${lines.join('\n')}\n`));
  }
}

const commandsOf = (kinds) =>
  kinds.length === Object.keys(KINDS).length ? 'make test and make test-long run them' : 'make test-long runs them';
