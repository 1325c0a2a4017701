/**
 * Configures jest for `make sanitized`: suites that call the addons `columns` and `tables` in their own process, with
 * builds of them that AddressSanitizer and UndefinedBehaviorSanitizer watch.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { project, without } from '../../jest.config.js';

process.env.LD_PRELOAD = execFileSync('g++', ['-print-file-name=libasan.so'], { encoding: 'utf8' }).trim();
process.env.ASAN_OPTIONS = 'detect_leaks=0';
process.env.NODE_OPTIONS = `--import=${join(import.meta.dirname, 'sanitized_addons.js')}`;

const { testMatch: _, ...matched } = project;

export default {
  ...without([]),
  projects: [
    {
      ...matched,
      testRegex: [
        'bpf/schema/native_(columns|shipment)',
        'agent/ship/group_rows',
        'agent/recording/(codec/codec|fuzz|read/scan_oracle|read/piece_cache)',
        'daemon/store/(blocks/text_rows|blocks/interleaved_blocks|embedded/merged_scan)',
        'daemon/export/sql/(sql|sql_conditions)',
        'daemon/sums/(differences/)?\\w+',
      ].map((suites) => `/test/${suites}(\\.\\w+)*\\.test\\.ts$`),
    },
  ],
};
