/**
 * Removes dictionary entries that no event refers to any more. An id is used while few newer ones exist, so the oldest
 * segment that is kept tells which ids are too old for it and for all that came after; see dictionary.ts.
 */
import type Database from 'better-sqlite3';
import { BATCH_SIZE } from './context_hash.ts';
import { IDS_IN_USE_MAX } from './dictionary.ts';

const OLDEST = `
SELECT first_number AS oldest, name_end AS nameEnd, file_end AS fileEnd, context_end AS contextEnd,
  min_timestamp_ns AS minNs
FROM segment
WHERE first_number = ?`;

/** Contexts of pinned segments stay, and a transaction's first one as long as its summary does. */
const PRUNE_CONTEXTS = [
  `
DELETE FROM segment_context
WHERE context_id < :bound
  AND NOT EXISTS (SELECT 1 FROM segment WHERE segment.first_number = segment_context.first_number)`,
  `
DELETE FROM context
WHERE context_id < :bound
  AND NOT EXISTS (SELECT 1 FROM segment_context WHERE segment_context.context_id = context.context_id)
  AND NOT EXISTS (SELECT 1 FROM transaction_summary WHERE transaction_key = context.context_id)`,
  `
DELETE FROM context_hash
WHERE batch < (:bound - 1) / ${BATCH_SIZE}
  AND NOT EXISTS (SELECT 1 FROM context WHERE context.context_id = context_hash.context_id)`,
];

/** Summaries that one call looks at: it goes round through all of them. */
const SUMMARIES_A_CALL = 1000n;

/** A transaction's first context stands for it: most have only that. */
const PRUNE_SUMMARIES = `
DELETE FROM transaction_summary
WHERE transaction_key > :after AND transaction_key <= :upTo AND last_number < :oldest AND NOT EXISTS (
  SELECT 1 FROM segment_context JOIN segment USING (first_number) WHERE segment_context.context_id = transaction_key
)`;

const NEXT_SUMMARIES = `
SELECT max(transaction_key) AS upTo, count(*) AS count
FROM (SELECT transaction_key FROM transaction_summary WHERE transaction_key > ? LIMIT ${SUMMARIES_A_CALL})`;

/** Pinned segments are those before the oldest one that is not. */
const pruneIds = (table: string, id: string, end: string) => `
DELETE FROM ${table}
WHERE ${id} < :bound AND NOT EXISTS (
  SELECT 1 FROM segment
  WHERE first_number < :oldest AND ${id} < segment.${end} AND ${id} >= segment.${end} - ${IDS_IN_USE_MAX}
)`;

/** What else was lost then is not of interest, except to someone who looks at pinned events. */
const PRUNE_NOTES = [
  `
DELETE FROM loss
WHERE to_ns < :minNs AND cause <> 'retention' AND NOT EXISTS (SELECT 1 FROM pin)`,
  `
DELETE FROM clock
WHERE boot_ns + offset_ns < :minNs AND clock_id < (SELECT max(clock_id) FROM clock) AND NOT EXISTS (SELECT 1 FROM pin)`,
];

interface Oldest {
  oldest: bigint;
  nameEnd: bigint;
  fileEnd: bigint;
  contextEnd: bigint;
  minNs: bigint;
}

/** Gives a function to call when segments were removed, with the first number of the oldest one that is not pinned. */
export function openPruning(database: Database.Database): (firstNumber: bigint | undefined) => void {
  const oldestSegment = database.prepare<[bigint], Oldest>(OLDEST).safeIntegers();
  const contexts = PRUNE_CONTEXTS.map((sql) => database.prepare(sql));
  const summaries = database.prepare(PRUNE_SUMMARIES);
  const nextSummaries = database
    .prepare<[bigint], { upTo: bigint | null; count: bigint }>(NEXT_SUMMARIES)
    .safeIntegers();
  let summariesAfter = 0n;
  const names = database.prepare(pruneIds('name', 'name_id', 'name_end'));
  const services = database.prepare(pruneIds('service', 'name_id', 'name_end'));
  const files = database.prepare(pruneIds('file', 'file_id', 'file_end'));
  const notes = PRUNE_NOTES.map((sql) => database.prepare(sql));
  const inUse = BigInt(IDS_IN_USE_MAX);

  function pruneSummaries(oldest: bigint): void {
    const { upTo, count } = nextSummaries.get(summariesAfter)!;
    if (upTo !== null) summaries.run({ after: summariesAfter, upTo, oldest });
    summariesAfter = upTo !== null && count === SUMMARIES_A_CALL ? upTo : 0n;
  }

  const prune = database.transaction(({ oldest, nameEnd, fileEnd, contextEnd, minNs }: Oldest) => {
    pruneSummaries(oldest);
    const [segments, texts, hashes] = contexts;
    const bound = contextEnd - inUse;
    if (bound > 0n) {
      segments!.run({ bound });
      texts!.run({ bound });
      hashes!.run({ bound });
    }
    if (nameEnd > inUse) {
      names.run({ bound: nameEnd - inUse, oldest });
      services.run({ bound: nameEnd - inUse, oldest });
    }
    if (fileEnd > inUse) files.run({ bound: fileEnd - inUse, oldest });
    for (const statement of notes) statement.run({ minNs });
  });

  return (firstNumber) => {
    const found = firstNumber === undefined ? undefined : oldestSegment.get(firstNumber);
    if (found) prune.immediate(found);
  };
}
