/**
 * Sets aside a recording that cannot be continued: renames it, so that it stays readable and a new recording can begin.
 */
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { RecordingError } from '../format/errors.ts';
import { openReader } from '../read/reader.ts';
import { lockRecording } from './lock.ts';

export interface SetAside {
  place: string;
  /** The latest time at which a writer is known to have written; 0 if that time is unreadable. */
  writtenUntilNs: bigint;
}

const NAME = /^(.*)\.damaged-\d{8}T\d{6}Z(?:-\d+)?\.kreplay$/;

/** Returns whether a file name belongs to a recording that was set aside. */
export function isSetAside(name: string): boolean {
  return NAME.test(name);
}

/** Lists the paths of the recordings in a folder that were set aside. */
export function listSetAside(folder: string): string[] {
  return readdirSync(folder)
    .filter(isSetAside)
    .map((name) => join(folder, name));
}

/** Renames a recording and its log. No writer may have the recording open. */
export function setAside(path: string, nowMs: number): SetAside {
  const lock = lockRecording(path);
  try {
    const place = findFreePlace(path, nowMs);
    // The log is moved first, because SQLite would otherwise apply it to the new recording at this path.
    if (existsSync(`${path}-wal`)) renameSync(`${path}-wal`, `${place}-wal`);
    renameSync(path, place);
    rmSync(`${path}-shm`, { force: true });
    return { place, writtenUntilNs: readWrittenUntilNs(place) };
  } catch (error) {
    if (error instanceof RecordingError) throw error;
    const message = `${path} is damaged and cannot be set aside (${(error as Error).message}): move it away`;
    throw new RecordingError('recording_corrupt', message, error);
  } finally {
    lock.close();
  }
}

function findFreePlace(path: string, nowMs: number): string {
  const time = new Date(nowMs).toISOString().replace(/\.\d+/, '').replaceAll(/[-:]/g, '');
  const stem = join(dirname(path), `${basename(path, '.kreplay')}.damaged-${time}`);
  for (let i = 1; ; i++) {
    const place = i === 1 ? `${stem}.kreplay` : `${stem}-${i}.kreplay`;
    if (!existsSync(place) && !existsSync(`${place}-wal`)) return place;
  }
}

function readWrittenUntilNs(place: string): bigint {
  try {
    const reader = openReader(place);
    try {
      return reader.recordedSpan()?.toNs ?? 0n;
    } finally {
      reader.close();
    }
  } catch (error) {
    if (!(error instanceof RecordingError)) throw error;
    return 0n;
  }
}
