/**
 * Suites that call the addons `columns` and `tables` in their own process, with builds of them that AddressSanitizer and
 * UndefinedBehaviorSanitizer watch: `make sanitized`.
 */
import { run, sideBySide } from '../jest.config.js';

const { testMatch: _, ...project } = sideBySide;

export default {
  ...run,
  // The sanitizers are loaded into this process, and not into workers.
  maxWorkers: 1,
  projects: [
    {
      ...project,
      testPathIgnorePatterns: [],
      testRegex: [
        '/test/bpf/schema/native_(columns|shipment)\\.test\\.ts$',
        '/test/agent/ship/group_rows\\.test\\.ts$',
        '/test/agent/recording/(codec|fuzz|scan_oracle|piece_cache)\\.test\\.ts$',
        '/test/daemon/store/(text_rows|interleaved_blocks|merged_scan)\\.test\\.ts$',
        '/test/daemon/export/(sql|sql_conditions)\\.test\\.ts$',
        '/test/daemon/sums/.*\\.test\\.ts$',
      ],
      moduleNameMapper: { '^#(columns|tables)$': '<rootDir>/build/sanitized/$1.node' },
    },
  ],
};
