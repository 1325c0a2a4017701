/**
 * Index of contexts by transaction or trace: a table with one column, a key that contains the hash of the text.
 *
 *   key   batch 19 bits | hash 31 bits | place 13 bits       context = batch * 2^13 + place + 1
 *
 * Within a batch the keys are sorted by hash, so a lookup seeks once per batch. One index over all contexts would
 * change a page at a random place of the file for every context; a batch is appended.
 */
import type Database from 'better-sqlite3';

const PLACE_BITS = 13;
const HASH_BITS = 31;
const BATCH_SHIFT = HASH_BITS + PLACE_BITS;
/** The highest batch: context ids have 32 bits, so a key is never negative. */
const BATCH_MAX = 2 ** (32 - PLACE_BITS) - 1;
const PLACE_MASK = 2 ** PLACE_BITS - 1;

/** Number of contexts in a batch. Contexts after the last complete batch are compared one by one. */
export const BATCH_SIZE = 2 ** PLACE_BITS;

const BATCH_CONTEXTS = `
SELECT context_id, transaction_id, trace_id
FROM context
WHERE context_id > :after AND context_id <= :after + ${BATCH_SIZE}
ORDER BY context_id`;

/** Writes a batch in one statement: each value is a key without its batch, which a double holds exactly. */
const ADD_HASHES = `
INSERT OR IGNORE INTO context_hash
SELECT (:after >> ${PLACE_BITS} << ${BATCH_SHIFT}) | value
FROM json_each(:hashes)`;

/** The last context whose hashes are in the table; 0 without any. */
const HASHED = "SELECT coalesce((SELECT value FROM meta WHERE key = 'hashed_contexts'), 0)";
const SET_HASHED = "INSERT OR REPLACE INTO meta VALUES ('hashed_contexts', CAST(? AS INTEGER))";

/** SQL for the start of the keys of the batch that contains an id. */
export const batchStart = (contextId: string) => `((${contextId} - 1) >> ${PLACE_BITS} << ${BATCH_SHIFT})`;

/** SQL for the context that a key stands for. */
export const CONTEXT_OF_KEY = `((key >> ${BATCH_SHIFT} << ${PLACE_BITS}) + (key & ${PLACE_MASK}) + 1)`;

/** The batches that have keys; each is found with one seek in the index. */
const BATCHES = `
batches (batch) AS (
  SELECT min(key) >> ${BATCH_SHIFT} FROM context_hash
  UNION ALL
  SELECT (SELECT min(key) >> ${BATCH_SHIFT} FROM context_hash WHERE key >= (batch + 1) << ${BATCH_SHIFT})
  FROM batches
  WHERE batch >= 0 AND batch < ${BATCH_MAX}
)`;

const COUNT_BATCHES = `
WITH RECURSIVE ${BATCHES}
SELECT count(batch) FROM (SELECT batch FROM batches LIMIT ?)`;

const LAST_BATCH = `SELECT coalesce(max(key) >> ${BATCH_SHIFT}, -1) FROM context_hash`;

const findContexts = (column: 'transaction_id' | 'trace_id') => `
WITH RECURSIVE ${BATCHES},
starts (start) AS (
  SELECT (batch << ${BATCH_SHIFT}) | (:hash << ${PLACE_BITS}) FROM batches WHERE batch IS NOT NULL
)
SELECT context.context_id, context.transaction_key
FROM starts
CROSS JOIN context_hash ON key BETWEEN start AND start + ${PLACE_MASK}
JOIN context ON context.context_id = ${CONTEXT_OF_KEY}
WHERE context.${column} = :text`;

/** Contexts that a finder has not read yet, and that may have no hashes. */
const NEWER = `
SELECT context_id, transaction_key, transaction_id, trace_id
FROM context
WHERE context_id > max(:after, (${HASHED}))
ORDER BY context_id`;

/** The high 31 bits of FNV-1a over UTF-16 code units. */
function textHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> (32 - HASH_BITS);
}

export interface HashWriter {
  /** Must be called for each context that is written, in the order of their ids. */
  add(contextId: number, transactionId: string | null, traceId: string | null): void;
  /** Writes the complete batches; must be called inside the flush's transaction. */
  write(lastContextId: number): void;
}

type ContextTexts = readonly [contextId: number, transactionId: string | null, traceId: string | null];

