/** A command's outputs reach their reader whole where no room is left for their last lines. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newFolder } from '../recorded.ts';
import { bundleOf, writesTo } from './incident.ts';
import { TRANSACTION } from './planned.ts';

const ENTRY = join(import.meta.dirname, '../../../kreplay.ts');

/** Enough for the plan and the report. */
const PLANNED = ['size=160k', 'size=28k'];

test.each(PLANNED)('a folder for temporary files with %s', (size) => {
  const folder = newFolder();
  const room = join(folder, 'room');
  const summary = join(folder, 'summary.md');
  writeFileSync(summary, '');
  const run = ['run', '--bundle', bundleOf(writesTo(join(folder, 'out'), [1])), '--transaction', TRANSACTION];
  const words = [process.execPath, ENTRY, ...run, '--require', 'none', '--', 'seq', '1', '200000'];
  const script = `mkdir ${room} && mount -t tmpfs -o ${size} room ${room} && "$@" | sha256sum > ${folder}/sum; umount ${room}`;
  const env = { ...process.env, GITHUB_STEP_SUMMARY: summary, TMPDIR: room };
  const { stderr } = spawnSync('sh', ['-c', script, 'sh', ...words], { env, encoding: 'utf8' });
  expect(stderr).toContain('the command ended with 0 ');
  const sum = execFileSync('sh', ['-c', 'seq 1 200000 | sha256sum'], { encoding: 'utf8' });
  expect(readFileSync(join(folder, 'sum'), 'utf8')).toBe(sum);
  expect(readFileSync(summary, 'utf8').includes('The last lines')).toBe(size === PLANNED[0]);
});
