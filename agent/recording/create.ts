/** Opens the file for the writer: creates it, or checks that it is one of ours. */
import { randomBytes } from 'node:crypto';
import Database from 'better-sqlite3';
import { COLUMNS } from '../../bpf/schema/columns.ts';
import { RecordingError, toRecordingError } from './errors.ts';
import { APPLICATION_ID, CREATE_TABLES, checkFormat, FORMAT_VERSION, isBlank, PAGE_BYTES } from './format.ts';

/** A log of 4 MB: the pages that every flush changes are then copied to the main file once in many flushes. */
const CHECKPOINT_PAGES = 8000;

/** A reader may hold a lock for the moment in which it recovers a log. */
const BUSY_TIMEOUT_MS = 1000;

const ADD_META = 'INSERT INTO meta VALUES (?, ?)';
const ADD_COLUMN = 'INSERT INTO column_name (name, storage) VALUES (?, ?)';
const COLUMN_IDS = 'SELECT name, column_id FROM column_name';

export interface RecordingOrigin {
  node: string;
  bootId: string;
  machineId: string;
  createdNs: bigint;
}

export function openForWriting(path: string, origin: RecordingOrigin): Database.Database {
  let database: Database.Database | undefined;
  try {
    database = new Database(path, { timeout: BUSY_TIMEOUT_MS });
    const blank = isBlank(database);
    if (!blank) checkFormat(database, path);
    database.pragma(`page_size = ${PAGE_BYTES}`);
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = NORMAL');
    database.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    if (blank) create(database, origin);
    return database;
  } catch (error) {
    database?.close();
    throw openError(error, path);
  }
}

function openError(error: unknown, path: string): unknown {
  const known = toRecordingError(error, path);
  if ((known as { code?: unknown }).code !== 'recording_not_readable') return known;
  const message = `${path} can not be written: check owner and mode of the file and its folder`;
  return new RecordingError('recording_not_writable', message, error);
}

function create(database: Database.Database, { node, bootId, machineId, createdNs }: RecordingOrigin): void {
  database.transaction(() => {
    database.exec(CREATE_TABLES);
    const add = database.prepare(ADD_META);
    add.run('recording_id', randomBytes(8).toString('hex'));
    add.run('node', node);
    add.run('boot_id', bootId);
    add.run('machine_id', machineId);
    add.run('created_ns', createdNs);
    add.run('next_number', 0);
    database.pragma(`application_id = ${APPLICATION_ID}`);
    database.pragma(`user_version = ${FORMAT_VERSION}`);
  })();
}

/** Id of each column in this file; those that the file does not know yet are added. */
export function columnIds(database: Database.Database): Map<string, number> {
  const read = database.prepare<[], [string, number]>(COLUMN_IDS).raw();
  const known = new Map(read.all());
  const missing = COLUMNS.filter(({ name }) => !known.has(name));
  if (missing.length === 0) return known;
  const add = database.prepare(ADD_COLUMN);
  database.transaction(() => {
    for (const { name, storage } of missing) add.run(name, storage);
  })();
  return new Map(read.all());
}
