/**
 * Limits that no recording of kreplay exceeds. A file that exceeds a limit does not come from kreplay, and is rejected
 * before its values are read.
 */
import type Database from 'better-sqlite3';
import { buildGroupsSql, type HashLevel, LEVELS } from '../format/context_hash.ts';
import { createCorruptError } from '../format/errors.ts';
import { WORD_MAX } from '../format/losses.ts';
import { RecentMap } from '../recent_map.ts';
import { isDamage } from './segment_index.ts';

/** Maximum size of a name, a path or an identifier, in bytes. */
export const TEXT_MAX = 65_536;

/** Maximum size of a value, in bytes, of each column with texts or blobs, and of the values of `meta`. */
const LIMITS: readonly (readonly [table: string, column: string, bytes: number])[] = [
  ['meta', 'value', TEXT_MAX],
  ['name', 'text', TEXT_MAX],
  ['file', 'path', TEXT_MAX],
  ['context', 'transaction_id', TEXT_MAX],
  ['context', 'trace_id', TEXT_MAX],
  ['context', 'span_id', TEXT_MAX],
  ['transaction_summary', 'services', TEXT_MAX],
  ['loss', 'cause', WORD_MAX],
  ['loss', 'event_type', WORD_MAX],
  ['clock', 'kind', WORD_MAX],
  ['segment', 'services', 4 * TEXT_MAX],
  ['segment', 'facts', TEXT_MAX],
  ['segment', 'data', 8 * 1024 * 1024],
  ['segment_piece', 'data', 8 * 1024 * 1024],
];

/**
 * Maximum number of rows of the tables that are read as a whole. An agent that loses events in every drain of the rings
 * writes this many losses in five hours.
 */
const ROWS_MAX = 100_000;
const WHOLE_TABLES = ['meta', 'column_name', 'service', 'pin', 'loss', 'clock'];

/**
 * Number of groups of hashes that may be less than half full. A lookup by text seeks in each group, so the number of
 * groups is limited. Contexts are numbered without gaps, so only old groups become sparse: there, retention keeps only
 * the contexts of pins.
 */
const SPARSE_GROUPS_MAX = 4096;

const countGroups = (level: HashLevel) => `
WITH RECURSIVE ${buildGroupsSql(level)}
SELECT count(number) FROM (SELECT number FROM groups LIMIT ?)`;

const buildLastGroupSql = ({ table, groupShift }: HashLevel) =>
  `SELECT coalesce(max(key) >> ${groupShift}, -1) FROM ${table}`;

const COLUMNS = `
SELECT entry.name || '.' || attribute.name
FROM main.sqlite_schema AS entry JOIN pragma_table_info(entry.name, 'main') AS attribute`;

/**
 * Calls `look`; returns undefined if a page is unreadable. Values after that page need no check, because they cannot be
 * read later.
 */
function readUnlessDamaged(look: () => unknown): unknown {
  try {
    return look();
  } catch (error) {
    if (!isDamage(error)) throw error;
    return undefined;
  }
}

/** Checks sizes before any value is read: SQLite stores the lengths at the start of a row. */
export function checkSizes(database: Database.Database): void {
  const tables = new Set(database.prepare<[], string>('SELECT name FROM main.sqlite_schema').pluck().all());
  // A damaged schema may lack a column. Reading that column later reports the damage.
  const columns = new Set(database.prepare<[], string>(COLUMNS).pluck().all());
  for (const [table, column, bytes] of LIMITS.filter(([table, column]) => columns.has(`${table}.${column}`))) {
    const tooLong = database.prepare<[number]>(`SELECT 1 FROM ${table} WHERE octet_length(${column}) > ? LIMIT 1`);
    const found = readUnlessDamaged(() => tooLong.get(bytes));
    if (found) throw createCorruptError(`its table ${table} has values that are longer than any recording has`);
  }
  for (const table of WHOLE_TABLES.filter((name) => tables.has(name))) {
    const found = readUnlessDamaged(() => database.prepare(`SELECT 1 FROM ${table} LIMIT 1 OFFSET ${ROWS_MAX}`).get());
    if (found) throw createCorruptError(`its table ${table} has more rows than any recording has`);
  }
  if (readUnlessDamaged(() => hasTooManyHashes(database)))
    throw createCorruptError('its hashes of contexts are of more contexts than it has');
}

function hasTooManyHashes(database: Database.Database): boolean {
  const contexts = database.prepare<[], [number, number]>('SELECT count(*), coalesce(max(context_id), 0) FROM context');
  const [count, last] = contexts.raw().get()!;
  return LEVELS.some((level) => {
    // A damaged schema may lack a level. Reading that level later reports the damage.
    const isThere = database.prepare("SELECT 1 FROM pragma_table_info(?, 'main') WHERE name = 'key'").get(level.table);
    if (isThere === undefined) return false;
    const groupsMax = SPARSE_GROUPS_MAX + Math.ceil((2 * count) / level.size);
    const groups = database
      .prepare<[number], number>(countGroups(level))
      .pluck()
      .get(groupsMax + 1)!;
    const lastContext = database.prepare<[], number>(buildLastGroupSql(level)).pluck().get()! * level.size;
    return groups > groupsMax || lastContext >= last;
  });
}

/*
 * Caches answers until a writer commits. Many queries are about the same transaction, and most files have no writer.
 */

/** Limits that together bound the memory of the cache, whatever clients request. */
const ANSWERS_MAX = 512;
const LIST_MAX = 100;
const KEY_LENGTH_MAX = 1000;

type Argument = string | number | bigint | undefined;

/**
 * Returns a function that caches the answers of `work`. Callers share an answer and must not change it. An answer is
 * not cached if `isSmall` returns false for it.
 */
export type Keep = <Arguments extends readonly Argument[], Answer>(
  work: (...args: Arguments) => Answer,
  isSmall?: (answer: Answer) => boolean,
) => (...args: Arguments) => Answer;

/** Returns whether a list is short enough to be cached. Longer lists are read again for each query. */
export const isShort = ({ length }: readonly unknown[]): boolean => length <= LIST_MAX;

/** Returns a cache. `version` returns a number that changes whenever another connection has committed. */
export function keepUntilCommit(version: () => number): Keep {
  return (work, isSmall = () => true) => {
    let keptAt = version();
    let kept = new RecentMap<string, { answer: ReturnType<typeof work> }>(ANSWERS_MAX);
    return (...args) => {
      if (version() !== keptAt) {
        keptAt = version();
        kept = new RecentMap(ANSWERS_MAX);
      }
      const key = buildArgumentsKey(args);
      const known = kept.get(key);
      if (known) return known.answer;
      const answer = work(...args);
      if (isSmall(answer) && key.length <= KEY_LENGTH_MAX) kept.set(key, { answer });
      return answer;
    };
  };
}

function buildArgumentsKey(args: readonly Argument[]): string {
  return args.map((value) => `${typeof value} ${String(value).length} ${String(value)}`).join(' ');
}
