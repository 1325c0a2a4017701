/**
 * Finds contexts by transaction or trace: the hashes of their texts, as keys of a table that has nothing else.
 *
 *   key   group 16 bits | hash 32 bits | place 15 bits       context = group * 2^15 + place + 1
 *
 * Within a group keys are in the order of hashes, so a lookup asks each group once; new keys all go into the last group,
 * a few hundred pages that are changed together. One index over all contexts would change a page at a random place
 * of the whole file for every context.
 */
import type Database from 'better-sqlite3';

/** Hashes are added for so many contexts at once; those behind the last batch are compared one by one. */
export const BATCH_SIZE = 4096;

const PLACE_BITS = 15;
const GROUP_SHIFT = 32 + PLACE_BITS;
const PLACE_MASK = 2 ** PLACE_BITS - 1;

const BATCH_CONTEXTS = `
SELECT context_id, transaction_id, trace_id
FROM context
WHERE context_id > :after
ORDER BY context_id
LIMIT ${BATCH_SIZE}`;

/** A batch in one statement: each value is hash * BATCH_SIZE + place in the batch, which a double holds exactly. */
const ADD_HASHES = `
INSERT OR IGNORE INTO context_hash
SELECT
  (:after >> ${PLACE_BITS} << ${GROUP_SHIFT})
  | (value / ${BATCH_SIZE} << ${PLACE_BITS})
  | ((:after & ${PLACE_MASK}) + value % ${BATCH_SIZE})
FROM json_each(:hashes)`;

/** Contexts up to this one have their hashes in the table. */
const HASHED = "SELECT coalesce((SELECT value FROM meta WHERE key = 'hashed_contexts'), 0)";
const SET_HASHED = "INSERT OR REPLACE INTO meta VALUES ('hashed_contexts', CAST(? AS INTEGER))";

/** SQL: where the keys of the group begin that an id is in. */
export const groupStart = (contextId: string) => `((${contextId} - 1) >> ${PLACE_BITS} << ${GROUP_SHIFT})`;

/** SQL: the context that a key stands for. */
export const CONTEXT_OF_KEY = `((key >> ${GROUP_SHIFT} << ${PLACE_BITS}) + (key & ${PLACE_MASK}) + 1)`;

const findContexts = (column: 'transaction_id' | 'trace_id') => `
WITH RECURSIVE groups (number) AS (
  SELECT min(key) >> ${GROUP_SHIFT} FROM context_hash
  UNION ALL
  SELECT number + 1 FROM groups WHERE number < (SELECT max(key) >> ${GROUP_SHIFT} FROM context_hash)
),
starts (start) AS (SELECT (number << ${GROUP_SHIFT}) | (:hash << ${PLACE_BITS}) FROM groups)
SELECT context.context_id, context.transaction_key
FROM starts
CROSS JOIN context_hash ON key BETWEEN start AND start + ${PLACE_MASK}
JOIN context ON context.context_id = ${CONTEXT_OF_KEY}
WHERE context.${column} = :text
UNION
SELECT context_id, transaction_key
FROM context
WHERE context_id > (${HASHED}) AND ${column} = :text`;

/** FNV-1a over UTF-16 code units, 32 bit. */
function textHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** Gives a function that writes the batches that are complete; it runs inside the flush's transaction. */
export function hashWriter(database: Database.Database): (lastContextId: number) => void {
  const hashed = database.prepare<[], number>(HASHED).pluck();
  const setHashed = database.prepare(SET_HASHED);
  const batchContexts = database.prepare<[object], [number, string | null, string | null]>(BATCH_CONTEXTS).raw();
  const addHashes = database.prepare(ADD_HASHES);
  return (lastContextId) => {
    for (let after = hashed.get()!; after + BATCH_SIZE <= lastContextId; after += BATCH_SIZE) {
      const hashes: number[] = [];
      for (const [contextId, transactionId, traceId] of batchContexts.all({ after })) {
        const place = contextId - 1 - after;
        if (transactionId !== null) hashes.push(textHash(transactionId) * BATCH_SIZE + place);
        if (traceId !== null) hashes.push(textHash(traceId) * BATCH_SIZE + place);
      }
      // Sorted, so that each page is changed once; as doubles, which need no comparator.
      addHashes.run({ after, hashes: JSON.stringify(Array.from(Float64Array.from(hashes).sort())) });
      setHashed.run(after + BATCH_SIZE);
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
  const find = database.prepare<[object], FoundContext>(findContexts(column));
  return (text) => find.all({ hash: textHash(text), text });
}
