/** Runs the property tests of native/columns and native/tables with builds that AddressSanitizer and UBSan watch. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { run } from '../kernel/programs.ts';

const ROOT = join(import.meta.dirname, '../..');
/** The suites that take seconds; `make sanitized` runs more. */
const SUITES = ['native_columns', 'codec', 'text_rows', 'histogram', 'merged_scan', 'sql_conditions'];

const ADDONS = ['build/sanitized/columns.node', 'build/sanitized/tables.node'];

test('property tests of the addons find nothing that sanitizers report', () => {
  run('make', ['--no-print-directory', '--directory', ROOT, ...ADDONS]);
  const jest = [join(ROOT, 'node_modules/jest/bin/jest.js'), '--config', 'test/jest/sanitized.config.js', ...SUITES];
  const { status, stderr } = spawnSync(process.execPath, jest, {
    cwd: ROOT,
    env: { ...process.env, REPEATS: '1' },
    encoding: 'utf8',
  });
  expect([status, status === 0 ? '' : stderr.slice(-8000)]).toEqual([0, '']);
  expect(stderr).toContain(`${SUITES.length} passed, ${SUITES.length} total`);
}, 300_000);

test.each(ADDONS)('%s has the sanitizers in it', (addon) => {
  const library = run('g++', ['-print-file-name=libasan.so']).trim();
  const loads = `require(${JSON.stringify(join(ROOT, addon))})`;
  const { status, stderr } = spawnSync(process.execPath, ['-e', `${loads}; console.error('loaded')`], {
    env: { ...process.env, LD_PRELOAD: library, ASAN_OPTIONS: 'detect_leaks=0' },
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([0, 'loaded\n']);
  // Without the library in front, an addon that needs it refuses to load.
  const without = spawnSync(process.execPath, ['-e', loads], { encoding: 'utf8' });
  expect(without.stderr).toContain('ASan runtime does not come first');
});
