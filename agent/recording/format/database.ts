/** Connections to recordings: their pages have checksums (native/pages), and nothing in them is longer than it may be. */
import { createRequire } from 'node:module';
import Database from 'better-sqlite3';

const EXTENSION = createRequire(import.meta.url).resolve('#pages');

/** Of a text, a blob or a row. The longest of ours are a segment's columns, and the numbers of the contexts of a query. */
const LENGTH_MAX = 16 * 1024 * 1024;

/** From then on all files of the process are opened through it. */
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
    // SQLite reads and parses the whole schema now; until then the extension has set a lower limit.
    database.prepare('SELECT 1 FROM main.sqlite_schema').get();
    database.prepare<[number]>('SELECT limit_length(?)').get(LENGTH_MAX);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Whether the pages that were read have checksums, which were right. */
export function hasChecksums(database: Database.Database): boolean {
  return database.prepare<[], number>('SELECT checksums()').pluck().get() === 1;
}

/** To be called before anything is written to a new file. */
export function setChecksums(database: Database.Database): void {
  database.prepare('SELECT set_checksums()').get();
}

/** With the checksums that the database has. */
export function copyTo(database: Database.Database, path: string): void {
  const setInCopies = database.prepare<[number]>('SELECT set_checksums_of_copies(?)').pluck();
  setInCopies.get(hasChecksums(database) ? 1 : 0);
  try {
    database.prepare('VACUUM INTO ?').run(path);
  } finally {
    setInCopies.get(0);
  }
}

/** Pages of the file that do not match their checksums, the first ones. */
export function damagedPages(database: Database.Database, most: number): number[] {
  return JSON.parse(database.prepare<[number], string>('SELECT damaged_pages(?)').pluck().get(most)!);
}

/**
 * The frame of the write-ahead log that keeps commits from being read which stand behind it; undefined when all can be
 * read. To be asked after something was read.
 */
export function damagedFrame(database: Database.Database): number | undefined {
  return database.prepare<[], number | null>('SELECT damaged_frame()').pluck().get() ?? undefined;
}

export function damagedLog(frame: number): string {
  return `its write-ahead log is damaged: commits from frame ${frame} on cannot be read`;
}
