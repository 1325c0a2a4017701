/** Checks how long this host keeps events for its fleet, and whether the agent can read which events have arrived. */
import { existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { POSITION_FILE } from '../../bpf/schema/ship_report.ts';
import { formatBytes, formatCount } from '../output/amounts.ts';
import { countGivenNumbers } from '../recording/format/numbers.ts';
import { openReader } from '../recording/read/reader.ts';
import { RECORDING_FILE } from '../recording_path.ts';
import { chooseRetentionLimits, type RetentionFlags } from '../retention_options.ts';
import type { ShippingPosition } from '../ship/position.ts';
import type { Check } from './check.ts';
import { formatDays } from './disk.ts';

export interface HostFacts {
  dataFolder: string;
  retention: RetentionFlags;
  /** Growth of the recording; undefined if the rate of recording is unknown. */
  bytesPerDay: number | undefined;
}

/**
 * Minimum number of days that the recording should last. With fewer days, it may be full before someone has repaired a
 * server.
 */
const DAYS_MIN = 1;

/** Checks how long the recording keeps events while no server accepts them, at the present rate. */
export function diagnoseOutage(
  position: ShippingPosition | undefined,
  { dataFolder, retention, bytesPerDay }: HostFacts,
): Check {
  const name = 'ship outage';
  const folder = existsSync(dataFolder) ? dataFolder : '.';
  const { bytes } = chooseRetentionLimits(retention, folder);
  const waiting = countWaitingEvents(dataFolder, position);
  const waits = waiting === undefined ? '' : `; ${formatCount(waiting, 'event')} waiting now`;
  if (!bytesPerDay) {
    const text = `the recording keeps ${formatBytes(bytes)}, at a rate that is not known${waits}`;
    return { name, state: 'ok', text };
  }
  const days = bytes / bytesPerDay;
  const facts = { days, ...(waiting !== undefined && { events_waiting: waiting }) };
  const text = `without a server the recording lasts ${formatDays(days)} at ${formatBytes(bytesPerDay)} a day${waits}`;
  if (days >= DAYS_MIN) return { name, state: 'ok', text, facts };
  return { name, state: 'warning', text, advice: 'give it a larger retain-bytes, or record less', facts };
}

function countWaitingEvents(dataFolder: string, position: ShippingPosition | undefined): number | undefined {
  const found = readRecordingEnd(dataFolder);
  if (!found) return undefined;
  return countGivenNumbers(position?.recordingId === found.recordingId ? position.number : 0, found.end);
}

/** Returns the recording's id and the number after its last event; undefined if there is no readable recording. */
export function readRecordingEnd(dataFolder: string): { recordingId: string; end: number } | undefined {
  try {
    const reader = openReader(join(dataFolder, RECORDING_FILE));
    try {
      return { recordingId: reader.recordingId, end: reader.ends().end };
    } finally {
      reader.close();
    }
  } catch {
    return undefined;
  }
}

/** Checks whether `retain-age` keeps events that have not yet arrived. */
export function diagnosePositionAccess(folder: string, { dataFolder, retention }: HostFacts): Check {
  const name = 'ship position';
  const path = resolve(folder, POSITION_FILE);
  const advice = `set retain-unshipped = "${path}" in [agent]`;
  const { retainAge, retainUnshipped } = retention;
  if (retainAge === undefined && retainUnshipped === undefined)
    return {
      name,
      state: 'ok',
      text: 'no retain-age is set: only retain-bytes removes events before they are shipped',
    };
  if (retainUnshipped === undefined)
    return { name, state: 'warning', text: 'retain-age removes also events that were not shipped', advice };
  if (resolve(retainUnshipped) !== path)
    return { name, state: 'warning', text: `retain-unshipped is ${retainUnshipped}, not ${path}`, advice };
  if (!existsSync(path)) return { name, state: 'ok', text: `nothing was shipped yet: ${path} is not there` };
  const unreadable = findUnreadablePath(join(dataFolder, RECORDING_FILE), path);
  if (unreadable !== undefined)
    return {
      name,
      state: 'warning',
      text: `the agent's user cannot read ${unreadable}: for retain-age, nothing was shipped`,
      advice: `let its group read it, as the package does: chgrp kreplay ${unreadable}`,
    };
  return { name, state: 'ok', text: `the agent reads ${path}` };
}

/**
 * Returns the file or folder that the recording's owner may not read. Returns undefined if the owner may read both, or
 * if there is no recording.
 */
function findUnreadablePath(recording: string, path: string): string | undefined {
  const agent = statSync(recording, { throwIfNoEntry: false });
  if (!agent || agent.uid === 0) return undefined;
  const needed: [string, number][] = [
    [dirname(path), 1],
    [path, 4],
  ];
  return needed.find(([place, bit]) => !isAllowed(statSync(place), agent, bit))?.[0];
}

/**
 * Whether the mode of a file gives `user` a permission. `bit` is the permission's bit for other users: 4 to read, 1 to
 * enter.
 */
function isAllowed(
  { uid, gid, mode }: { uid: number; gid: number; mode: number },
  user: { uid: number; gid: number },
  bit: number,
): boolean {
  if (uid === user.uid) return (mode & (bit << 6)) !== 0;
  return (mode & (gid === user.gid ? bit << 3 : bit)) !== 0;
}
