/**
 * Opens connections to recordings: their pages have checksums (native/pages), and the length of their values is
 * limited.
 */
import { createRequire } from 'node:module';
import Database from 'better-sqlite3';

const EXTENSION = createRequire(import.meta.url).resolve('#pages');

/**
 * The most bytes of a text, a blob or a row. The longest values that kreplay uses are a segment's columns and the list
 * of context ids in a query.
 */
const LENGTH_MAX = 16 * 1024 * 1024;

/** Loads the extension, through which SQLite then opens all files of the process. */
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
    // This makes SQLite read and parse the whole schema; until then the extension has set a lower limit.
    database.prepare('SELECT 1 FROM main.sqlite_schema').get();
    database.prepare<[number]>('SELECT limit_length(?)').get(LENGTH_MAX);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Whether all pages read so far have checksums that are correct. */
export function hasChecksums(database: Database.Database): boolean {
  return database.prepare<[], number>('SELECT checksums()').pluck().get() === 1;
}

/** Adds checksums to the pages of a new file; must be called before anything is written to the file. */
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

/** Returns the numbers of the first `most` pages of the file that do not match their checksums. */
export function findDamagedPages(database: Database.Database, most: number): number[] {
  return JSON.parse(database.prepare<[number], string>('SELECT damaged_pages(?)').pluck().get(most)!);
}

/**
 * Returns the damaged frame of the write-ahead log after which no commit can be read; undefined when all commits can be
 * read. Must be called after something was read.
 */
export function findDamagedFrame(database: Database.Database): number | undefined {
  return database.prepare<[], number | null>('SELECT damaged_frame()').pluck().get() ?? undefined;
}

/**
 * Whether SQLite may have copied frames after `frame` from the log to the file. The file then has all pages of the
 * frames up to some later frame, each in its last logged version. Without those frames, some pages of the file would be
 * older than others.
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
