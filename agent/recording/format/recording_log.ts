/** The write-ahead log of a recording, opened as a file so that it can be synced. */
import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import { RecordingError } from './errors.ts';

/** A second descriptor of the log. SQLite has no locks on the log file, so closing this descriptor releases none. */
export interface RecordingLog {
  /**
   * Starts a sync. Calls `done` when the sync has ended, with the error if it failed. The log must stay open until
   * then.
   */
  beginSync(done: (failure: RecordingError | undefined) => void): void;
  sync(): void;
  close(): void;
}

/** Opens the log file. It must exist: SQLite creates it when a connection opens the database in WAL mode. */
export function openLog(path: string): RecordingLog {
  const fd = runWithSyncErrors(path, () => openSync(`${path}-wal`, 'r'));
  return {
    beginSync: (done) => fdatasync(fd, (error) => done(error ? syncError(path, error) : undefined)),
    sync: () => runWithSyncErrors(path, () => fdatasyncSync(fd)),
    close: () => closeSync(fd),
  };
}

function runWithSyncErrors<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw syncError(path, error);
  }
}

function syncError(path: string, error: unknown): RecordingError {
  const { code, message } = error as NodeJS.ErrnoException;
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  const advice = isFull ? 'free some space, or move the data folder' : 'check the disk and the kernel log';
  return new RecordingError(
    isFull ? 'recording_full' : 'recording_io_error',
    `${path}-wal cannot be synced, so a loss of power may take what was recorded since: ${advice} (${message})`,
    error,
  );
}
