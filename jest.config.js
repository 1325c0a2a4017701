/** Tests run from the TypeScript sources through swc; types are checked by `tsc -b` in `make build`. */
import { join } from 'node:path';

// Tests start many commands from their sources: each is compiled once.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'build/compile_cache');

export default {
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2024', parser: { syntax: 'typescript' } }, module: { type: 'es6' } },
    ],
  },
  testEnvironment: '<rootDir>/test/environment.js',
  runner: '<rootDir>/test/side_by_side.js',
  // A process that has run many suites keeps what it has loaded for them.
  workerIdleMemoryLimit: '1GB',
  testTimeout: 60_000,
  reporters: ['default', '<rootDir>/test/closing_line.js'],
};
