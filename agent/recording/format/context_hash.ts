/**
 * Index of contexts by transaction or trace: tables whose only column is a key that contains the hash of the text.
 *
 *   key   group | hash 31 bits | place       context = group * 2^(bits of a place) + place + 1
 *
 * Within a group the keys are sorted by hash, so a lookup seeks once per group. A single index over all contexts would
 * change a random page of the file for every context; groups are only appended. To keep the number of groups small,
 * 16 groups of a level are merged into one group of the next level, as in a log-structured merge tree.
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
  /** Number of bits in a key below the group number. */
  groupShift: number;
}

const createHashLevel = (table: string, placeBits: number): HashLevel => ({
  table,
  placeBits,
  size: 2 ** placeBits,
  groupShift: HASH_BITS + placeBits,
});

/**
 * The levels: their groups have 8192 contexts, 131,072 contexts and two million contexts. A group of the first level is
 * written as one batch.
 */
export const LEVELS: readonly [HashLevel, HashLevel, HashLevel] = [
  createHashLevel('context_hash', 13),
  createHashLevel('context_hash_2', 13 + MERGED_BITS),
  createHashLevel('context_hash_3', 13 + 2 * MERGED_BITS),
];

/**
 * Number of contexts in a batch. Contexts after the last complete batch have no hashes yet, so a lookup compares their
 * texts.
 */
export const BATCH_SIZE = LEVELS[0].size;

export const HASHES = 2 ** HASH_BITS;

/** SQL for the id of the last context whose hashes are in the tables; 0 if there are no hashes. */
export const HASHED_CONTEXTS = "SELECT coalesce((SELECT value FROM meta WHERE key = 'hashed_contexts'), 0)";

/** Builds SQL for the smallest key of the group that contains a context. */
export const groupStart = ({ placeBits, groupShift }: HashLevel, contextId: string) =>
  `((${contextId} - 1) >> ${placeBits} << ${groupShift})`;

/** Builds SQL for the context id that a key encodes. */
export const buildKeyContextSql = ({ placeBits, size, groupShift }: HashLevel) =>
  `((key >> ${groupShift} << ${placeBits}) + (key & ${size - 1}) + 1)`;

/**
 * Builds SQL of a recursive table with the numbers of the groups that have keys. SQLite finds each group with one seek
 * in the index.
 */
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
