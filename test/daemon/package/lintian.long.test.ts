/** Debian's own checks of packages find nothing in the package, compressed as it is released. */
import { spawnSync } from 'node:child_process';
import { packageOfThisRun } from './packages.ts';

test('lintian reports nothing', async () => {
  const args = ['--allow-root', '--tag-display-limit', '0', await packageOfThisRun()];
  const { status, stdout, stderr } = spawnSync('lintian', args, { encoding: 'utf8' });
  expect([status, stdout, stderr]).toEqual([0, '', '']);
}, 600_000);
