/** A disk that allows few writes a second, as an overbooked one in a cloud does. */
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type LoopDevice, loopDevice } from './loop_device.ts';
import { run } from './programs.ts';

const V1 = '/sys/fs/cgroup/blkio';
const V2 = '/sys/fs/cgroup';

export interface SlowDisk {
  folder: string;
  /** Goes before a program and its arguments: the limit applies to that program only. */
  command: readonly string[];
  remove(): void;
}

export function slowDisk(writesPerSecond: number): SlowDisk {
  const disk: LoopDevice = loopDevice();
  run('mkfs.ext4', ['-q', disk.path]);
  run('mount', [disk.path, disk.mountPoint]);
  const number = run('lsblk', ['--noheadings', '--nodeps', '--output', 'MAJ:MIN', disk.path]).trim();
  const isV1 = existsSync(V1);
  const cgroup = join(isV1 ? V1 : V2, `kreplay-test-${process.pid}`);
  if (!isV1) writeFileSync(join(V2, 'cgroup.subtree_control'), '+io');
  mkdirSync(cgroup);
  if (isV1) writeFileSync(join(cgroup, 'blkio.throttle.write_iops_device'), `${number} ${writesPerSecond}`);
  else writeFileSync(join(cgroup, 'io.max'), `${number} wiops=${writesPerSecond}`);
  return {
    folder: disk.mountPoint,
    command: ['sh', '-c', `echo $$ > ${cgroup}/cgroup.procs && exec "$@"`, 'sh'],
    remove() {
      rmdirSync(cgroup);
      disk.remove();
    },
  };
}
