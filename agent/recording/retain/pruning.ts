/**
 * Removes dictionary entries and summaries that no event refers to. Events refer only to recent ids (see
 * format/ids.ts), so the oldest kept segment determines which ids are too old for all kept segments. Each call checks a
 * limited number of ids in ascending order, and skips the ids that pinned segments may refer to.
 */
import type Database from 'better-sqlite3';
import { buildKeyContextSql, groupStart, type HashLevel, LEVELS } from '../format/context_hash.ts';
import type { NextIds } from '../format/ids.ts';
import { IDS_IN_USE_MAX } from '../format/ids.ts';
import { HAS_LAST_EVENT, type IdRange, type PinnedContent } from './pinned_segments.ts';

/**
 * Number of ids of each kind that a call checks. The segments that one retention step removes have at most this many
 * ids, so pruning keeps up.
 */
const IDS_A_CALL = 20_000;

/** Number of summaries that one query checks. */
const SUMMARIES_AT_ONCE = 1000n;
/** Time after which a call starts no further query of summaries. */
const SUMMARIES_BUDGET_MS = 10;

const PRUNE_CONTEXTS = [
  `
DELETE FROM segment_context
WHERE context_id >= :from AND context_id < :end
  AND NOT EXISTS (SELECT 1 FROM segment WHERE segment.first_number = segment_context.first_number)`,
  `
DELETE FROM context
WHERE context_id >= :from AND context_id < :end
  AND NOT EXISTS (SELECT 1 FROM segment_context WHERE segment_context.context_id = context.context_id)`,
];

/** Number of hashes of each level that a call checks: two for each context. */
const HASHES_A_CALL = 2 * IDS_A_CALL;

const buildNextHashesSql = (level: HashLevel) => `
SELECT max(key)
FROM (
  SELECT key FROM ${level.table} WHERE key > :after AND key < ${groupStart(level, ':end')}
  ORDER BY key LIMIT ${HASHES_A_CALL}
)`;

/** Builds SQL that deletes the hashes of removed contexts from groups that contain only checked contexts. */
const buildPruneHashesSql = (level: HashLevel) => `
DELETE FROM ${level.table}
WHERE key > :after AND key <= :upTo
  AND NOT EXISTS (SELECT 1 FROM context WHERE context.context_id = ${buildKeyContextSql(level)})`;

/**
 * SQL that deletes the summaries of transactions without events. Pinned segments may contain events of transactions
 * that are not pinned; the last two conditions keep the summaries of transactions whose first context or last event is
 * in such a segment.
 */
const PRUNE_SUMMARIES = `
DELETE FROM transaction_summary
WHERE transaction_key > :after AND transaction_key <= :upTo AND last_number < :oldest
  AND transaction_key NOT IN (SELECT value FROM json_each(:pinned))
  AND NOT EXISTS (
    SELECT 1 FROM segment_context JOIN segment USING (first_number) WHERE segment_context.context_id = transaction_key
  )
  AND NOT ${HAS_LAST_EVENT}`;

const NEXT_SUMMARIES = `
SELECT max(transaction_key) AS upTo, coalesce(sum(last_number < :oldest), 0) AS old
FROM (
  SELECT transaction_key, last_number FROM transaction_summary WHERE transaction_key > :after
  ORDER BY transaction_key LIMIT ${SUMMARIES_AT_ONCE}
)`;

/**
 * SQL that deletes losses and clock steps older than all kept events. While there are pins, it deletes nothing, because
 * pinned events may be as old. It keeps losses outside the period that retention removed, because no other record
 * reports that events are missing there.
 */
const PRUNE_NOTES = [
  `
DELETE FROM loss
WHERE to_ns < :minNs AND cause <> 'retention' AND NOT EXISTS (SELECT 1 FROM pin)
  AND from_ns >= (SELECT min(from_ns) FROM loss WHERE cause = 'retention')
  AND to_ns <= (SELECT max(to_ns) FROM loss WHERE cause = 'retention')`,
  // The clock offset that applied at `:minNs` is kept.
  `
DELETE FROM clock
WHERE clock_id < (SELECT max(clock_id) FROM clock WHERE boot_ns + offset_ns <= :minNs) AND NOT EXISTS (SELECT 1 FROM pin)`,
];

/** The oldest kept events; pinned events do not count. */
export interface OldestKept {
  number: bigint;
  minNs: bigint;
  /** The next dictionary ids when the first of the oldest kept events was gathered. */
  ids: NextIds;
}

export interface Pruning {
  /** Removes entries in a transaction of its own. The caller calls it after removing segments. */
  prune(oldest: OldestKept, pinned: PinnedContent): void;
  /**
   * Starts again from the oldest ids. The caller calls it after pins have changed, because a removed pin no longer
   * protects its entries.
   */
  restart(): void;
}

