/**
 * Ensures that a recording has only one writer, with SQLite's lock on a second, empty file. The kernel releases the
 * lock when the writer dies. Readers of the recording do not need this lock.
 */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { RecordingError, toRecordingError } from '../format/errors.ts';

export interface RecordingLock {
  close(): void;
}

/** Time to wait for the lock. A process that checks the lock takes it only for microseconds. */
const LOOK_TIMEOUT_MS = 250;

/** Returns whether an agent on this machine records to `path`; undefined if the lock cannot be checked. */
export function isRecorded(path: string): boolean | undefined {
  const lockPath = buildLockPath(path);
  if (!existsSync(lockPath)) return false;
  let database: Database.Database | undefined;
  try {
    database = new Database(lockPath, { readonly: true, timeout: 0 });
    database.prepare('SELECT 1 FROM sqlite_schema').get();
    return false;
  } catch (error) {
    return String((error as { code?: unknown }).code).startsWith('SQLITE_BUSY') || undefined;
  } finally {
    database?.close();
  }
}

function buildLockPath(path: string): string {
  return join(dirname(path), 'recording.lock');
}

export function lockRecording(path: string): RecordingLock {
  const lockPath = buildLockPath(path);
  let database: Database.Database | undefined;
  try {
    database = new Database(lockPath, { timeout: LOOK_TIMEOUT_MS });
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
  // better-sqlite3 checks the folder itself, and throws an error without a code.
  const unwritable = error instanceof TypeError || /^SQLITE_(CANTOPEN|READONLY|PERM)/.test(sqliteCode);
  if (unwritable) {
    const message = `${dirname(path)} cannot be written: create it, or run the agent as its owner`;
    return new RecordingError('recording_not_writable', message, error);
  }
  return toRecordingError(error, lockPath);
}
