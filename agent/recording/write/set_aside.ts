/**
 * Sets aside a recording that is impossible to continue: the recording gets another name, under which it can still be
 * read, and a new recording begins.
 */
import { existsSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { RecordingError } from '../format/errors.ts';
import { openReader } from '../read/reader.ts';
import { lockRecording } from './lock.ts';

/** A recording that was set aside. */
export interface SetAside {
  place: string;
  /** The latest time at which the recording is known to have been written; 0 when even that is unreadable. */
  writtenUntilNs: bigint;
}

const NAME = /^(.*)\.damaged-\d{8}T\d{6}Z(?:-\d+)?\.kreplay$/;

/** Whether a file in the folder of an agent has the name of a recording that was set aside. */
export function isSetAside(name: string): boolean {
  return NAME.test(name);
}

/** `path` must be a recording that no writer has open. */
export function setAside(path: string, nowMs: number): SetAside {
  const lock = lockRecording(path);
  try {
    const place = findFreePlace(path, nowMs);
    // The log is moved first, because SQLite would take it for the log of the recording that is created next.
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
