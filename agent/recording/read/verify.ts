/** Reads all of a recording, and says which parts of it are damaged. Nothing is changed. */
import type Database from 'better-sqlite3';
import { damagedFrame, damagedLog, damagedPages, hasChecksums, openDatabase } from '../format/database.ts';
import { type RecordingError, toRecordingError } from '../format/errors.ts';
import { openReader, type RecordingReader } from './reader.ts';
import { isDamage } from './salvage.ts';
import { checkSizes } from './sizes.ts';

/** Of each kind: a file that has more is as good as gone. */
const LISTED_MAX = 100;

const BUSY_TIMEOUT_MS = 2000;

const TABLES = "SELECT name FROM main.sqlite_schema WHERE type = 'table' ORDER BY name";
const INDEXES = `
SELECT name, tbl_name, sql
FROM main.sqlite_schema
WHERE type = 'index' AND sql IS NOT NULL
ORDER BY name`;
/** An index of part of a table can only be asked for that part. */
const CONDITION = /\bWHERE\b.*$/s;

export interface LostTime {
  fromNs: bigint;
  toNs: bigint;
  /** 0: not known. */
  events: number;
}

export interface Verified {
  recordingId: string;
  node: string;
  formatVersion: number;
  /** False of formats 1 and 2: there only columns of events are sure to be what they were. */
  hasChecksums: boolean;
  /** That were read. */
  events: number;
  pages: number;
  /** Page numbers, the first ones. */
  damagedPages: number[];
  /** Tables and indexes that cannot be read to their ends. */
  damagedParts: string[];
  /** What SQLite says of its structure, or what else could not be read. */
  problems: string[];
  lost: LostTime[];
}

/** @throws RecordingError what keeps it from being opened at all */
export function verifyRecording(path: string): Verified {
  const reader = openReader(path);
  try {
    const database = openDatabase(path, { readonly: true, timeout: BUSY_TIMEOUT_MS });
    try {
      return verified(database, reader, path);
    } finally {
      database.close();
    }
  } catch (error) {
    throw toRecordingError(error, path);
  } finally {
    reader.close();
  }
}

export function isWhole({ damagedPages, damagedParts, problems, lost }: Verified): boolean {
  return [damagedPages, damagedParts, problems, lost].every(({ length }) => length === 0);
}

function verified(database: Database.Database, reader: RecordingReader, path: string): Verified {
  const problems: string[] = [];
  const tried = <T>(work: () => T): T | undefined => {
    try {
      return work();
    } catch (error) {
      if (!isDamage(error)) throw error;
      problems.push((toRecordingError(error, path) as RecordingError).message);
      return undefined;
    }
  };
  checkSizes(database);
  const damagedParts = [...damagedTables(database), ...damagedIndexes(database)];
  problems.push(...structureProblems(database));
  const frame = damagedFrame(database);
  if (frame !== undefined) problems.push(damagedLog(frame));
  // The rest is asked for again where a part is known to be damaged: what it says is in it.
  const events = tried(() => countEvents(reader)) ?? 0;
  tried(() => void reader.clockSteps());
  tried(() => {
    while (!reader.transactionIndex.step());
  });
  tried(() => void reader.info());
  tried(() => void reader.losses());
  const lost = reader.foundDamage().losses;
  return {
    recordingId: reader.recordingId,
    node: reader.node,
    formatVersion: reader.formatVersion(),
    hasChecksums: hasChecksums(database),
    events,
    pages: database.pragma('page_count', { simple: true }) as number,
    damagedPages: damagedPages(database, LISTED_MAX),
    damagedParts,
    problems: [...new Set(problems)].slice(0, LISTED_MAX),
    lost: lost.slice(0, LISTED_MAX).map(({ fromNs, toNs, count }) => ({ fromNs, toNs, events: count })),
  };
}

function countEvents(reader: RecordingReader): number {
  let events = 0;
  for (const block of reader.scan({})) events += block.rowCount;
  return events;
}

function damagedTables(database: Database.Database): string[] {
  const tables = database.prepare<[], string>(TABLES).pluck().all();
  return tables.filter((name) => !canRead(database, `SELECT * FROM main."${name}" NOT INDEXED`));
}

function damagedIndexes(database: Database.Database): string[] {
  const indexes = database.prepare<[], [string, string, string]>(INDEXES).raw().all();
  const condition = (sql: string) => CONDITION.exec(sql)?.[0] ?? '';
  return indexes
    .filter(([name, table, sql]) => {
      const all = `SELECT count(*) FROM main."${table}" INDEXED BY "${name}" ${condition(sql)}`;
      return !canRead(database, all);
    })
    .map(([name]) => name);
}

function canRead(database: Database.Database, query: string): boolean {
  try {
    for (const row of database.prepare(query).raw().iterate()) void row;
    return true;
  } catch (error) {
    if (!isDamage(error)) throw error;
    return false;
  }
}

/** SQLite looks at the order of keys, and for entries that an index lacks. */
function structureProblems(database: Database.Database): string[] {
  try {
    const found = database.prepare<[], string>(`PRAGMA main.integrity_check(${LISTED_MAX})`).pluck().all();
    return found.flatMap((text) => text.split('\n')).filter((text) => text !== 'ok' && !text.startsWith('***'));
  } catch (error) {
    if (!isDamage(error)) throw error;
    return [(error as Error).message];
  }
}
