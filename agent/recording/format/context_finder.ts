/** Finds contexts by transaction or trace, with one seek for each group of hashes: see context_hash.ts. */
import type Database from 'better-sqlite3';
import {
  BATCH_SIZE,
  buildGroupsSql,
  buildKeyContextSql,
  HASHED_CONTEXTS,
  type HashLevel,
  hashText,
  LEVELS,
} from './context_hash.ts';

const findContexts = (level: HashLevel, column: 'transaction_id' | 'trace_id') => `
WITH RECURSIVE ${buildGroupsSql(level)},
starts (start) AS (
  SELECT (number << ${level.groupShift}) | (:hash << ${level.placeBits}) FROM groups WHERE number IS NOT NULL
)
SELECT context.context_id, context.transaction_key
FROM starts
CROSS JOIN ${level.table} ON key BETWEEN start AND start + ${level.size - 1}
JOIN context ON context.context_id = ${buildKeyContextSql(level)}
WHERE context.${column} = :text`;

/**
 * SQL that searches all levels. During the merge of a group, its contexts are in two levels; UNION removes the
 * duplicates.
 */
const findInLevels = (column: 'transaction_id' | 'trace_id') =>
  LEVELS.map((level) => `SELECT * FROM (${findContexts(level, column)})`).join('\nUNION\n');

/** SQL for the contexts after `:after` whose hashes may not be in the tables yet. */
const NEWER = `
SELECT context_id, transaction_key, transaction_id, trace_id
FROM context
WHERE context_id > max(:after, (${HASHED_CONTEXTS}))
ORDER BY context_id`;

export interface FoundContext {
  context_id: number;
  transaction_key: number;
}

export interface ContextFinder {
  findByTransaction(id: string): FoundContext[];
  findByTrace(id: string): FoundContext[];
}

export function createContextFinder(database: Database.Database): ContextFinder {
  const byTransaction = database.prepare<[object], FoundContext>(findInLevels('transaction_id'));
  const byTrace = database.prepare<[object], FoundContext>(findInLevels('trace_id'));
  const unhashed = createUnhashedReader(database);
  return {
    findByTransaction(text) {
      const { transactions } = unhashed();
      return mergeFoundContexts(byTransaction.all({ hash: hashText(text), text }), transactions.get(text));
    },
    findByTrace(text) {
      const { traces } = unhashed();
      return mergeFoundContexts(byTrace.all({ hash: hashText(text), text }), traces.get(text));
    },
  };
}

/** Joins two results without duplicates. A context that was read before its hash was written is in both results. */
function mergeFoundContexts(hashed: FoundContext[], others: readonly FoundContext[] = []): FoundContext[] {
  const known = new Set(hashed.map(({ context_id }) => context_id));
  return [...hashed, ...others.filter(({ context_id }) => !known.has(context_id))];
}

type ContextsByText = Map<string, FoundContext[]>;

type NewerContext = [contextId: number, transactionKey: number, transactionId: string | null, traceId: string | null];

/**
 * Returns a function that returns the contexts without hashes, grouped by text. The function caches the contexts that
 * it has read, and starts over when it has cached more than two batches. The cache may still include contexts that have
 * been hashed meanwhile; contexts never change, so the cached copies stay correct.
 */
function createUnhashedReader(database: Database.Database) {
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
