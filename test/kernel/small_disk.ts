/** A small file system of our own, which a test can fill. */
import { spawnSync } from 'node:child_process';
import { rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { loopDevice } from './loop_device.ts';
import { run } from './programs.ts';
import { temporaryFolder } from './recorded_run.ts';

export interface SmallDisk {
  path: string;
  /** Uses up all the space that is left. */
  fill(): void;
  free(): void;
  remove(): void;
}

export const FILE_SYSTEMS = { tmpfs, ext4 } as const;

function tmpfs(sizeMiB: number): SmallDisk {
  const path = temporaryFolder();
  run('mount', ['-t', 'tmpfs', '-o', `size=${sizeMiB}m`, 'tmpfs', path]);
  return smallDisk(path, () => {
    run('umount', [path]);
    rmSync(path, { recursive: true });
  });
}

function ext4(sizeMiB: number): SmallDisk {
  const device = loopDevice(sizeMiB);
  run('mkfs.ext4', ['-q', '-m', '0', device.path]);
  run('mount', [device.path, device.mountPoint]);
  return smallDisk(device.mountPoint, device.remove);
}

function smallDisk(path: string, remove: () => void): SmallDisk {
  const filling = join(path, 'filling');
  return {
    path,
    fill() {
      // dd ends when there is no space; the file system may release space that it had reserved after that.
      for (let tries = 10; tries > 0 && statfsSync(path).bavail > 0; tries--) {
        spawnSync('dd', ['if=/dev/zero', `of=${filling}`, 'bs=4k', 'oflag=append', 'conv=notrunc,fsync']);
      }
    },
    free: () => rmSync(filling),
    remove,
  };
}
