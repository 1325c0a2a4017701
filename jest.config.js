/** Tests run from the TypeScript sources through swc; types are checked by `tsc -b` in `make build`. */
export default {
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2024', parser: { syntax: 'typescript' } }, module: { type: 'es6' } },
    ],
  },
  testTimeout: 60_000,
  reporters: ['default', '<rootDir>/test/closing_line.js'],
};
