/** Makes a file system of a few hundred kilobytes that a test can fill; mounting needs root. */
import { execFileSync } from 'node:child_process';
import { temporaryFolder } from '../../agent/recording/fixture.ts';

const mounted: { path: string; remove(): void }[] = [];
afterAll(() => {
  for (const { path, remove } of mounted) {
    execFileSync('umount', [path]);
    remove();
  }
});

export function newSmallDisk(size_kib: number): string {
  const folder = temporaryFolder();
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size_kib}k`, 'tmpfs', folder.path]);
  mounted.push(folder);
  return folder.path;
}