export function hashWriter(database: Database.Database): HashWriter {
  const hashed = database.prepare<[], number>(HASHED).pluck();
  const setHashed = database.prepare(SET_HASHED);
  const batchContexts = database.prepare<[object], ContextTexts>(BATCH_CONTEXTS).raw();
  const addHashes = database.prepare(ADD_HASHES);
  /** The latest contexts that have no hashes yet, as long as their ids are consecutive. */
  let recent: ContextTexts[] = [];

  function contextsAfter(after: number): readonly ContextTexts[] {
    const [first] = recent;
    return first && first[0] <= after + 1
      ? recent.slice(after + 1 - first[0], after + 1 - first[0] + BATCH_SIZE)
      : batchContexts.all({ after });
  }

  return {
    add(contextId, transactionId, traceId) {
      // A retry after a failed commit adds its contexts again, so the ids are not always consecutive.
      if (recent.length > 0 && contextId !== recent.at(-1)![0] + 1) recent = [];
      recent.push([contextId, transactionId, traceId]);
    },
    write(lastContextId) {
      let after = hashed.get()!;
      for (; after + BATCH_SIZE <= lastContextId; after += BATCH_SIZE) {
        const hashes: number[] = [];
        for (const [contextId, transactionId, traceId] of contextsAfter(after)) {
          const place = contextId - 1 - after;
          if (transactionId !== null) hashes.push(textHash(transactionId) * BATCH_SIZE + place);
          if (traceId !== null) hashes.push(textHash(traceId) * BATCH_SIZE + place);
        }
        // The keys are sorted so that each page is changed once, and as doubles because that needs no comparator.
        addHashes.run({ after, hashes: JSON.stringify(Array.from(Float64Array.from(hashes).sort())) });
        setHashed.run(after + BATCH_SIZE);
        recent = recent.filter(([contextId]) => contextId > after + BATCH_SIZE);
      }
    },
  };
}

/**
 * Returns the number of batches that have keys, counted up to `most`, and the number of the last one, or -1 without
 * any.
 */
export function batchesOf(database: Database.Database, most: number): { batches: number; lastBatch: number } {
  const count = database.prepare<[number], number>(COUNT_BATCHES).pluck();
  const last = database.prepare<[], number>(LAST_BATCH).pluck();
  return { batches: count.get(most)!, lastBatch: last.get()! };
}

export interface FoundContext {
  context_id: number;
  transaction_key: number;
}

export interface ContextFinder {
  ofTransaction(id: string): FoundContext[];
  ofTrace(id: string): FoundContext[];
}

export function contextFinder(database: Database.Database): ContextFinder {
  const byTransaction = database.prepare<[object], FoundContext>(findContexts('transaction_id'));
  const byTrace = database.prepare<[object], FoundContext>(findContexts('trace_id'));
  const unhashed = unhashedContexts(database);
  return {
    ofTransaction(text) {
      const { transactions } = unhashed();
      return united(byTransaction.all({ hash: textHash(text), text }), transactions.get(text));
    },
    ofTrace(text) {
      const { traces } = unhashed();
      return united(byTrace.all({ hash: textHash(text), text }), traces.get(text));
    },
  };
}

/** A context may be hashed after it was read as one that is not. */
function united(hashed: FoundContext[], others: readonly FoundContext[] = []): FoundContext[] {
  const known = new Set(hashed.map(({ context_id }) => context_id));
  return [...hashed, ...others.filter(({ context_id }) => !known.has(context_id))];
}

type ContextsByText = Map<string, FoundContext[]>;

type NewerContext = [contextId: number, transactionKey: number, transactionId: string | null, traceId: string | null];

/**
 * Returns a function that gives the contexts without hashes, by text: fewer than two batches, of which each is read
 * once. They are kept beyond that, which a lookup does not notice: contexts never change.
 */
function unhashedContexts(database: Database.Database) {
  const newer = database.prepare<[object], NewerContext>(NEWER).raw();
  let transactions: ContextsByText = new Map();
  let traces: ContextsByText = new Map();
  let count = 0;
  let after = 0;

  const add = (to: ContextsByText, text: string | null, found: FoundContext) => {
    if (text === null) return;
    const others = to.get(text);
    if (others) others.push(found);
    else to.set(text, [found]);
  };

  return () => {
    if (count > 2 * BATCH_SIZE) {
      [transactions, traces, count, after] = [new Map(), new Map(), 0, 0];
    }
    for (const [context_id, transaction_key, transactionId, traceId] of newer.all({ after })) {
      const found = { context_id, transaction_key };
      add(transactions, transactionId, found);
      add(traces, traceId, found);
      after = context_id;
      count++;
    }
    return { transactions, traces };
  };
}
