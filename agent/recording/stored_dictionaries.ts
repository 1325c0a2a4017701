/** The dictionaries' tables, as the half of a writer that owns the database sees them. */
import type Database from 'better-sqlite3';
import type { Batch, NewEntries, NextIds, OpenedRecording } from './batch.ts';
import { hashWriter } from './context_hash.ts';
import type { ContextEntry, FileEntry } from './dictionaries.ts';
import { IDS_IN_USE_MAX } from './dictionary.ts';
import { RecentMap } from './recent_map.ts';

const ADD_NAME = 'INSERT INTO name VALUES (?, ?)';
const ADD_FILE = 'INSERT INTO file VALUES (?, ?, ?)';
const ADD_CONTEXT = 'INSERT INTO context VALUES (?, ?, ?, ?, ?)';
const TRANSACTION = `
SELECT transaction_key AS transactionKey, transaction_id AS transactionId, trace_id AS traceId
FROM context
WHERE context_id = ?`;

/** Oldest first, so that the newest are the last to be forgotten. */
const newest = (table: string, id: string) =>
  `SELECT * FROM (SELECT * FROM ${table} ORDER BY ${id} DESC LIMIT ${IDS_IN_USE_MAX / 2}) ORDER BY ${id}`;

const NEWEST_CONTEXTS = newest('context', 'context_id');

export interface StoredDictionaries {
  read(): Omit<OpenedRecording, 'nextNumber'>;
  /** Inside a flush's transaction. */
  write(entries: Pick<Batch, 'names' | 'files' | 'contexts'>): void;
  /** Undefined for a context without one. */
  transactionOf(contextId: number): ContextTransaction | undefined;
  /** As far as written. */
  nextIds(): NextIds;
}

export interface ContextTransaction {
  /** The same number for all contexts of a transaction. */
  transactionKey: number;
  transactionId: string;
  traceId: string | null;
}

interface ContextRow {
  context_id: number;
  transaction_key: number;
  transaction_id: string | null;
  trace_id: string | null;
  span_id: string | null;
}

export function openStoredDictionaries(database: Database.Database): StoredDictionaries {
  const lastId = (table: string, id: string) =>
    database.prepare<[], number>(`SELECT coalesce(max(${id}), 0) FROM ${table}`).pluck().get()!;
  const addName = database.prepare(ADD_NAME);
  const addFile = database.prepare(ADD_FILE);
  const addContext = database.prepare(ADD_CONTEXT);
  const stored = database.prepare<[number], ContextTransaction | { transactionId: null }>(TRANSACTION);
  const writeHashes = hashWriter(database);
  /** Null for a context without one. */
  const transactions = new RecentMap<number, ContextTransaction | null>(IDS_IN_USE_MAX);
  const last = {
    name: lastId('name', 'name_id'),
    file: lastId('file', 'file_id'),
    context: lastId('context', 'context_id'),
  };

  function all<Row, Entry>(sql: string, entryOf: (row: Row) => { id: number; entry: Entry }): NewEntries<Entry> {
    return database.prepare<[], Row>(sql).all().map(entryOf);
  }

  return {
    read: () => ({
      lastNameId: last.name,
      lastFileId: last.file,
      lastContextId: last.context,
      names: all(newest('name', 'name_id'), (row: { name_id: number; text: string }) => ({
        id: row.name_id,
        entry: row.text,
      })),
      files: all(newest('file', 'file_id'), ({ file_id, ...entry }: FileEntry & { file_id: number }) => ({
        id: file_id,
        entry,
      })),
      contexts: all(NEWEST_CONTEXTS, (row: ContextRow): { id: number; entry: ContextEntry } => ({
        id: row.context_id,
        entry: {
          transactionKey: row.transaction_key,
          transactionId: row.transaction_id,
          traceId: row.trace_id,
          spanId: row.span_id,
        },
      })),
    }),
    write({ names, files, contexts }) {
      for (const { id, entry } of names) addName.run(id, entry);
      for (const { id, entry } of files) addFile.run(id, entry.path, entry.kind);
      for (const { id, entry } of contexts) {
        const { transactionKey, transactionId, traceId, spanId } = entry;
        addContext.run(id, transactionKey, transactionId, traceId, spanId);
        transactions.set(id, transactionId === null ? null : { transactionKey, transactionId, traceId });
      }
      last.name = names.at(-1)?.id ?? last.name;
      last.file = files.at(-1)?.id ?? last.file;
      last.context = contexts.at(-1)?.id ?? last.context;
      if (contexts.length > 0) writeHashes(last.context);
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
