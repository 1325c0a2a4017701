/**
 * Configures jest for `make test-long`: the suites with the word `long`, and again those of `make test` that repeat what
 * they draw or do (test/repeats.ts), in large numbers.
 */
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { without } from '../../jest.config.js';
import { kindsOf } from './kinds.ts';

process.env.REPEATS ??= '10';

const run = without([]);
const isLong = (suite) => kindsOf(suite).includes('long');
const textOf = (file) => readFileSync(join(run.rootDir, file), 'utf8');
const REPEATS = /\/repeats\.ts'/;
/** Helpers of suites that repeat something for them. */
const helpers = globSync('test/**/*.ts', { cwd: run.rootDir }).filter(
  (file) => !file.endsWith('.test.ts') && REPEATS.test(textOf(file)),
);
const repeats = (suite) => {
  const text = textOf(suite);
  return REPEATS.test(text) || helpers.some((file) => text.includes(`/${basename(file)}'`));
};
const suites = globSync('test/**/*.test.ts', { cwd: run.rootDir }).filter((suite) => isLong(suite) || repeats(suite));

export default {
  ...run,
  testTimeout: 3_600_000,
  reporters: ['<rootDir>/test/jest/progress.js', ...run.reporters],
  projects: run.projects.map((project) => ({ ...project, testMatch: suites.map((suite) => `<rootDir>/${suite}`) })),
};
