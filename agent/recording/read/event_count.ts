/**
 * Counts the events that began in a span of time. For a segment within the span, its entry has the number of events.
 * Only the segments at the edges of the span are decoded:
 *
 *   span          from .......................... to
 *   segments   [ decoded ] [ entry ] [ entry ] [ decoded ]
 *
 * Other requests wait during a count, so the numbers of entries and of decoded segments are limited.
 */
import type Database from 'better-sqlite3';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { I64_MAX } from '../../../daemon/base/bigints.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { toStored } from '../format/schema.ts';
import type { ScanSource } from './scan.ts';
import { runWithSegmentErrors, UnreadableSegment } from './segment.ts';
import { isDamage, type SegmentMeta } from './segment_index.ts';

/** Maximum number of segments that one count decodes. Decoding them takes about ten milliseconds. */
const EDGES_MAX = 256;

/** Maximum number of entries that one count reads. Reading them takes about ten milliseconds. */
const ENTRIES_MAX = 8192;

const TIMESTAMP = COLUMNS.find(({ name }) => name === 'timestamp_ns')!;

/**
 * SQL for segments within the span. A segment whose largest time exceeds SQLite's largest integer counts as an edge,
 * because its stored time is not exact.
 */
const IS_WITHIN = `min_timestamp_ns >= :fromNs AND max_timestamp_ns < :toNs AND max_timestamp_ns < ${I64_MAX}`;
const IS_SOUND = `event_count BETWEEN 0 AND ${SEGMENT_ROWS_MAX} AND typeof(event_count) = 'integer'`;

/**
 * SQL for the sealed segments that may overlap the span. A segment that overlaps the span begins before it by at most
 * the longest segment's duration.
 */
const SEALED =
  'sealed = 1 AND first_number < :sealedEnd AND min_timestamp_ns >= :earliestNs AND min_timestamp_ns < :toNs';
const PARTS = 'first_number >= :sealedEnd AND min_timestamp_ns < :toNs';

/**
 * SQL that counts the entries of each selection, up to the limit. For sealed segments, SQLite counts in the index and
 * reads no entry.
 */
const ENTRY_COUNTS = [SEALED, 'first_number >= :sealedEnd'].map(
  (segments) => `
SELECT count(*)
FROM (SELECT 1 FROM segment WHERE ${segments} LIMIT ${ENTRIES_MAX + 1})`,
);

const buildSumSql = (segments: string) => `
SELECT coalesce(sum(CASE WHEN ${IS_SOUND} THEN event_count END), 0), coalesce(sum(NOT (${IS_SOUND})), 0)
FROM segment
WHERE ${segments} AND ${IS_WITHIN}`;

const buildEdgesSql = (segments: string) => `
SELECT first_number
FROM segment
WHERE ${segments} AND max_timestamp_ns >= :fromNs AND NOT (${IS_WITHIN})
LIMIT ${EDGES_MAX + 1}`;

export interface EventCounter {
  /**
   * Returns the number of events that began in `[fromNs, toNs)`; undefined if some of the data is damaged, or if too
   * many segments would have to be read.
   */
  countEvents(fromNs: bigint, toNs: bigint): number | undefined;
}

export function openEventCounter(
  database: Database.Database,
  source: ScanSource,
  isDamaged: () => boolean,
): EventCounter {
  const entryCounts = ENTRY_COUNTS.map((sql) => database.prepare<[object], number>(sql).pluck());
  const selections = [SEALED, PARTS];
  const sums = selections.map((segments) => database.prepare<[object], [number, number]>(buildSumSql(segments)).raw());
  const edges = selections.map((segments) => database.prepare<[object], number>(buildEdgesSql(segments)).pluck());

  function count(fromNs: bigint, toNs: bigint): number | undefined {
    const { sealedEnd } = source.index.ends();
    const earliestNs = fromNs - source.index.longestSpanNs();
    const bounds = {
      fromNs: toStored(fromNs),
      toNs: toStored(toNs),
      earliestNs: toStored(earliestNs),
      sealedEnd,
    };
    if (entryCounts.some((statement) => statement.get(bounds)! > ENTRIES_MAX)) return undefined;
    let total = 0;
    for (const sum of sums) {
      const [events, unsound] = sum.get(bounds)!;
      if (unsound > 0) return undefined;
      total += events;
    }
    const cut = edges.flatMap((statement) => statement.all(bounds));
    if (cut.length > EDGES_MAX) return undefined;
    for (const firstNumber of cut) {
      const events = countInSegment(firstNumber, fromNs, toNs);
      if (events === undefined) return undefined;
      total += events;
    }
    return total;
  }

  /**
   * Counts the events; returns undefined if the count needs a damaged page. The answer that includes the count also
   * contains other events, so it must not fail.
   */
  function countUnlessDamaged(fromNs: bigint, toNs: bigint): number | undefined {
    try {
      return count(fromNs, toNs);
    } catch (error) {
      if (!isDamage(error)) throw error;
      return undefined;
    }
  }

  function countInSegment(firstNumber: number, fromNs: bigint, toNs: bigint): number | undefined {
    const meta = source.index.findSegment(firstNumber);
    const timestamps = meta && readTimestamps(meta);
    if (!timestamps) return undefined;
    let events = 0;
    for (const ns of timestamps) if (ns >= fromNs && ns < toNs) events++;
    return events;
  }

  function readTimestamps(meta: SegmentMeta): BigUint64Array | undefined {
    try {
      const segment = runWithSegmentErrors(meta, () => source.open(meta));
      return segment?.readColumn(TIMESTAMP) as BigUint64Array | undefined;
    } catch (error) {
      if (!(error instanceof UnreadableSegment)) throw error;
      return undefined;
    }
  }

  return {
    countEvents(fromNs, toNs) {
      if (toNs <= fromNs) return 0;
      const found = source.runInTransaction(() => countUnlessDamaged(fromNs, toNs));
      return isDamaged() ? undefined : found;
    },
  };
}
