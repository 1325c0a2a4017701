/** Reads a whole recording and reports its damaged parts. The file is not changed. */
import type Database from 'better-sqlite3';
import { describeDamagedLog, findDamagedFrame, findDamagedPages, openDatabase } from '../format/database.ts';
import { type RecordingError, toRecordingError } from '../format/errors.ts';
import { FORMAT_VERSION } from '../format/schema.ts';
import { openReader, type RecordingReader } from './reader.ts';
import { isDamage } from './segment_index.ts';
import { checkSizes } from './sizes.ts';

/** Maximum number of listed entries of each kind. A file with more damage is almost certainly lost. */
const LISTED_MAX = 100;

const BUSY_TIMEOUT_MS = 2000;

const TABLES = "SELECT name FROM main.sqlite_schema WHERE type = 'table' ORDER BY name";
const INDEXES = `
SELECT name, tbl_name, sql
FROM main.sqlite_schema
WHERE type = 'index' AND sql IS NOT NULL
ORDER BY name`;
/** The condition of a partial index. SQLite uses the index only for a query with the same condition. */
const CONDITION = /\bWHERE\b.*$/s;

export interface LostTime {
  fromNs: bigint;
  toNs: bigint;
  /** Number of lost events; 0 if it is unknown. */
  events: number;
}

export interface Verified {
  recordingId: string;
  node: string;
  formatVersion: number;
  /** Number of events that were read. */
  events: number;
  pages: number;
  /** Numbers of the first damaged pages. */
  damagedPages: number[];
  /** Tables and indexes that are not fully readable. */
  damagedParts: string[];
  /** Structural errors that SQLite reports, wrong entries, and the reasons why other parts are unreadable. */
  problems: string[];
  lost: LostTime[];
}

/**
 * Verifies a recording.
 * @throws RecordingError if the file cannot be opened at all
 */
export function verifyRecording(path: string): Verified {
  const reader = openReader(path);
  try {
    const database = openDatabase(path, { readonly: true, timeout: BUSY_TIMEOUT_MS });
    try {
      return verifyDatabase(database, reader, path);
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

function verifyDatabase(database: Database.Database, reader: RecordingReader, path: string): Verified {
  const problems: string[] = [];
  const attempt = <T>(work: () => T): T | undefined => {
    try {
      return work();
    } catch (error) {
      if (!isDamage(error)) throw error;
      problems.push((toRecordingError(error, path) as RecordingError).message);
      return undefined;
    }
  };
  checkSizes(database);
  const damagedParts = [...findDamagedTables(database), ...findDamagedIndexes(database)];
  problems.push(...findStructureProblems(database));
  const frame = findDamagedFrame(database);
  if (frame !== undefined) problems.push(describeDamagedLog(frame));
  // Reading everything through the reader finds further problems, and the losses that the damage causes.
  const events = attempt(() => countEvents(reader)) ?? 0;
  problems.push(...(attempt(() => reader.findWrongEntries(LISTED_MAX)) ?? []));
  attempt(() => void reader.clockSteps());
  attempt(() => {
    while (!reader.transactionIndex.step());
  });
  attempt(() => void reader.info());
  attempt(() => void reader.losses(undefined, undefined, 'all'));
  const lost = reader.foundDamage().losses;
  return {
    recordingId: reader.recordingId,
    node: reader.node,
    formatVersion: FORMAT_VERSION,
    events,
    pages: database.pragma('page_count', { simple: true }) as number,
    damagedPages: findDamagedPages(database, LISTED_MAX),
    damagedParts,
    problems: [...new Set(problems)].slice(0, LISTED_MAX),
    lost: lost.slice(0, LISTED_MAX).map(({ fromNs, toNs, count }) => ({ fromNs, toNs, events: count })),
  };
}

/**
 * Counts all events. Without an order, the scan decodes each segment only once, even if many segments overlap in time.
 */
function countEvents(reader: RecordingReader): number {
  let events = 0;
  for (const block of reader.scan({ order: 'none' })) events += block.rowCount;
  return events;
}

function findDamagedTables(database: Database.Database): string[] {
  const tables = database.prepare<[], string>(TABLES).pluck().all();
  return tables.filter((name) => !canRead(database, `SELECT * FROM main."${name}" NOT INDEXED`));
}

function findDamagedIndexes(database: Database.Database): string[] {
  const indexes = database.prepare<[], [string, string, string]>(INDEXES).raw().all();
  const extractCondition = (sql: string) => CONDITION.exec(sql)?.[0] ?? '';
  return indexes
    .filter(([name, table, sql]) => {
      const all = `SELECT count(*) FROM main."${table}" INDEXED BY "${name}" ${extractCondition(sql)}`;
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

/** Lets SQLite check whether keys are in order, and whether indexes are complete. */
function findStructureProblems(database: Database.Database): string[] {
  try {
    const found = database.prepare<[], string>(`PRAGMA main.integrity_check(${LISTED_MAX})`).pluck().all();
    return found.flatMap((text) => text.split('\n')).filter((text) => text !== 'ok' && !text.startsWith('***'));
  } catch (error) {
    if (!isDamage(error)) throw error;
    return [(error as Error).message];
  }
}
