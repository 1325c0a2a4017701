/**
 * Opens connections to recordings. The pages of a recording have checksums (native/pages), and the length of its values
 * is limited.
 */
import { createRequire } from 'node:module';
import Database from 'better-sqlite3';

const EXTENSION = createRequire(import.meta.url).resolve('#pages');

/**
 * The maximum size of a text, a blob or a row, in bytes. The longest values that kreplay uses are a segment's columns
 * and the list of context ids in a query.
 */
const LENGTH_MAX = 16 * 1024 * 1024;

/** Loads the SQLite extension, through which SQLite then opens all files of the process. */
function load(): void {
  const database = new Database(':memory:');
  database.loadExtension(EXTENSION);
  database.close();
}

load();

export function openDatabase(path: string, options: Database.Options): Database.Database {
  const database = new Database(path, options);
  try {
    database.loadExtension(EXTENSION);
    // This query makes SQLite parse the whole schema under the lower length limit that the extension sets at first.
    database.prepare('SELECT 1 FROM main.sqlite_schema').get();
    database.prepare<[number]>('SELECT limit_length(?)').get(LENGTH_MAX);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Returns whether all pages read so far have correct checksums. */
export function hasChecksums(database: Database.Database): boolean {
  return database.prepare<[], number>('SELECT checksums()').pluck().get() === 1;
}

/** Enables checksums for the pages of a new file. The caller must do this before the first write to the file. */
export function setChecksums(database: Database.Database): void {
  database.prepare('SELECT set_checksums()').get();
}

/** Copies the database to `path`, with checksums. */
export function copyTo(database: Database.Database, path: string): void {
  const setInCopies = database.prepare<[number]>('SELECT set_checksums_of_copies(?)').pluck();
  setInCopies.get(1);
  try {
    database.prepare('VACUUM INTO ?').run(path);
  } finally {
    setInCopies.get(0);
  }
}

/** Returns the numbers of the file's pages that do not match their checksums, at most the first `most` of them. */
export function findDamagedPages(database: Database.Database, most: number): number[] {
  return JSON.parse(database.prepare<[number], string>('SELECT damaged_pages(?)').pluck().get(most)!);
}

/**
 * Returns the number of the damaged frame of the write-ahead log that makes all later commits unreadable; undefined if
 * all commits can be read. The caller must have read from the database before.
 */
export function findDamagedFrame(database: Database.Database): number | undefined {
  return database.prepare<[], number | null>('SELECT damaged_frame()').pluck().get() ?? undefined;
}

/**
 * Returns whether a checkpoint may have copied frames after `frame` from the log to the file. If so, the file has the
 * last version of every page in the frames from `frame` to some later frame. Cutting off the log at `frame` would then
 * leave pages of different ages in the file.
 */
export function isCopiedPast(database: Database.Database, frame: number): boolean {
  const text = database.prepare<[number], string>('SELECT logged_pages(?)').pluck().get(frame)!;
  const others = new Set<number>();
  return (JSON.parse(text) as number[]).some((page) => {
    if (page > 0) others.delete(page);
    else others.add(-page);
    return others.size === 0;
  });
}

export function describeDamagedLog(frame: number): string {
  return `its write-ahead log is damaged: commits from frame ${frame} on cannot be read`;
}
