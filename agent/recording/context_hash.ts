/** Finds contexts by transaction or trace: the hash, and the batches of which the table `context_hash` consists. */
import type Database from 'better-sqlite3';

/** Batch b holds the contexts b * size + 1 .. (b + 1) * size; those after the last batch are compared one by one. */
export const BATCH_SIZE = 4096;

/** So many neighbouring batches become one, with the number of the last: a lookup has to ask each batch. */
const MERGED_BATCHES = 8;

const ADD_MERGED = `
INSERT INTO context_hash
SELECT :last, hash, context_id FROM context_hash WHERE batch >= :first AND batch < :last ORDER BY hash, context_id`;

const DELETE_MERGED = 'DELETE FROM context_hash WHERE batch >= :first AND batch < :last';

const BATCH_CONTEXTS = `
SELECT context_id, transaction_id, trace_id
FROM context
WHERE context_id > :after
ORDER BY context_id
LIMIT ${BATCH_SIZE}`;

/** A batch in one statement: each value is hash * BATCH_SIZE + place in the batch, which a double holds exactly. */
const ADD_HASHES = `
INSERT OR IGNORE INTO context_hash
SELECT :batch, value / ${BATCH_SIZE}, :batch * ${BATCH_SIZE} + 1 + value % ${BATCH_SIZE}
FROM json_each(:hashes)`;

const BATCH_COUNT = 'SELECT coalesce(max(batch) + 1, 0) FROM context_hash';

const findContexts = (column: 'transaction_id' | 'trace_id') => `
WITH RECURSIVE batches (batch) AS (
  SELECT min(batch) FROM context_hash
  UNION ALL
  SELECT (SELECT min(batch) FROM context_hash WHERE batch > batches.batch) FROM batches WHERE batch IS NOT NULL
)
SELECT context.context_id, context.transaction_key
FROM batches
CROSS JOIN context_hash ON context_hash.batch = batches.batch AND context_hash.hash = :hash
JOIN context ON context.context_id = context_hash.context_id
WHERE context.${column} = :text
UNION
SELECT context_id, transaction_key
FROM context
WHERE context_id > :batchCount * ${BATCH_SIZE} AND ${column} = :text`;

/** FNV-1a over UTF-16 code units, 32 bit. */
function textHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** Gives a function that writes the batches that are complete; it runs inside the flush's transaction. */
export function hashWriter(database: Database.Database): (lastContextId: number) => void {
  const batchCount = database.prepare<[], number>(BATCH_COUNT).pluck();
  const batchContexts = database.prepare<[object], [number, string | null, string | null]>(BATCH_CONTEXTS).raw();
  const addHashes = database.prepare(ADD_HASHES);
  const addMerged = database.prepare(ADD_MERGED);
  const deleteMerged = database.prepare(DELETE_MERGED);
  return (lastContextId) => {
    for (let batch = batchCount.get()!; (batch + 1) * BATCH_SIZE <= lastContextId; batch++) {
      const hashes: number[] = [];
      for (const [contextId, transactionId, traceId] of batchContexts.all({ after: batch * BATCH_SIZE })) {
        const place = contextId - 1 - batch * BATCH_SIZE;
        if (transactionId !== null) hashes.push(textHash(transactionId) * BATCH_SIZE + place);
        if (traceId !== null) hashes.push(textHash(traceId) * BATCH_SIZE + place);
      }
      // Sorted, so that the pages are written once and full; as doubles, which need no comparator.
      addHashes.run({ batch, hashes: JSON.stringify(Array.from(Float64Array.from(hashes).sort())) });
      if ((batch + 1) % MERGED_BATCHES !== 0) continue;
      const merged = { first: batch + 1 - MERGED_BATCHES, last: batch };
      addMerged.run(merged);
      deleteMerged.run(merged);
    }
  };
}

export interface FoundContext {
  context_id: number;
  transaction_key: number;
}

export function contextFinder(
  database: Database.Database,
  column: 'transaction_id' | 'trace_id',
): (text: string) => FoundContext[] {
  const batchCount = database.prepare<[], number>(BATCH_COUNT).pluck();
  const find = database.prepare<[object], FoundContext>(findContexts(column));
  return (text) => find.all({ batchCount: batchCount.get()!, hash: textHash(text), text });
}
