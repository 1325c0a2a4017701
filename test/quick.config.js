/**
 * Configures jest for `make check`: the suites that run side by side, are not slow, and need no program that the build
 * does not need.
 */
import { run, sideBySide } from '../jest.config.js';
import { INSTALLED, SLOW } from './kinds_of_suites.js';

const { testPathIgnorePatterns } = sideBySide;
const quick = { ...sideBySide, testPathIgnorePatterns: [...testPathIgnorePatterns, ...INSTALLED, ...SLOW] };

export default {
  ...run,
  projects: [quick],
  reporters: ['default', '<rootDir>/test/left_out.js', '<rootDir>/test/closing_line.js'],
};
