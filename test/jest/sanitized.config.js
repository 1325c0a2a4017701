/**
 * Suites that call the addons `columns` and `tables` in their own process, with builds of them that AddressSanitizer and
 * UndefinedBehaviorSanitizer watch: `make sanitized`.
 */
import { project, without } from '../../jest.config.js';

const { testMatch: _, runner: __, ...one } = project;

export default {
  ...without([]),
  // The sanitizers are loaded into this process, and not into workers.
  maxWorkers: 1,
  projects: [
    {
      ...one,
      testRegex: [
        '/test/bpf/schema/native_(columns|shipment)(\\.\\w+)*\\.test\\.ts$',
        '/test/agent/ship/group_rows(\\.\\w+)*\\.test\\.ts$',
        '/test/agent/recording/(codec|fuzz|scan_oracle|piece_cache)(\\.\\w+)*\\.test\\.ts$',
        '/test/daemon/store/(text_rows|interleaved_blocks|merged_scan)(\\.\\w+)*\\.test\\.ts$',
        '/test/daemon/export/(sql|sql_conditions)(\\.\\w+)*\\.test\\.ts$',
        '/test/daemon/sums/.*(\\.\\w+)*\\.test\\.ts$',
      ],
      moduleNameMapper: { '^#(columns|tables)$': '<rootDir>/build/sanitized/$1.node' },
    },
  ],
};
