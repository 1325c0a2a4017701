/** Opens a recording for the writer: creates the file, or checks that an existing file is a kreplay recording. */
import { randomBytes } from 'node:crypto';
import type Database from 'better-sqlite3';
import type { Column } from '../../../bpf/schema/columns.ts';
import { describeDamagedLog, findDamagedFrame, isCopiedPast, openDatabase, setChecksums } from '../format/database.ts';
import { createCorruptError, RecordingError, toRecordingError } from '../format/errors.ts';
import { choosePiece, STORED_COLUMNS } from '../format/pieces.ts';
import { APPLICATION_ID, CREATE_TABLES, checkFormat, FORMAT_VERSION, isBlank, PAGE_BYTES } from '../format/schema.ts';
import { mayHaveLostPower } from './gaps.ts';

/**
 * Log size at which a checkpoint copies the log to the file, in pages. With a log of 4 MB, a page that every flush
 * changes is copied only once in many flushes.
 */
const CHECKPOINT_PAGES = 4000;

/** Size of the page cache. It suffices for the pages of one commit, because a writer reads few pages back. */
const CACHE_KIBIBYTES = 2048;

/** Time to wait for a lock. A reader may lock the file for a moment while it recovers a log. */
const BUSY_TIMEOUT_MS = 1000;

const ADD_META = 'INSERT INTO meta VALUES (?, ?)';
const ADD_COLUMN = 'INSERT INTO column_name (name, storage, piece) VALUES (?, ?, ?)';
const COLUMN_PLACES = 'SELECT name, column_id, piece FROM column_name ORDER BY column_id';

export interface RecordingOrigin {
  /** The id of a new recording, which is random by default. */
  recordingId?: string;
  node: string;
  bootId: string;
  machineId: string;
  createdNs: bigint;
}

export function openForWriting(path: string, origin: RecordingOrigin): Database.Database {
  let database: Database.Database | undefined;
  try {
    database = openDatabase(path, { timeout: BUSY_TIMEOUT_MS });
    const blank = isBlank(database);
    if (!blank) checkFormat(database, path);
    const lostPower = !blank && mayHaveLostPower(database, origin.bootId);
    const frame = findDamagedFrame(database);
    // Only a power loss explains a torn log end. With other damage, new commits would overwrite the unreadable commits
    // and build on pages of different ages, so opening fails.
    const isTorn = frame !== undefined && lostPower && !isCopiedPast(database, frame);
    if (frame !== undefined && !isTorn) throw createCorruptError(describeDamagedLog(frame));
    if (lostPower) endLog(database);
    database.pragma(`page_size = ${PAGE_BYTES}`);
    // This must precede the pragma below, which writes the first page.
    if (blank) setChecksums(database);
    // Incremental auto-vacuum returns space that retention has freed, in small steps.
    if (blank) database.pragma('auto_vacuum = INCREMENTAL');
    // A journal file left by a killed writer would make the recording unreadable until a writer opens it: see
    // committer.ts.
    if (!isWal(database)) database.pragma('journal_mode = MEMORY');
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = NORMAL');
    database.pragma(`cache_size = -${CACHE_KIBIBYTES}`);
    database.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    if (blank) create(database, origin);
    return database;
  } catch (error) {
    database?.close();
    throw openError(error, path);
  }
}

/**
 * Copies the log that a power loss left to the file. A disk writes unsynced frames in any order, so the readable log
 * ends at its first missing frame. If new commits were appended there, the frames after them would look like damage.
 * Dropping those frames is safe: SQLite syncs the log before it copies frames to the file, and `isCopiedPast` has shown
 * that none of them was copied.
 */
function endLog(database: Database.Database): void {
  database.pragma('wal_checkpoint(TRUNCATE)');
  const frame = findDamagedFrame(database);
  if (frame !== undefined) throw createCorruptError(describeDamagedLog(frame));
}

function isWal(database: Database.Database): boolean {
  return database.pragma('journal_mode', { simple: true }) === 'wal';
}

function openError(error: unknown, path: string): unknown {
  const known = toRecordingError(error, path);
  if ((known as { code?: unknown }).code !== 'recording_not_readable') return known;
  const message = `${path} cannot be written: check owner and mode of the file and its folder`;
  return new RecordingError('recording_not_writable', message, error);
}

function create(database: Database.Database, origin: RecordingOrigin): void {
  const { recordingId = randomBytes(8).toString('hex'), node, bootId, machineId, createdNs } = origin;
  database.transaction(() => {
    database.exec(CREATE_TABLES);
    const add = database.prepare(ADD_META);
    add.run('recording_id', recordingId);
    add.run('node', node);
    add.run('boot_id', bootId);
    add.run('machine_id', machineId);
    add.run('created_ns', createdNs);
    add.run('next_number', 0n);
    // The columns are added in the transaction that creates the tables, so that a reader never sees tables without
    // columns.
    addColumns(database, STORED_COLUMNS);
    database.pragma(`application_id = ${APPLICATION_ID}`);
    database.pragma(`user_version = ${FORMAT_VERSION}`);
  })();
}

export interface ColumnPlaces {
  /** Id of each column in this file. */
  ids: ReadonlyMap<string, number>;
  /** The columns in each piece of a sealed segment. */
  pieces: ReadonlyMap<number, readonly Column[]>;
}

/** Reads the ids and pieces of a file's columns, and adds the columns that the file does not have yet. */
export function readColumnPlaces(database: Database.Database): ColumnPlaces {
  const read = database.prepare<[], [string, number, number]>(COLUMN_PLACES).raw();
  const known = new Set(read.all().map(([name]) => name));
  const missing = STORED_COLUMNS.filter(({ name }) => !known.has(name));
  if (missing.length > 0) database.transaction(() => addColumns(database, missing))();
  const ids = new Map<string, number>();
  const pieces = new Map<number, Column[]>();
  for (const [name, id, piece] of read.all()) {
    const column = STORED_COLUMNS.find((candidate) => candidate.name === name);
    if (!column) continue;
    ids.set(name, id);
    pieces.set(piece, [...(pieces.get(piece) ?? []), column]);
  }
  return { ids, pieces };
}

function addColumns(database: Database.Database, columns: readonly Column[]): void {
  const add = database.prepare(ADD_COLUMN);
  for (const column of columns) add.run(column.name, column.storage, choosePiece(column));
}
