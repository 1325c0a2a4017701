/** Checks whether the disk has room for the recording, and whether its file system is suitable. */
import { accessSync, constants, existsSync, readFileSync, realpathSync, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { formatBytes, formatThreeDigits } from '../output/amounts.ts';
import { openReader } from '../recording/read/reader.ts';
import { RETAIN_BYTES_MIN } from '../recording/retain/retention.ts';
import { RECORDING_FILE } from '../recording_path.ts';
import { chooseRetentionLimits, type RetentionFlags } from '../retention_options.ts';
import type { Check } from './check.ts';

/**
 * Assumed size of an event in bytes, as under a busy write load. Once a recording has EVENTS_MIN events, its own
 * average is used.
 */
const EVENT_BYTES = 11;
const EVENTS_MIN = 100_000;
const SECONDS_A_DAY = 86_400;
const NS_A_DAY = SECONDS_A_DAY * 1e9;

const FORGETFUL = /^(tmpfs|ramfs)$/;
const REMOTE = /^(nfs|cifs|smb|ceph|fuse|9p|virtiofs|afs|lustre|gpfs|beegfs)/;

export interface DiskOptions {
  dataFolder: string;
  retention: RetentionFlags;
  /** Rate of events; undefined if it is unknown. */
  eventsPerSecond: number | undefined;
}

export function diagnoseDisk({ dataFolder, retention, eventsPerSecond }: DiskOptions): Check {
  const name = 'disk';
  const folder = findExistingFolder(resolve(dataFolder));
  if (!isWritable(folder)) {
    const advice = 'run it as its owner, or give another folder with --data';
    return { name, state: 'failed', text: `${folder} cannot be written`, advice };
  }
  const { bavail, bsize } = statfsSync(folder);
  const freeBytes = bavail * bsize;
  const type = findFileSystem(folder);
  const { bytes: limitBytes, ageNs } = chooseRetentionLimits(retention, folder);
  const recording = readRecordingSize(dataFolder);
  const eventBytes = recording?.eventBytes ?? EVENT_BYTES;
  const perDay = eventsPerSecond === undefined ? undefined : eventsPerSecond * eventBytes * SECONDS_A_DAY;
  const ofAge = perDay === undefined || ageNs === undefined ? limitBytes : (perDay * Number(ageNs)) / NS_A_DAY;
  const keptBytes = Math.min(limitBytes, ofAge);
  const wantedBytes = Math.max(0, keptBytes - (recording?.bytes ?? 0));
  const facts = {
    ...{
      folder,
      file_system: type,
      free_bytes: freeBytes,
      retain_bytes: Math.round(keptBytes),
      recording_bytes: recording?.bytes ?? 0,
    },
    ...(perDay !== undefined && { bytes_per_day: Math.round(perDay) }),
  };
  const text =
    `${folder} (${type}): ${formatBytes(freeBytes)} free; up to ${formatBytes(keptBytes)} are kept` +
    (perDay === undefined ? '' : `, ${formatDays(keptBytes / perDay)} at ${formatBytes(perDay)} a day`);
  const problem = findDiskProblem(freeBytes, wantedBytes, type);
  return problem ? { name, ...problem, text, facts } : { name, state: 'ok', text, facts };
}

function findDiskProblem(
  freeBytes: number,
  wantedBytes: number,
  type: string,
): Pick<Check, 'state' | 'advice'> | undefined {
  const another = 'give another folder with --data';
  if (freeBytes < Math.min(RETAIN_BYTES_MIN, wantedBytes)) {
    return { state: 'failed', advice: `make room, or ${another}` };
  }
  if (REMOTE.test(type)) {
    return {
      state: 'warning',
      advice: `a recording is for a disk of this host, which its readers share memory on: ${another}`,
    };
  }
  if (freeBytes < wantedBytes) {
    return {
      state: 'warning',
      advice: `give a smaller --retain-bytes, such as ${Math.floor((freeBytes * 0.9) / 1e6)}MB, or ${another}`,
    };
  }
  if (FORGETFUL.test(type)) return { state: 'warning', advice: `it is gone after a reboot: ${another}` };
  return undefined;
}

/** Formats a number of days, as hours if it is small. From 1000 days on, the exact number does not matter. */
export function formatDays(days: number): string {
  if (days >= 1000) return 'years';
  return days >= 2 ? `${formatThreeDigits(days)} days` : `${formatThreeDigits(days * 24)} hours`;
}

/** Returns the deepest existing folder of a path. The agent creates the folders below it. */
function findExistingFolder(folder: string): string {
  return existsSync(folder) ? realpathSync(folder) : findExistingFolder(dirname(folder));
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Matches a mount's mount point and type. proc(5): ... MAJOR:MINOR ROOT MOUNT_POINT ... - TYPE SOURCE OPTIONS */
const MOUNT = /^\d+ \d+ \S+ \S+ (\S+) .*? - (\S+) /;

function findFileSystem(folder: string): string {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  let [found, length] = ['unknown', -1];
  for (const line of mounts) {
    const [, point, type] = MOUNT.exec(line) ?? [];
    if (point === undefined || type === undefined) continue;
    const path = point.replace(/\\(\d{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)));
    const isAbove = folder === path || folder.startsWith(path === '/' ? '/' : `${path}/`);
    // A later mount hides an earlier mount at the same mount point.
    if (isAbove && path.length >= length) [found, length] = [type, path.length];
  }
  return found;
}

interface RecordingSize {
  bytes: number;
  /** Average size of an event; undefined if there are too few events. */
  eventBytes: number | undefined;
}

function readRecordingSize(dataFolder: string): RecordingSize | undefined {
  const path = join(dataFolder, RECORDING_FILE);
  const bytes = statSync(path, { throwIfNoEntry: false })?.size;
  if (bytes === undefined) return undefined;
  try {
    const reader = openReader(path);
    try {
      const { eventCount } = reader.info();
      return { bytes, eventBytes: eventCount >= EVENTS_MIN ? bytes / eventCount : undefined };
    } finally {
      reader.close();
    }
  } catch {
    return { bytes, eventBytes: undefined };
  }
}
