/** The tables of the dictionaries in the committer, the half of a writer that owns the database. */
import type Database from 'better-sqlite3';
import {
  BATCH_SIZE,
  HASHED_CONTEXTS,
  HASHES,
  type HashLevel,
  hashText,
  LEVELS,
  MERGED_BITS,
} from '../format/context_hash.ts';
import { IDS_IN_USE_MAX, type NextIds } from '../format/ids.ts';
import { RecentMap } from '../recent_map.ts';
import type { Batch, ContextRow, FileRow, OpenedRecording } from './batch.ts';
import { CONTEXTS_KNOWN_MAX } from './dictionaries.ts';

const ADD_NAME = 'INSERT INTO name VALUES (?, ?)';
const ADD_FILE = 'INSERT INTO file VALUES (?, ?, ?)';
const ADD_CONTEXT = 'INSERT INTO context VALUES (?, ?, ?, ?, ?)';
const TRANSACTION = `
SELECT transaction_key AS transactionKey, transaction_id AS transactionId, trace_id AS traceId
FROM context
WHERE context_id = ?`;

/** Builds SQL for the newest entries, in ascending order. The caches drop the oldest entries first. */
const buildNewestSql = (table: string, id: string) =>
  `SELECT * FROM (SELECT * FROM ${table} ORDER BY ${id} DESC LIMIT ${IDS_IN_USE_MAX / 2}) ORDER BY ${id}`;

export interface StoredDictionaries {
  read(): Omit<OpenedRecording, 'nextNumber'>;
  /** Writes new entries. Must be called inside a flush's transaction. */
  write(entries: Pick<Batch, 'names' | 'files' | 'contexts'>): void;
  /** Returns the transaction of a context; undefined if the context has none. */
  findTransaction(contextId: number): ContextTransaction | undefined;
  /** Returns the ids that follow the last written ids. */
  nextIds(): NextIds;
}

export interface ContextTransaction {
  /** A number that all contexts of the transaction share. */
  transactionKey: number;
  transactionId: string;
  traceId: string | null;
}

export function openStoredDictionaries(database: Database.Database): StoredDictionaries {
  const readLastId = (table: string, id: string) =>
    database.prepare<[], number>(`SELECT coalesce(max(${id}), 0) FROM ${table}`).pluck().get()!;
  const addName = database.prepare(ADD_NAME);
  const addFile = database.prepare(ADD_FILE);
  const addContext = database.prepare(ADD_CONTEXT);
  const stored = database.prepare<[number], ContextTransaction | { transactionId: null }>(TRANSACTION);
  const hashes = openContextHashes(database);
  /** Transactions by context id; null for a context without a transaction. */
  const transactions = new RecentMap<number, ContextTransaction | null>(CONTEXTS_KNOWN_MAX);
  const last = {
    name: readLastId('name', 'name_id'),
    file: readLastId('file', 'file_id'),
    context: readLastId('context', 'context_id'),
  };

  const readRows = <Row>(sql: string) => database.prepare<[], Row>(sql).raw().all();

  return {
    read: () => ({
      lastNameId: last.name,
      lastFileId: last.file,
      lastContextId: last.context,
      names: readRows<[number, string]>(buildNewestSql('name', 'name_id')).map(([id, entry]) => ({ id, entry })),
      files: readRows<[number, ...FileRow]>(buildNewestSql('file', 'file_id')).map(([id, ...entry]) => ({ id, entry })),
      contexts: readRows<[number, ...ContextRow]>(buildNewestSql('context', 'context_id')).map(([id, ...entry]) => ({
        id,
        entry,
      })),
    }),
    write({ names, files, contexts }) {
      for (const [i, text] of names.entries.entries()) addName.run(names.firstId + i, text);
      for (const [i, [path, kind]] of files.entries.entries()) addFile.run(files.firstId + i, path, kind);
      for (const [i, [transactionKey, transactionId, traceId, spanId]] of contexts.entries.entries()) {
        const id = contexts.firstId + i;
        addContext.run(id, transactionKey, transactionId, traceId, spanId);
        hashes.add(id, transactionId, traceId);
        transactions.set(id, transactionId === null ? null : { transactionKey, transactionId, traceId });
      }
      last.name = Math.max(last.name, names.firstId + names.entries.length - 1);
      last.file = Math.max(last.file, files.firstId + files.entries.length - 1);
      last.context = Math.max(last.context, contexts.firstId + contexts.entries.length - 1);
      if (contexts.entries.length > 0) hashes.write(last.context);
    },
    findTransaction(contextId) {
      let found = transactions.get(contextId);
      if (found === undefined) {
        const row = stored.get(contextId);
        found = row && row.transactionId !== null ? row : null;
        transactions.set(contextId, found);
      }
      return found ?? undefined;
    },
    nextIds: () => ({ name: last.name + 1, file: last.file + 1, context: last.context + 1 }),
  };
}

