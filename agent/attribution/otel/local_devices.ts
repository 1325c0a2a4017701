/**
 * Which files can be read without waiting for another machine or another user's program. A library on an NFS server
 * that is down, or in a FUSE file system whose server does not answer on purpose, must not stop the recorder.
 */
import { readFileSync } from 'node:fs';

const WAITING_FILE_SYSTEM = /^(fuse|nfs|cifs|smb|ceph|afs|9p|lustre|beegfs|gpfs|orangefs|coda|autofs|ncpfs|pvfs)/;

/** Memory without a file, and the kernel's own file system of memfds (first of all to be mounted: mnt_init()). */
const MEMORY_DEVICES = ['00:00', '00:01'];

/**
 * Gives a function that tells of a device, as /proc/PID/maps writes it. Only those count that are mounted where the
 * agent or init sees it: any user may mount in a namespace of his own, and numbers of unmounted devices are used again.
 */
export function createDeviceCheck(readMounts: () => string = readHostMounts): (device: string) => boolean {
  let local: ReadonlySet<string> | undefined;
  return (device) => {
    if (MEMORY_DEVICES.includes(device)) return true;
    local ??= localDevices(readMounts());
    return local.has(device);
  };
}

function readHostMounts(): string {
  // With an agent in a container, only init sees the host's.
  return ['self', '1'].map(readMountsOf).join('\n');
}

function readMountsOf(process: string): string {
  try {
    return readFileSync(`/proc/${process}/mountinfo`, 'latin1');
  } catch {
    return '';
  }
}

/** proc(5): ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS */
const MOUNT = /^\d+ \d+ (\d+):(\d+) .*? - (\S+) /s;

function localDevices(mounts: string): Set<string> {
  const devices = new Set<string>();
  for (const line of mounts.split('\n')) {
    const [, major, minor, type] = MOUNT.exec(line) ?? [];
    if (type !== undefined && !WAITING_FILE_SYSTEM.test(type)) devices.add(`${hex(major!)}:${hex(minor!)}`);
  }
  return devices;
}

function hex(decimal: string): string {
  return Number(decimal).toString(16).padStart(2, '0');
}