export function openPruning(database: Database.Database): Pruning {
  const contexts = PRUNE_CONTEXTS.map((sql) => database.prepare(sql));
  const hashes = LEVELS.map((level) => hashPruning(database, level));
  const summaries = database.prepare(PRUNE_SUMMARIES);
  const nextSummaries = database.prepare<[object], { upTo: bigint | null; old: bigint }>(NEXT_SUMMARIES).safeIntegers();
  const prepareRangeDeletion = (table: string, id: string) =>
    database.prepare(`DELETE FROM ${table} WHERE ${id} >= ? AND ${id} < ?`);
  const names = prepareRangeDeletion('name', 'name_id');
  const services = prepareRangeDeletion('service', 'name_id');
  const files = prepareRangeDeletion('file', 'file_id');
  const notes = PRUNE_NOTES.map((sql) => database.prepare(sql));

  const prepareSmallestId = (table: string, id: string) =>
    database.prepare<[], number>(`SELECT coalesce(min(${id}), 1) FROM ${table}`).pluck();
  const [smallestName, smallestFile, smallestContext] = [
    prepareSmallestId('name', 'name_id'),
    prepareSmallestId('file', 'file_id'),
    prepareSmallestId('segment_context', 'context_id'),
  ];
  /** All ids below these have been checked. */
  const done: NextIds = { name: 1, file: 1, context: 1 };
  restart();
  let summariesAfter = 0n;

  function restart(): void {
    done.name = smallestName!.get()!;
    done.file = smallestFile!.get()!;
    done.context = smallestContext!.get()!;
  }

  /** Returns the ids that this call may remove; undefined if there are none. */
  function takeNextIds(kind: keyof NextIds, keptFrom: number): IdRange | undefined {
    const from = done[kind];
    const end = Math.min(keptFrom - IDS_IN_USE_MAX, from + IDS_A_CALL);
    if (end <= from) return undefined;
    done[kind] = end;
    return { from, end };
  }

  function pruneSummaries(oldest: bigint, pinned: string): void {
    const until = performance.now() + SUMMARIES_BUDGET_MS;
    do {
      const { upTo, old } = nextSummaries.get({ after: summariesAfter, oldest })!;
      if (upTo === null || old === 0n) {
        // No old summary is left in this batch, and nearly all later transactions have newer events. So the next call
        // starts over.
        summariesAfter = 0n;
        return;
      }
      summaries.run({ after: summariesAfter, upTo, oldest, pinned });
      summariesAfter = upTo;
    } while (performance.now() < until);
  }

  const prune = database.transaction(({ number, minNs, ids }: OldestKept, pinned: PinnedContent) => {
    pruneSummaries(number, JSON.stringify([...pinned.transactionKeys]));
    const context = takeNextIds('context', ids.context);
    if (context) {
      for (const statement of contexts) statement.run(context);
      for (const pruneBelow of hashes) pruneBelow(context.end);
    }
    const name = takeNextIds('name', ids.name);
    for (const { from, end } of name ? subtractRanges(name, pinned.names) : []) {
      names.run(from, end);
      services.run(from, end);
    }
    const file = takeNextIds('file', ids.file);
    for (const { from, end } of file ? subtractRanges(file, pinned.files) : []) files.run(from, end);
    for (const statement of notes) statement.run({ minNs });
  });

  return {
    prune: (oldest, pinned) => prune.immediate(oldest, pinned),
    restart,
  };
}

/**
 * Returns a function that takes a context id, and removes the hashes of removed contexts from the groups before that
 * context's group.
 */
function hashPruning(database: Database.Database, level: HashLevel): (contextId: number) => void {
  const next = database.prepare<[object], bigint | null>(buildNextHashesSql(level)).pluck().safeIntegers();
  const prune = database.prepare(buildPruneHashesSql(level));
  /** All keys up to this one have been checked. */
  let after = -1n;
  return (end) => {
    const upTo = next.get({ after, end })!;
    if (upTo === null) return;
    prune.run({ after, upTo });
    after = upTo;
  };
}

/** Returns the parts of a range that no range in `others` covers; `others` must be sorted. */
function subtractRanges({ from, end }: IdRange, others: readonly IdRange[]): IdRange[] {
  const left: IdRange[] = [];
  let start = from;
  for (const other of others) {
    if (other.end <= start) continue;
    if (other.from >= end) break;
    if (other.from > start) left.push({ from: start, end: other.from });
    start = other.end;
  }
  if (start < end) left.push({ from: start, end });
  return left;
}
