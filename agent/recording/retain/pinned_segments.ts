/** Finds the segments that pins protect from retention, and the dictionary ids that these segments may refer to. */
import type Database from 'better-sqlite3';
import { createContextFinder } from '../format/context_finder.ts';
import { IDS_IN_USE_MAX } from '../format/ids.ts';

const PINS = 'SELECT transaction_id AS transactionId, from_ns AS fromNs, to_ns AS toNs FROM pin';

const WITH_CONTEXT = 'SELECT first_number FROM segment_context WHERE context_id = ?';

/**
 * SQL for the segments that overlap the period before a transaction. The last condition follows from the others and
 * from the longest segment's span; it limits the range of the index by end that SQLite scans.
 */
const BEFORE = `
SELECT first_number
FROM segment
WHERE sealed = 1 AND max_timestamp_ns >= :fromNs AND min_timestamp_ns <= :toNs
  AND max_timestamp_ns <= :toNs + (
    SELECT coalesce(max(max_timestamp_ns - min_timestamp_ns), 0) FROM segment WHERE sealed = 1
  )`;

const IDS = `
SELECT name_from AS nameFrom, name_end AS nameEnd, file_from AS fileFrom, file_end AS fileEnd
FROM segment
WHERE first_number = ?`;

/** SQL that is true if the recording still has the last-arrived event of the transaction in `transaction_summary`. */
export const HAS_LAST_EVENT = `EXISTS (
    SELECT 1 FROM segment
    WHERE first_number = (SELECT max(first_number) FROM segment WHERE first_number <= transaction_summary.last_number)
      AND coalesce(end_number, first_number + event_count) > transaction_summary.last_number
  )`;

/** The ids `[from, end)`. */
export interface IdRange {
  from: number;
  end: number;
}

export interface PinnedContent {
  /** First numbers of the segments that pins protect. */
  segments: ReadonlySet<number>;
  /** Keys of the pinned transactions. */
  transactionKeys: ReadonlySet<number>;
  /** Ranges of ids in ascending order, without overlaps. */
  names: readonly IdRange[];
  files: readonly IdRange[];
}

/**
 * Returns the segments with events of a pinned transaction or of the period before the transaction, and their
 * dictionary ids.
 */
export function findPinnedSegments(database: Database.Database): PinnedContent {
  const segments = new Set<number>();
  const transactionKeys = new Set<number>();
  const pins = database.prepare<[], { transactionId: string; fromNs: bigint; toNs: bigint }>(PINS).safeIntegers().all();
  if (pins.length === 0) return { segments, transactionKeys, names: [], files: [] };
  const { findByTransaction: listContexts } = createContextFinder(database);
  const withContext = database.prepare<[number], number>(WITH_CONTEXT).pluck();
  const before = database.prepare<[object], number>(BEFORE).pluck();
  for (const { transactionId, fromNs, toNs } of pins) {
    for (const { context_id, transaction_key } of listContexts(transactionId)) {
      transactionKeys.add(transaction_key);
      for (const firstNumber of withContext.all(context_id)) segments.add(firstNumber);
    }
    for (const firstNumber of before.all({ fromNs, toNs })) segments.add(firstNumber);
  }
  return { segments, transactionKeys, ...readIdRanges(database, segments) };
}

function readIdRanges(
  database: Database.Database,
  segments: ReadonlySet<number>,
): Pick<PinnedContent, 'names' | 'files'> {
  const ids = database.prepare<[number], { nameFrom: number; nameEnd: number; fileFrom: number; fileEnd: number }>(IDS);
  const rows = [...segments].map((firstNumber) => ids.get(firstNumber)).filter((row) => row !== undefined);
  return {
    names: mergeRanges(rows.map(({ nameFrom, nameEnd }) => ({ from: nameFrom - IDS_IN_USE_MAX, end: nameEnd }))),
    files: mergeRanges(rows.map(({ fileFrom, fileEnd }) => ({ from: fileFrom - IDS_IN_USE_MAX, end: fileEnd }))),
  };
}

function mergeRanges(ranges: readonly IdRange[]): IdRange[] {
  const result: IdRange[] = [];
  for (const { from, end } of ranges.toSorted((a, b) => a.from - b.from)) {
    const last = result.at(-1);
    if (last && from <= last.end) last.end = Math.max(last.end, end);
    else result.push({ from, end });
  }
  return result;
}
