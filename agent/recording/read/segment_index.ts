/** Questions to the segment table: which segments may hold what a scan looks for, without decoding any. */
import type Database from 'better-sqlite3';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { corrupt, SegmentGone } from '../format/errors.ts';
import { PIECES_MAX } from '../format/pieces.ts';
import { END_NUMBER, fromStoredMax, unpackIds } from '../format/schema.ts';
import { isDamage, openSalvage } from './salvage.ts';

/** Segments read ahead of a scan. */
const WINDOW_SEGMENTS = 64;

/** Contexts asked for at once: a transaction may have more than fit into one list. */
const CONTEXTS_A_QUERY = 65_536;

const COLUMNS = `
  segment.first_number, sealed, event_count, coalesce(end_number, segment.first_number + event_count),
  min_timestamp_ns, max_timestamp_ns, type_mask, services`;

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

/** By number, from the one that holds `:from` on. */
const ARRIVED = `
SELECT ${COLUMNS}
FROM segment
WHERE first_number >= coalesce((SELECT max(first_number) FROM segment WHERE first_number <= :from), 0)
  AND first_number < :end AND coalesce(end_number, first_number + event_count) > :from AND ${CAN_MATCH}
ORDER BY first_number
LIMIT :limit`;

const ENTRY = `
SELECT ${COLUMNS}
FROM segment
WHERE sealed = 1 AND first_number = :firstNumber AND first_number < :sealedEnd AND ${CAN_MATCH}`;

const LONGEST_SPAN = `
SELECT coalesce(max(max_timestamp_ns - min_timestamp_ns), 0)
FROM segment
WHERE sealed = 1`;

/** Parts come after all sealed segments, and there are few: backwards by number, never through an index by time. */
const FIRST_PART = `
SELECT first_number
FROM segment
WHERE +sealed = 0 AND first_number > (
  SELECT coalesce(max(first_number), -1)
  FROM (SELECT first_number FROM segment WHERE +sealed = 1 ORDER BY first_number DESC LIMIT 1)
)
ORDER BY first_number
LIMIT 1`;
const DATA = 'SELECT data FROM segment WHERE first_number = ? AND sealed = ? AND event_count = ?';
/** Numbers come as doubles, and this one may be above what those hold exactly. */
const PIECE = `
SELECT data FROM segment_piece WHERE piece_key = CAST(? AS INTEGER) * ${PIECES_MAX} + CAST(? AS INTEGER)`;
const MISSING_NUMBERS = 'SELECT 1 FROM segment WHERE end_number IS NOT NULL LIMIT 1';
const EXISTS = 'SELECT 1 FROM segment WHERE first_number = ?';
const AROUND = `
SELECT ${COLUMNS}
FROM segment
WHERE first_number <= ?
ORDER BY first_number DESC`;

export interface SegmentMeta {
  firstNumber: number;
  sealed: boolean;
  eventCount: number;
  /** Behind the last number; numbers are missing in between when it is not `firstNumber + eventCount`. */
  endNumber: number;
  typeMask: bigint;
  minNs: bigint;
  maxNs: bigint;
  services: Uint32Array;
}

/** The bytes of a segment: all in one blob, or pieces that are read when they are needed. */
export interface SegmentBytes {
  whole: Buffer | undefined;
  /** Throws SegmentGone when retention has removed the segment meanwhile. */
  piece(piece: number): Buffer;
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
  /** Those that hold numbers [from, end), in the order in which they arrived. */
  arrived(from: number, end: number, bounds: SegmentBounds, limit: number): SegmentMeta[];
  /** Whether retention has left it. */
  exists(firstNumber: number): boolean;
  /** Undefined when retention has removed it. */
  bytes(segment: SegmentMeta): SegmentBytes | undefined;
  /** Segments whose numbers go around this one: in a bundle there may be several, or the number may be missing. */
  around(number: number): SegmentMeta[];
}

type Row = [bigint, bigint, bigint, bigint, bigint, bigint, bigint, Buffer];

