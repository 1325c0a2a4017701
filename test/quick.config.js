/** Configures jest for `make check`: the suites that run side by side and are not slow. */
import { run, sideBySide } from '../jest.config.js';
import { SLOW } from './kinds_of_suites.js';

const quick = { ...sideBySide, testPathIgnorePatterns: [...sideBySide.testPathIgnorePatterns, ...SLOW] };

export default {
  ...run,
  projects: [quick],
  reporters: ['default', '<rootDir>/test/left_out.js', '<rootDir>/test/closing_line.js'],
};
