/** Questions to the segment table: which segments may hold what a scan looks for, without decoding any. */
import type Database from 'better-sqlite3';
import { corrupt } from './errors.ts';
import { fromStoredMax, unpackIds } from './format.ts';

/** Segments read ahead of a scan. */
const WINDOW_SEGMENTS = 64;

const COLUMNS = 'segment.first_number, sealed, event_count, min_timestamp_ns, max_timestamp_ns, services';

const CAN_MATCH = `
  min_timestamp_ns <= :lastNs AND max_timestamp_ns >= :firstNs
  AND type_mask & :typeMask <> 0 AND max_duration_ns >= :minDurationNs`;

/** Sealed segments in the order of their first event. */
const ASCENDING = `
SELECT ${COLUMNS}
FROM segment
WHERE sealed = 1 AND first_number < :sealedEnd
  AND (min_timestamp_ns, first_number) > (:afterNs, :afterNumber) AND ${CAN_MATCH}
ORDER BY min_timestamp_ns, first_number
LIMIT ${WINDOW_SEGMENTS}`;

const DESCENDING = `
SELECT ${COLUMNS}
FROM segment
WHERE sealed = 1 AND first_number < :sealedEnd
  AND (max_timestamp_ns, first_number) < (:afterNs, :afterNumber) AND ${CAN_MATCH}
ORDER BY max_timestamp_ns DESC, first_number DESC
LIMIT ${WINDOW_SEGMENTS}`;

const WITH_CONTEXTS = `
SELECT DISTINCT ${COLUMNS}
FROM json_each(:contexts) AS wanted
CROSS JOIN segment_context ON segment_context.context_id = wanted.value
JOIN segment ON segment.first_number = segment_context.first_number
WHERE sealed = 1 AND segment.first_number < :sealedEnd AND ${CAN_MATCH}`;

/** Parts, and what they became since. */
const TAIL = `
SELECT ${COLUMNS}
FROM segment
WHERE first_number >= :sealedEnd AND first_number < :end AND ${CAN_MATCH}`;

const LONGEST_SPAN = `
SELECT coalesce(max(max_timestamp_ns - min_timestamp_ns), 0)
FROM segment
WHERE sealed = 1`;

const END = 'SELECT first_number + event_count FROM segment ORDER BY first_number DESC LIMIT 1';
const FIRST_PART = 'SELECT min(first_number) FROM segment WHERE sealed = 0';
const DATA = 'SELECT data FROM segment WHERE first_number = ? AND sealed = ? AND event_count = ?';
const CONTAINING = `
SELECT first_number, sealed, event_count
FROM segment
WHERE first_number <= ?
ORDER BY first_number DESC
LIMIT 1`;

export interface SegmentMeta {
  firstNumber: number;
  sealed: boolean;
  eventCount: number;
  minNs: bigint;
  maxNs: bigint;
  services: Uint32Array;
}

/** What a segment must reach into to be of interest; stored values, see `toStored`. */
export interface SegmentBounds {
  firstNs: bigint;
  lastNs: bigint;
  typeMask: bigint;
  minDurationNs: bigint;
}

export interface SegmentIndex {
  /** The number behind the last event, and up to which number segments are sealed for good. */
  ends(): { end: number; sealedEnd: number };
  longestSpanNs(): bigint;
  sealedAfter(order: 'asc' | 'desc', key: [bigint, number], sealedEnd: number, bounds: SegmentBounds): SegmentMeta[];
  sealedWithContexts(contexts: Iterable<number>, sealedEnd: number, bounds: SegmentBounds): SegmentMeta[];
  tail(sealedEnd: number, end: number, bounds: SegmentBounds): SegmentMeta[];
  /** Undefined when retention has removed it. */
  data(segment: Pick<SegmentMeta, 'firstNumber' | 'sealed' | 'eventCount'>): Buffer | undefined;
  containing(number: number): Pick<SegmentMeta, 'firstNumber' | 'sealed' | 'eventCount'> | undefined;
}

type Row = [bigint, bigint, bigint, bigint, bigint, Buffer];

export function openSegmentIndex(database: Database.Database): SegmentIndex {
  const rows = (sql: string) => database.prepare<[object], Row>(sql).raw().safeIntegers();
  const [ascending, descending, withContexts, tail] = [ASCENDING, DESCENDING, WITH_CONTEXTS, TAIL].map(rows);
  const longestSpan = database.prepare<[], bigint>(LONGEST_SPAN).pluck().safeIntegers();
  const end = database.prepare<[], number>(END).pluck();
  const firstPart = database.prepare<[], number | null>(FIRST_PART).pluck();
  const data = database.prepare<[number, number, number], Buffer>(DATA).pluck();
  const containing = database.prepare<[number], [bigint, bigint, bigint]>(CONTAINING).raw().safeIntegers();
  return {
    ends() {
      const endNumber = end.get() ?? 0;
      return { end: endNumber, sealedEnd: firstPart.get() ?? endNumber };
    },
    longestSpanNs: () => longestSpan.get()!,
    sealedAfter: (order, [afterNs, afterNumber], sealedEnd, bounds) =>
      (order === 'asc' ? ascending! : descending!).all({ ...bounds, sealedEnd, afterNs, afterNumber }).map(metaOf),
    sealedWithContexts: (contexts, sealedEnd, bounds) =>
      withContexts!.all({ ...bounds, sealedEnd, contexts: JSON.stringify([...contexts]) }).map(metaOf),
    tail: (sealedEnd, endNumber, bounds) => tail!.all({ ...bounds, sealedEnd, end: endNumber }).map(metaOf),
    data: ({ firstNumber, sealed, eventCount }) => data.get(firstNumber, sealed ? 1 : 0, eventCount),
    containing(number) {
      const row = containing.get(number);
      if (!row) return undefined;
      const [firstNumber, sealed, eventCount] = row.map(toNumber) as [number, number, number];
      return number < firstNumber + eventCount ? { firstNumber, sealed: sealed === 1, eventCount } : undefined;
    },
  };
}

function metaOf([firstNumber, sealed, eventCount, minNs, maxNs, services]: Row): SegmentMeta {
  return {
    firstNumber: toNumber(firstNumber),
    sealed: sealed === 1n,
    eventCount: toNumber(eventCount),
    minNs,
    maxNs: fromStoredMax(maxNs),
    services: unpackIds(services),
  };
}

function toNumber(value: bigint): number {
  if (value < 0n || value > 2n ** 53n - 4096n) throw corrupt(`${value} is not an event number`);
  return Number(value);
}