/** `onDamagedEntry` is told of entries whose own values cannot be; they are left out. */
export function openSegmentIndex(database: Database.Database, onDamagedEntry: () => void): SegmentIndex {
  const rows = (sql: string) => database.prepare<[object], Row>(sql).raw().safeIntegers();
  const [ascending, descending, withContexts, tail] = [ASCENDING, DESCENDING, WITH_CONTEXTS, TAIL].map(rows);
  const arrived = rows(ARRIVED);
  const longestSpan = database.prepare<[], bigint>(LONGEST_SPAN).pluck().safeIntegers();
  const end = database.prepare<[], number>(END_NUMBER).pluck();
  const firstPart = database.prepare<[], number | null>(FIRST_PART).pluck();
  const data = database.prepare<[number, number, number], Buffer>(DATA).pluck();
  const exists = database.prepare<[number]>(EXISTS);
  const piece = database.prepare<[number, number], Buffer>(PIECE).pluck();
  const missingNumbers = database.prepare(MISSING_NUMBERS).pluck();
  const salvage = openSalvage(database, rows(ENTRY), onDamagedEntry);
  let hasMissingNumbers: boolean | undefined;
  const around = database.prepare<[number], Row>(AROUND).raw().safeIntegers();
  /** When it cannot be known, there may be some. */
  function canMissNumbers(): boolean {
    hasMissingNumbers ??= salvaged(
      () => missingNumbers.get() === 1,
      () => true,
    );
    return hasMissingNumbers;
  }

  function metasOf(row: Row): SegmentMeta[] {
    if (isSound(row)) return [metaOf(row)];
    onDamagedEntry();
    return [];
  }

  return {
    ends() {
      const endNumber = end.get() ?? 0;
      // No event has such a number: what claims it is not looked for, as doubles would miss some of it.
      if (endNumber > Number.MAX_SAFE_INTEGER) onDamagedEntry();
      const sound = Math.min(endNumber, Number.MAX_SAFE_INTEGER);
      return { end: sound, sealedEnd: Math.min(firstPart.get() ?? sound, sound) };
    },
    longestSpanNs: () => longestSpan.get()!,
    sealedAfter: (order, [afterNs, afterNumber], sealedEnd, bounds) =>
      salvaged(
        () => (order === 'asc' ? ascending! : descending!).all({ ...bounds, sealedEnd, afterNs, afterNumber }),
        () => salvage.inOrder(order, { afterNs, afterNumber }, { ...bounds, sealedEnd }),
      ).flatMap(metasOf),
    sealedWithContexts(contexts, sealedEnd, bounds) {
      const found = new Map<bigint, Row>();
      for (const part of partsOf(contexts)) {
        const wanted = { sealedEnd, contexts: JSON.stringify(part) };
        const some = salvaged(
          () => withContexts!.all({ ...bounds, ...wanted }),
          () => salvage.withContexts(wanted, { ...bounds, sealedEnd }),
        );
        for (const row of some) found.set(row[0], row);
      }
      return [...found.values()].flatMap(metasOf);
    },
    tail: (sealedEnd, endNumber, bounds) => tail!.all({ ...bounds, sealedEnd, end: endNumber }).flatMap(metasOf),
    arrived: (from, endNumber, bounds, limit) =>
      arrived.all({ ...bounds, from, end: endNumber, limit }).flatMap(metasOf),
    exists: (firstNumber) => exists.get(firstNumber) !== undefined,
    bytes({ firstNumber, sealed, eventCount }) {
      const whole = data.get(firstNumber, sealed ? 1 : 0, eventCount);
      return (
        whole && {
          whole: whole.length > 0 ? whole : undefined,
          piece: (number) => piece.get(firstNumber, number) ?? missing(data.get(firstNumber, 1, eventCount)),
        }
      );
    },
    around(number) {
      const found: SegmentMeta[] = [];
      for (const row of around.iterate(number)) {
        for (const meta of metasOf(row)) {
          if (number < meta.endNumber) found.push(meta);
          if (!canMissNumbers()) return found;
        }
      }
      return found;
    },
  };
}

function* partsOf(ids: Iterable<number>): Generator<number[]> {
  let part: number[] = [];
  for (const id of ids) {
    if (part.push(id) < CONTEXTS_A_QUERY) continue;
    yield part;
    part = [];
  }
  if (part.length > 0) yield part;
}

function salvaged<T>(read: () => T, otherwise: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!isDamage(error)) throw error;
    return otherwise();
  }
}

function missing(segment: Buffer | undefined): never {
  if (segment) throw corrupt('a piece of a segment is missing');
  throw new SegmentGone();
}

/** A damaged page may hold anything, whatever the table's declaration says. */
function isSound([firstNumber, sealed, eventCount, endNumber, minNs, maxNs, typeMask, services]: Row): boolean {
  const integers = [firstNumber, sealed, eventCount, endNumber, minNs, maxNs, typeMask];
  return (
    integers.every((value) => typeof value === 'bigint' && value >= 0n) &&
    Buffer.isBuffer(services) &&
    eventCount <= SEGMENT_ROWS_MAX &&
    endNumber >= firstNumber + eventCount &&
    endNumber <= Number.MAX_SAFE_INTEGER &&
    minNs <= maxNs
  );
}

function metaOf([firstNumber, sealed, eventCount, endNumber, minNs, maxNs, typeMask, services]: Row): SegmentMeta {
  return {
    firstNumber: Number(firstNumber),
    sealed: sealed === 1n,
    eventCount: Number(eventCount),
    endNumber: Number(endNumber),
    typeMask,
    minNs,
    maxNs: fromStoredMax(maxNs),
    services: unpackIds(services),
  };
}
