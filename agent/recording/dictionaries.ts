/** The writer's dictionaries: names, files and contexts. */
import type Database from 'better-sqlite3';
import type { FileKind } from '../../bpf/schema/owner.ts';
import { hashWriter } from './context_hash.ts';
import { Dictionary, REMEMBERED_MAX } from './dictionary.ts';
import { RecentMap } from './recent_map.ts';

const ADD_NAME = 'INSERT INTO name VALUES (?, ?)';
const ADD_FILE = 'INSERT INTO file VALUES (?, ?, ?)';
const ADD_CONTEXT = 'INSERT INTO context VALUES (?, ?, ?, ?, ?)';
const TRANSACTION_KEY = 'SELECT transaction_key FROM context WHERE context_id = ?';

/** Oldest first, so that the newest are the last to be forgotten. */
const latest = (table: string, id: string) =>
  `SELECT * FROM (SELECT * FROM ${table} ORDER BY ${id} DESC LIMIT ${REMEMBERED_MAX / 2}) ORDER BY ${id}`;

export interface ContextText {
  transactionId: string | null;
  traceId: string | null;
  spanId: string | null;
}

interface ContextEntry extends ContextText {
  transactionKey: number;
}

export interface Dictionaries {
  nameId(text: string): number;
  fileId(path: string, kind: FileKind): number;
  contextId(context: ContextText): number;
  /** The same number for all contexts of a transaction, 0 without one. */
  transactionKeyOf(contextId: number): number;
  /** Inside a flush's transaction. */
  writePending(): void;
  committed(): void;
}

const fileKey = (path: string, kind: string) => `${kind}\n${path}`;
const contextKey = ({ transactionId, traceId, spanId }: ContextText) =>
  JSON.stringify([transactionId, traceId, spanId]);

export function openDictionaries(database: Database.Database): Dictionaries {
  const lastId = (table: string, id: string) =>
    database.prepare<[], number>(`SELECT coalesce(max(${id}), 0) FROM ${table}`).pluck().get()!;
  const addName = database.prepare(ADD_NAME);
  const addFile = database.prepare(ADD_FILE);
  const addContext = database.prepare(ADD_CONTEXT);
  const storedKey = database.prepare<[number], number>(TRANSACTION_KEY).pluck();
  const writeHashes = hashWriter(database);

  const names = new Dictionary<string>(lastId('name', 'name_id'), (id, text) => addName.run(id, text));
  const files = new Dictionary<{ path: string; kind: string }>(lastId('file', 'file_id'), (id, { path, kind }) =>
    addFile.run(id, path, kind),
  );
  let lastContextId = lastId('context', 'context_id');
  const contexts = new Dictionary<ContextEntry>(lastContextId, (id, entry) =>
    addContext.run(id, entry.transactionKey, entry.transactionId, entry.traceId, entry.spanId),
  );
  const transactionKeys = new RecentMap<string, number>(REMEMBERED_MAX);
  const keysOfContexts = new RecentMap<number, number>(REMEMBERED_MAX);

  const rememberContext = (id: number, transactionId: string | null, transactionKey: number) => {
    keysOfContexts.set(id, transactionKey);
    if (transactionId !== null) transactionKeys.set(transactionId, transactionKey);
  };

  for (const row of rows<{ name_id: number; text: string }>(latest('name', 'name_id'))) {
    names.remember(row.text, row.name_id);
  }
  for (const row of rows<{ file_id: number; path: string; kind: string }>(latest('file', 'file_id'))) {
    files.remember(fileKey(row.path, row.kind), row.file_id);
  }
  for (const row of rows<{
    context_id: number;
    transaction_key: number;
    transaction_id: string | null;
    trace_id: string | null;
    span_id: string | null;
  }>(latest('context', 'context_id'))) {
    const text = { transactionId: row.transaction_id, traceId: row.trace_id, spanId: row.span_id };
    contexts.remember(contextKey(text), row.context_id);
    rememberContext(row.context_id, row.transaction_id, row.transaction_key);
  }

  function rows<Row>(sql: string): IterableIterator<Row> {
    return database.prepare<[], Row>(sql).iterate();
  }

  return {
    nameId: (text) => (text === '' ? 0 : (names.find(text) ?? names.add(text, text))),
    fileId(path, kind) {
      const key = fileKey(path, kind);
      return files.find(key) ?? files.add(key, { path, kind });
    },
    contextId(context) {
      const { transactionId, traceId, spanId } = context;
      if (transactionId === null && traceId === null && spanId === null) return 0;
      const key = contextKey(context);
      const known = contexts.find(key);
      if (known !== undefined) return known;
      const entry = { transactionId, traceId, spanId, transactionKey: 0 };
      const id = contexts.add(key, entry);
      if (id === 0) return 0;
      lastContextId = id;
      if (transactionId !== null) entry.transactionKey = transactionKeys.get(transactionId) ?? id;
      rememberContext(id, transactionId, entry.transactionKey);
      return id;
    },
    transactionKeyOf(contextId) {
      const known = keysOfContexts.get(contextId);
      if (known !== undefined) return known;
      const stored = storedKey.get(contextId) ?? 0;
      keysOfContexts.set(contextId, stored);
      return stored;
    },
    writePending() {
      names.writePending();
      files.writePending();
      contexts.writePending();
      if (contexts.pendingCount > 0) writeHashes(lastContextId);
    },
    committed() {
      for (const dictionary of [names, files, contexts]) dictionary.committed();
    },
  };
}
