/**
 * One writer a recording. SQLite's own lock on a second, empty file: the kernel lets go of it when the holder dies in
 * whatever way, and readers of the recording are not in its way.
 */
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { RecordingError, toRecordingError } from './errors.ts';

export interface RecordingLock {
  close(): void;
}

export function lockRecording(path: string): RecordingLock {
  const lockPath = join(dirname(path), 'recording.lock');
  let database: Database.Database | undefined;
  try {
    database = new Database(lockPath, { timeout: 0 });
    database.exec('BEGIN EXCLUSIVE');
    const held = database;
    return { close: () => held.close() };
  } catch (error) {
    database?.close();
    throw lockError(error, path, lockPath);
  }
}

function lockError(error: unknown, path: string, lockPath: string): unknown {
  const sqliteCode = String((error as { code?: unknown }).code);
  if (sqliteCode.startsWith('SQLITE_BUSY')) {
    const message = `another agent records to ${path}: stop it, or give this one another data folder`;
    return new RecordingError('recording_locked', message, error);
  }
  // better-sqlite3 checks the folder itself, with an error that has no code.
  const unwritable = error instanceof TypeError || /^SQLITE_(CANTOPEN|READONLY|PERM)/.test(sqliteCode);
  if (unwritable) {
    const message = `${dirname(path)} can not be written: create it, or run the agent as its owner`;
    return new RecordingError('recording_not_writable', message, error);
  }
  return toRecordingError(error, lockPath);
}
