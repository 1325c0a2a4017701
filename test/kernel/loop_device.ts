/** A disk for one test: nothing else writes to it, so its requests can be counted. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './programs.ts';
import { temporaryFolder } from './recorded_run.ts';

export interface LoopDevice {
  /** /dev/loopN */
  path: string;
  /** loopN */
  name: string;
  /** A folder to mount it on. */
  mountPoint: string;
  remove(): void;
}

export function loopDevice(sizeMiB = 64): LoopDevice {
  const folder = temporaryFolder();
  const image = join(folder, 'image');
  const mountPoint = join(folder, 'mounted');
  run('mkdir', [mountPoint]);
  run('truncate', ['-s', `${sizeMiB}M`, image]);
  const path = run('losetup', ['--find', '--show', image]).trim();
  return {
    path,
    name: path.replace('/dev/', ''),
    mountPoint,
    remove() {
      run('sh', ['-c', `mountpoint -q ${mountPoint} && umount ${mountPoint}; losetup --detach ${path}`]);
      rmSync(folder, { recursive: true });
    },
  };
}
