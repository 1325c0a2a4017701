/**
 * Finds out which files can be read without waiting for another machine or another user's program. A library on an NFS
 * server that is down, or in a FUSE file system whose server does not answer on purpose, must not stop the recorder.
 */
import { readFileSync } from 'node:fs';

const WAITING_FILE_SYSTEM = /^(fuse|nfs|cifs|smb|ceph|afs|9p|lustre|beegfs|gpfs|orangefs|coda|autofs|ncpfs|pvfs)/;

/** Devices of anonymous memory, and of the kernel's own file system of memfds (the first to be mounted: mnt_init()). */
const MEMORY_DEVICES = ['00:00', '00:01'];

/**
 * Returns a check for a device as /proc/PID/maps writes it. Only devices mounted where the agent or init sees them
 * count: any user may mount in a namespace of their own, and numbers of unmounted devices are reused.
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

/** proc(5): ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS */
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
