/**
 * Tests run from the TypeScript sources through swc; types are checked by `tsc -b` in `make build`. Suites that
 * share nothing run side by side; the others run in lanes, as they share the kernel or judge time and memory.
 */
import { join } from 'node:path';
import { HEAVY, NEEDY } from './test/kinds_of_suites.js';

// Tests start many commands from their sources: each is compiled once.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'build/compile_cache');

const project = {
  rootDir: import.meta.dirname,
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2024', parser: { syntax: 'typescript' } }, module: { type: 'es6' } },
    ],
  },
  testEnvironment: '<rootDir>/test/environment.js',
  setupFilesAfterEnv: ['<rootDir>/test/punctual.js'],
};

export const sideBySide = {
  ...project,
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  testPathIgnorePatterns: [...NEEDY, ...HEAVY],
};

const inLanes = {
  ...project,
  testRegex: [...NEEDY, ...HEAVY].map((pattern) => `/${pattern}.*(?<=[.]test)[.]ts$`),
  runner: '<rootDir>/test/lanes.js',
};

export const run = {
  rootDir: import.meta.dirname,
  maxWorkers: 2,
  // Number of tests of one suite that may run side by side, where it allows that.
  maxConcurrency: 4,
  // On a machine that is twice as slow as those that they were written on, the longest take more than a minute.
  testTimeout: 120_000,
  reporters: ['default', '<rootDir>/test/closing_line.js'],
};

export default { ...run, projects: [sideBySide, inLanes] };