/* Writes the hashes of contexts, and merges groups of hashes into larger groups: see ../format/context_hash.ts. */

const [BATCHES] = LEVELS;

const BATCH_CONTEXTS = `
SELECT context_id, transaction_id, trace_id
FROM context
WHERE context_id > :after AND context_id <= :after + ${BATCH_SIZE}
ORDER BY context_id`;

/**
 * SQL that writes a batch in one statement. `:hashes` has keys without the batch number, because JSON numbers are
 * doubles, which cannot represent large keys exactly.
 */
const ADD_HASHES = `
INSERT OR IGNORE INTO ${BATCHES.table}
SELECT (:after >> ${BATCHES.placeBits} << ${BATCHES.groupShift}) | value
FROM json_each(:hashes)`;

const SET_HASHED = "INSERT OR REPLACE INTO meta VALUES ('hashed_contexts', CAST(? AS INTEGER))";

/** Number of keys per merge step. A step copies about this many keys, or removes at most this many copied keys. */
const KEYS_A_STEP = 2048;
/** Number of added contexts per merge step. At this rate, the merges of all levels keep up. */
const CONTEXTS_A_STEP = 512;

interface ContextHashes {
  /** Adds a context. Must be called for each written context, in the order of ids. */
  add(contextId: number, transactionId: string | null, traceId: string | null): void;
  /** Writes the complete batches. Must be called inside the flush's transaction. */
  write(lastContextId: number): void;
}

type ContextTexts = readonly [contextId: number, transactionId: string | null, traceId: string | null];

export function openContextHashes(database: Database.Database): ContextHashes {
  const hashed = database.prepare<[], number>(HASHED_CONTEXTS).pluck();
  const setHashed = database.prepare(SET_HASHED);
  const batchContexts = database.prepare<[object], ContextTexts>(BATCH_CONTEXTS).raw();
  const addHashes = database.prepare(ADD_HASHES);
  const first = openMerge(database, LEVELS[0], LEVELS[1]);
  const second = openMerge(database, LEVELS[1], LEVELS[2]);
  /** The latest contexts without hashes, with consecutive ids. */
  let recent: ContextTexts[] = [];
  let added = 0;

  function readContextsAfter(after: number): readonly ContextTexts[] {
    const [first] = recent;
    return first && first[0] <= after + 1
      ? recent.slice(after + 1 - first[0], after + 1 - first[0] + BATCH_SIZE)
      : batchContexts.all({ after });
  }

  return {
    add(contextId, transactionId, traceId) {
      // After a failed commit, a retry adds the same contexts again, so the ids may go back.
      if (recent.length > 0 && contextId !== recent.at(-1)![0] + 1) recent = [];
      recent.push([contextId, transactionId, traceId]);
      added++;
    },
    write(lastContextId) {
      let after = hashed.get()!;
      for (; after + BATCH_SIZE <= lastContextId; after += BATCH_SIZE) {
        const hashes: number[] = [];
        for (const [contextId, transactionId, traceId] of readContextsAfter(after)) {
          const place = contextId - 1 - after;
          if (transactionId !== null) hashes.push(hashText(transactionId) * BATCH_SIZE + place);
          if (traceId !== null) hashes.push(hashText(traceId) * BATCH_SIZE + place);
        }
        // The keys are sorted so that each page is changed only once. Sorting doubles needs no comparator.
        addHashes.run({ after, hashes: JSON.stringify(Array.from(Float64Array.from(hashes).sort())) });
        setHashed.run(after + BATCH_SIZE);
        recent = recent.filter(([contextId]) => contextId > after + BATCH_SIZE);
      }
      const steps = 1 + Math.ceil(added / CONTEXTS_A_STEP);
      added = 0;
      for (let i = 0; i < steps && first.step(after); i++);
      for (let i = 0; i < steps && second.step(first.merged()); i++);
    },
  };
}

