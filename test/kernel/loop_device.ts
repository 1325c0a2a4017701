/** A disk for one test: nothing else writes to it, so its requests can be counted. */
import { closeSync, constants, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { run } from './programs.ts';
import { temporaryFolder } from './recorded_run.ts';

export interface LoopDevice {
  /** /dev/loopN */
  path: string;
  /** loopN */
  name: string;
  /** A folder to mount it on. */
  mountPoint: string;
  /** Unmounts it, and resolves when another file system can be made on it. */
  unmount(): Promise<void>;
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
    async unmount() {
      run('umount', [mountPoint]);
      while (!isFree(path)) await delay(50);
    },
    remove() {
      run('sh', ['-c', `mountpoint -q ${mountPoint} && umount ${mountPoint}; losetup --detach ${path}`]);
      rmSync(folder, { recursive: true });
    },
  };
}

/** A mount namespace that another test made meanwhile has the file system mounted for as long as it exists. */
function isFree(path: string): boolean {
  try {
    closeSync(openSync(path, constants.O_RDONLY | constants.O_EXCL));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EBUSY') return false;
    throw error;
  }
}
