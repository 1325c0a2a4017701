/** The tables of the dictionaries, for the half of a writer that owns the database. */
import type Database from 'better-sqlite3';
import type { NextIds } from '../format/ids.ts';
import { IDS_IN_USE_MAX } from '../format/ids.ts';
import { RecentMap } from '../recent_map.ts';
import type { Batch, ContextRow, FileRow, OpenedRecording } from './batch.ts';
import { openContextHashes } from './context_hashes.ts';
import { CONTEXTS_KNOWN_MAX } from './dictionaries.ts';

const ADD_NAME = 'INSERT INTO name VALUES (?, ?)';
const ADD_FILE = 'INSERT INTO file VALUES (?, ?, ?)';
const ADD_CONTEXT = 'INSERT INTO context VALUES (?, ?, ?, ?, ?)';
const TRANSACTION = `
SELECT transaction_key AS transactionKey, transaction_id AS transactionId, trace_id AS traceId
FROM context
WHERE context_id = ?`;

/** The newest entries, sorted with the oldest first, so that the newest are the last to be forgotten. */
const newest = (table: string, id: string) =>
  `SELECT * FROM (SELECT * FROM ${table} ORDER BY ${id} DESC LIMIT ${IDS_IN_USE_MAX / 2}) ORDER BY ${id}`;

export interface StoredDictionaries {
  read(): Omit<OpenedRecording, 'nextNumber'>;
  /** Must be called inside a flush's transaction. */
  write(entries: Pick<Batch, 'names' | 'files' | 'contexts'>): void;
  /** Returns undefined for a context without a transaction. */
  transactionOf(contextId: number): ContextTransaction | undefined;
  /** The next ids, as far as entries are written. */
  nextIds(): NextIds;
}

export interface ContextTransaction {
  /** The same number for all contexts of a transaction. */
  transactionKey: number;
  transactionId: string;
  traceId: string | null;
}

export function openStoredDictionaries(database: Database.Database): StoredDictionaries {
  const lastId = (table: string, id: string) =>
    database.prepare<[], number>(`SELECT coalesce(max(${id}), 0) FROM ${table}`).pluck().get()!;
  const addName = database.prepare(ADD_NAME);
  const addFile = database.prepare(ADD_FILE);
  const addContext = database.prepare(ADD_CONTEXT);
  const stored = database.prepare<[number], ContextTransaction | { transactionId: null }>(TRANSACTION);
  const hashes = openContextHashes(database);
  /** Null for a context without a transaction. */
  const transactions = new RecentMap<number, ContextTransaction | null>(CONTEXTS_KNOWN_MAX);
  const last = {
    name: lastId('name', 'name_id'),
    file: lastId('file', 'file_id'),
    context: lastId('context', 'context_id'),
  };

  const rows = <Row>(sql: string) => database.prepare<[], Row>(sql).raw().all();

  return {
    read: () => ({
      lastNameId: last.name,
      lastFileId: last.file,
      lastContextId: last.context,
      names: rows<[number, string]>(newest('name', 'name_id')).map(([id, entry]) => ({ id, entry })),
      files: rows<[number, ...FileRow]>(newest('file', 'file_id')).map(([id, ...entry]) => ({ id, entry })),
      contexts: rows<[number, ...ContextRow]>(newest('context', 'context_id')).map(([id, ...entry]) => ({ id, entry })),
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
    transactionOf(contextId) {
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