interface LevelMerge {
  /**
   * Performs a step of the merge; returns false if nothing can be merged. The lower level must have the hashes of all
   * contexts up to `hashed`.
   */
  step(hashed: number): boolean;
  /** Returns the id of the last merged context. The higher level has the hashes of all contexts up to this one. */
  merged(): number;
}

/** SQL for the positions of the merged groups in their new group. */
const PARTS = Array.from({ length: 2 ** MERGED_BITS }, (_, part) => `(${part})`).join(', ');

/**
 * Merges groups of a level into the next level, in the order of their contexts. The keys of a group are first copied,
 * one range of hashes at a time, and then removed from the lower level. So a lookup always finds them, even after a
 * writer was killed. The position in `meta` counts the ranges of each group, plus one for the removal.
 */
function openMerge(database: Database.Database, from: HashLevel, to: HashLevel): LevelMerge {
  const ranges = (2 * to.size) / KEYS_A_STEP;
  const hashesARange = HASHES / ranges;
  const metaKey = `merge_${to.table}`;
  const position = database
    .prepare<[], number>(`SELECT coalesce((SELECT value FROM meta WHERE key = '${metaKey}'), 0)`)
    .pluck();
  const setPosition = database.prepare(`INSERT OR REPLACE INTO meta VALUES ('${metaKey}', CAST(? AS INTEGER))`);
  const firstGroup = database
    .prepare<[], number | null>(`SELECT min(key) >> ${to.groupShift} FROM ${from.table}`)
    .pluck();
  const copy = database.prepare(`
WITH parts (part) AS (VALUES ${PARTS}),
starts (part, start) AS (SELECT part, ((:into << ${MERGED_BITS}) | part) << ${from.groupShift} FROM parts)
INSERT OR IGNORE INTO ${to.table}
SELECT
  (:into << ${to.groupShift})
    | ((key >> ${from.placeBits} & ${HASHES - 1}) << ${to.placeBits})
    | (part << ${from.placeBits})
    | (key & ${from.size - 1}) AS merged
FROM starts
CROSS JOIN ${from.table}
  ON key >= start + (:hash << ${from.placeBits}) AND key < start + ((:hash + ${hashesARange}) << ${from.placeBits})
ORDER BY merged`);
  const remove = database.prepare(`
DELETE FROM ${from.table}
WHERE key IN (
  SELECT key FROM ${from.table} WHERE key < (:into + 1) << ${to.groupShift} ORDER BY key LIMIT ${KEYS_A_STEP}
)`);

  /**
   * Returns the group that is being merged. Between merges, returns the next group with keys, because retention may
   * have removed all keys of old groups.
   */
  function findMergeGroup(at: number): number {
    const group = Math.floor(at / (ranges + 1));
    return at % (ranges + 1) === 0 ? Math.max(group, firstGroup.get() ?? group) : group;
  }

  return {
    step(hashed) {
      const at = position.get()!;
      const into = findMergeGroup(at);
      if ((into + 1) * to.size > hashed) return false;
      const range = at % (ranges + 1);
      let isDone = true;
      if (range < ranges) copy.run({ into, hash: range * hashesARange });
      else isDone = remove.run({ into }).changes === 0;
      setPosition.run(into * (ranges + 1) + range + (isDone ? 1 : 0));
      return true;
    },
    merged: () => Math.floor(position.get()! / (ranges + 1)) * to.size,
  };
}
