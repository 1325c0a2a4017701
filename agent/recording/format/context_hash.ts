/**
 * Index of contexts by transaction or trace: tables with one column, a key that contains the hash of the text.
 *
 *   key   group | hash 31 bits | place       context = group * 2^(bits of a place) + place + 1
 *
 * Within a group the keys are sorted by hash, so a lookup seeks once per group. One index over all contexts would
 * change a page at a random place of the file for every context; a group is appended. So that there are few groups
 * however many contexts there are, 16 groups of a level are merged into one of the next, as in a log-structured merge
 * tree.
 */

const HASH_BITS = 31;
const CONTEXT_ID_BITS = 32;
/** Binary logarithm of the number of groups that are merged into one group of the next level. */
export const MERGED_BITS = 4;

export interface HashLevel {
  table: string;
  placeBits: number;
  /** Number of contexts in a group. */
  size: number;
  /** Number of bits in a key below the group. */
  groupShift: number;
}

const createHashLevel = (table: string, placeBits: number): HashLevel => ({
  table,
  placeBits,
  size: 2 ** placeBits,
  groupShift: HASH_BITS + placeBits,
});

/**
 * Sizes of the groups: 8192 contexts, 131,072 contexts, and two million. Groups of the first level are written whole,
 * as batches.
 */
export const LEVELS: readonly [HashLevel, HashLevel, HashLevel] = [
  createHashLevel('context_hash', 13),
  createHashLevel('context_hash_2', 13 + MERGED_BITS),
  createHashLevel('context_hash_3', 13 + 2 * MERGED_BITS),
];

/** Number of contexts in a batch. Contexts after the last complete batch are compared one by one. */
export const BATCH_SIZE = LEVELS[0].size;

/** Number of possible hashes. */
export const HASHES = 2 ** HASH_BITS;

/** SQL for the id of the last context whose hashes are in the tables; 0 if there are no hashes. */
export const HASHED_CONTEXTS = "SELECT coalesce((SELECT value FROM meta WHERE key = 'hashed_contexts'), 0)";

/** SQL for the key at which the group of a context starts. */
export const groupStart = ({ placeBits, groupShift }: HashLevel, contextId: string) =>
  `((${contextId} - 1) >> ${placeBits} << ${groupShift})`;

/** SQL for the context that a key stands for. */
export const buildKeyContextSql = ({ placeBits, size, groupShift }: HashLevel) =>
  `((key >> ${groupShift} << ${placeBits}) + (key & ${size - 1}) + 1)`;

/** SQL of a recursive table of the groups that have keys; each group is found with one seek in the index. */
export const buildGroupsSql = ({ table, placeBits, groupShift }: HashLevel) => `
groups (number) AS (
  SELECT min(key) >> ${groupShift} FROM ${table}
  UNION ALL
  SELECT (SELECT min(key) >> ${groupShift} FROM ${table} WHERE key >= (number + 1) << ${groupShift})
  FROM groups
  WHERE number >= 0 AND number < ${2 ** (CONTEXT_ID_BITS - placeBits) - 1}
)`;

/** Returns the high 31 bits of FNV-1a over the text's UTF-16 code units. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> (32 - HASH_BITS);
}
