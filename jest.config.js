/**
 * Configures jest for `make test`. Tests run from the TypeScript sources; `tsc -p test` checks types. The name of a suite
 * says what it needs and what may run beside it: test/jest/kinds.ts.
 */
import { join } from 'node:path';

// Tests start many commands from their sources: each is compiled once.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'build/compile_cache');

export const project = {
  rootDir: import.meta.dirname,
  runner: '<rootDir>/test/jest/runner.js',
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  // Suites are loaded by Node, which knows how.
  transform: {},
};

/** A run of all suites but those that have one of these words in their names. */
export function without(kinds) {
  return {
    rootDir: import.meta.dirname,
    maxWorkers: 2,
    // Number of tests of one suite that may run side by side, where it allows that.
    maxConcurrency: 4,
    // On a machine that is twice as slow as those that they were written on, the longest take more than a minute.
    testTimeout: 120_000,
    reporters: ['default', '<rootDir>/test/jest/costs.js', ['<rootDir>/test/jest/closing_line.js', { leftOut: kinds }]],
    projects: [{ ...project, testPathIgnorePatterns: kinds.map((kind) => `\\.${kind}\\.`) }],
  };
}

export default without(['long']);
