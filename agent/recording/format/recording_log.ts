/** The write-ahead log of a recording, as a file that can be synced. */
import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import { RecordingError } from './errors.ts';

/**
 * The log, open with a second descriptor. SQLite holds no locks on the log file, so closing the descriptor releases
 * none.
 */
export interface RecordingLog {
  /** Calls `done` later, with the reason if it failed. The log must stay open until then. */
  beginSync(done: (failure: RecordingError | undefined) => void): void;
  sync(): void;
  close(): void;
}

/** Must be called when SQLite has the log open. */
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
