/**
 * The file in which sessions are kept: a SQLite database with one row per session. Written data survives a kill of the
 * daemon. Writes are not synced: a power failure may lose the data of the last 30 s or so, which the kernel has not
 * written back yet.
 */

import { closeSync, constants, openSync } from 'node:fs';
import Database from 'better-sqlite3';
import { UserError } from '../../../agent/process/errors.ts';

/** Spells "KRse". */
const APPLICATION_ID = 0x4b52_7365;
const VERSION = 1;
/** Lock timeout, long enough for a predecessor that is just shutting down to release the file. */
const LOCKED_MS_MAX = 1000;

/** Thrown if the daemon is unable to start with this file; the message is the one line that the user sees. */
export class StateFileError extends UserError {
  override readonly name = 'StateFileError';
}

/** The position of a session. The position changes constantly while the session plays. */
export interface SessionPlace {
  sessionId: string;
  eventIndex: number;
  positionNs: number;
}

export interface StoredPlace extends SessionPlace {
  /** When the session was last used, by the wall clock. */
  usedAtMs: number;
}

export interface StoredSession extends StoredPlace {
  /** All other data of the session, as JSON. */
  facts: string;
}

/** The changes since the last write. */
export interface StateChanges {
  sessions: readonly StoredSession[];
  /** New positions of sessions that are already stored. */
  places: readonly StoredPlace[];
  /** The ids of removed sessions. */
  removed: readonly string[];
}

export interface StateFile {
  /** The rows that the file had when it was opened, oldest first. */
  readonly rows: readonly StoredSession[];
  /** Writes all changes; throws if that fails, and then no change is written. */
  write(changes: StateChanges): void;
  close(): void;
}

/**
 * Opens the file and locks it against other daemons until `close`. Throws a StateFileError with advice for the user.
 */
export function openStateFile(path: string): StateFile {
  let database: Database.Database | undefined;
  try {
    // SQLite would create the file world-readable; the WAL file takes over the mode of the database.
    closeSync(openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600));
    database = new Database(path, { timeout: LOCKED_MS_MAX });
    prepare(database, path);
    return prepareStateFile(database, readRows(database));
  } catch (error) {
    database?.close();
    throw toStateFileError(error, path);
  }
}

function prepare(database: Database.Database, path: string): void {
  // Set before the first access, EXCLUSIVE avoids the shared-memory file (-shm) and keeps other processes out.
  database.pragma('locking_mode = EXCLUSIVE');
  const version = database.pragma('user_version', { simple: true }) as number;
  const tables = database.prepare<[], { count: number }>('SELECT count(*) AS count FROM sqlite_schema').get()!.count;
  const isNew = version === 0 && tables === 0;
  if (!isNew && database.pragma('application_id', { simple: true }) !== APPLICATION_ID)
    throw new StateFileError(`${path} is a database of something else: give another file with --state`);
  if (version > VERSION) {
    const what = `${path} was written by a newer kreplay (format ${version}, this one has ${VERSION})`;
    throw new StateFileError(`${what}: use that one, or give another file with --state`);
  }
  const faults = database.pragma('quick_check(1)', { simple: true });
  // The first line of the report only names the database.
  if (faults !== 'ok') throw createDamagedError(path, String(faults).split('\n').at(-1)!);
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = NORMAL');
  // This transaction runs for an existing file too: the first write takes the lock and shows whether the file is
  // writable.
  database.transaction(() => {
    database.pragma(`application_id = ${APPLICATION_ID}`);
    database.pragma(`user_version = ${VERSION}`);
    database.exec(`
      CREATE TABLE IF NOT EXISTS session (
        session_id TEXT NOT NULL PRIMARY KEY,
        event_index INTEGER NOT NULL,
        position_ns INTEGER NOT NULL,
        used_at_ms INTEGER NOT NULL,
        facts TEXT NOT NULL
      ) STRICT`);
  })();
}

function readRows(database: Database.Database): StoredSession[] {
  return database
    .prepare<[], StoredSession>(`
      SELECT session_id AS sessionId, event_index AS eventIndex, position_ns AS positionNs, used_at_ms AS usedAtMs, facts
      FROM session ORDER BY rowid`)
    .all();
}

function prepareStateFile(database: Database.Database, rows: readonly StoredSession[]): StateFile {
  const put = database.prepare<StoredSession>(`
    INSERT INTO session (session_id, event_index, position_ns, used_at_ms, facts)
    VALUES (@sessionId, @eventIndex, @positionNs, @usedAtMs, @facts)
    ON CONFLICT (session_id) DO UPDATE SET
      event_index = excluded.event_index,
      position_ns = excluded.position_ns,
      used_at_ms = excluded.used_at_ms,
      facts = excluded.facts`);
  const move = database.prepare<StoredPlace>(`
    UPDATE session SET event_index = @eventIndex, position_ns = @positionNs, used_at_ms = @usedAtMs
    WHERE session_id = @sessionId`);
  const remove = database.prepare('DELETE FROM session WHERE session_id = ?');
  const write = database.transaction(({ sessions, places, removed }: StateChanges) => {
    for (const session of sessions) put.run(session);
    for (const place of places) move.run(place);
    for (const sessionId of removed) remove.run(sessionId);
  });
  return { rows, write, close: () => void database.close() };
}

export function createDamagedError(path: string, what: string): StateFileError {
  const advice = 'move it away and start again; its sessions are lost, what was recorded is not touched';
  return new StateFileError(`${path} is damaged (${what}): ${advice}`);
}

function toStateFileError(error: unknown, path: string): unknown {
  const { code, message } = error as { code?: unknown; message: string };
  if (error instanceof StateFileError || typeof code !== 'string') return error;
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) {
    const advice = 'stop it, or give this one a file of its own with --state, or --no-state';
    return new StateFileError(`another daemon keeps its sessions in ${path}: ${advice}`);
  }
  if (code === 'SQLITE_NOTADB')
    return new StateFileError(`${path} is not a file of kreplay: give another with --state`);
  if (/^SQLITE_(CORRUPT|ERROR|CONSTRAINT)/.test(code)) return createDamagedError(path, message);
  if (/^SQLITE_FULL|^ENOSPC/.test(code))
    return new StateFileError(`no space is left for ${path}: free some, or give another file with --state`);
  const advice = 'check its folder, owner and mode, or give another file with --state, or --no-state';
  return new StateFileError(`${path} cannot be used (${message}): ${advice}`);
}
