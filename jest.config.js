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
  setupFilesAfterEnv: ['<rootDir>/test/punctual.js'],
  testTimeout: 60_000,
  // Of the tests in one suite that may run side by side.
  maxConcurrency: 4,
  reporters: ['default', '<rootDir>/test/closing_line.js'],
};
