/** Tests what a first build says before it begins, and that it ends where there is no room for it. */
import { spawnSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { FILE_SYSTEMS } from '../kernel/small_disk.ts';

const PROJECT = join(import.meta.dirname, '../..');

test('a disk that is too small is found before anything is installed', () => {
  const small = FILE_SYSTEMS.tmpfs(64);
  try {
    copyFileSync(join(PROJECT, 'Makefile'), join(small.path, 'Makefile'));
    const { status, stdout, stderr } = spawnSync('make', ['--no-print-directory', 'packages'], {
      cwd: small.path,
      encoding: 'utf8',
    });
    expect(status).toBe(2);
    expect(stdout).toBe('a first build takes 2.2 GB, of which 800 MB are here, and some 8 minutes on two CPUs\n');
    expect(stderr).toContain(
      `a build needs 800 MB in ${small.path}, where 64 MB are free: free some space, or clone to another disk\n`,
    );
  } finally {
    small.remove();
  }
});
