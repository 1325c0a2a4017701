/**
 * Finds out which files can be read without waiting for another machine or another user's program. Waiting would stop
 * the recorder, for example at a library on an NFS server that is down, or in a FUSE file system that never answers.
 */
import { readFileSync } from 'node:fs';

const WAITING_FILE_SYSTEM = /^(fuse|nfs|cifs|smb|ceph|afs|9p|lustre|beegfs|gpfs|orangefs|coda|autofs|ncpfs|pvfs)/;

/**
 * Devices of anonymous memory and of memfds. Memfds are in the kernel's internal tmpfs, the first file system that it
 * mounts: mnt_init().
 */
const MEMORY_DEVICES = ['00:00', '00:01'];

/**
 * Returns a function that checks a device number in the format of /proc/PID/maps. It accepts only devices in the mount
 * namespaces of the agent and of init, because any user may mount file systems in a namespace of their own.
 */
export function createDeviceCheck(readMounts: () => string = readHostMounts): (device: string) => boolean {
  let local: ReadonlySet<string> | undefined;
  return (device) => {
    if (MEMORY_DEVICES.includes(device)) return true;
    local ??= parseLocalDevices(readMounts());
    return local.has(device);
  };
}

function readHostMounts(): string {
  // If the agent runs in a container, only init sees the host's mounts.
  return ['self', '1'].map(readProcessMounts).join('\n');
}

function readProcessMounts(process: string): string {
  try {
    return readFileSync(`/proc/${process}/mountinfo`, 'latin1');
  } catch {
    return '';
  }
}

/** Line of mountinfo, see proc(5): ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS */
const MOUNT = /^\d+ \d+ (\d+):(\d+) .*? - (\S+) /s;

function parseLocalDevices(mounts: string): Set<string> {
  const devices = new Set<string>();
  for (const line of mounts.split('\n')) {
    const [, major, minor, type] = MOUNT.exec(line) ?? [];
    if (type !== undefined && !WAITING_FILE_SYSTEM.test(type)) devices.add(`${toHex(major!)}:${toHex(minor!)}`);
  }
  return devices;
}

function toHex(decimal: string): string {
  return Number(decimal).toString(16).padStart(2, '0');
}
