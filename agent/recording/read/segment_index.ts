/** Queries the segment table for the segments that may contain matches for a scan, without decoding any segment. */
import type Database from 'better-sqlite3';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { createCorruptError, SegmentGone, toRecordingError } from '../format/errors.ts';
import { PIECES_MAX } from '../format/pieces.ts';
import { decodeStoredMax, END_NUMBER, unpackIds } from '../format/schema.ts';

/** Number of segments that one query reads for a scan. */
const WINDOW_SEGMENTS = 64;

/** Maximum number of contexts in one query. A transaction may have more contexts. */
const CONTEXTS_A_QUERY = 65_536;

const COLUMNS = `
  segment.first_number, sealed, event_count, coalesce(end_number, segment.first_number + event_count),
  min_timestamp_ns, max_timestamp_ns, max_duration_ns, type_mask, services, facts`;

const CAN_MATCH = `
  min_timestamp_ns <= :lastNs AND max_timestamp_ns >= :firstNs
  AND type_mask & :typeMask <> 0 AND max_duration_ns >= :minDurationNs`;

/** SQL for sealed segments in the order of their earliest event. */
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

/** SQL for unsealed parts, and for segments into which a writer has merged such parts. */
const TAIL = `
SELECT ${COLUMNS}
FROM segment
WHERE first_number >= :sealedEnd AND first_number < :end AND ${CAN_MATCH}`;

/** SQL for segments in the order of numbers, starting with the segment that contains the number `:from`. */
const ARRIVED = `
SELECT ${COLUMNS}
FROM segment
WHERE first_number >= coalesce((SELECT max(first_number) FROM segment WHERE first_number <= :from), 0)
  AND first_number < :end AND coalesce(end_number, first_number + event_count) > :from AND ${CAN_MATCH}
ORDER BY first_number
LIMIT :limit`;

const EARLIEST = `
SELECT min(min_timestamp_ns)
FROM segment
WHERE first_number >= coalesce((SELECT max(first_number) FROM segment WHERE first_number <= :from), 0)
  AND coalesce(end_number, first_number + event_count) > :from`;

const ENTRY = `
SELECT ${COLUMNS}
FROM segment
WHERE sealed = 1 AND first_number = :firstNumber AND first_number < :sealedEnd AND ${CAN_MATCH}`;

const LONGEST_SPAN = `
SELECT coalesce(max(max_timestamp_ns - min_timestamp_ns), 0)
FROM segment
WHERE sealed = 1`;

/**
 * SQL for the first part. Parts come after all sealed segments and are few, so the query goes backwards by number. The
 * `+` stops SQLite from using an index by time.
 */
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
/**
 * SQL for the data of a piece. Numbers are bound as doubles, which cannot represent large keys exactly, so SQLite
 * computes the key from integers.
 */
const PIECE = `
SELECT data FROM segment_piece WHERE piece_key = CAST(? AS INTEGER) * ${PIECES_MAX} + CAST(? AS INTEGER)`;
const MISSING_NUMBERS = 'SELECT 1 FROM segment WHERE end_number IS NOT NULL LIMIT 1';
const EXISTS = 'SELECT 1 FROM segment WHERE first_number = ?';
const ROW = `
SELECT ${COLUMNS}
FROM segment
WHERE first_number = ?`;
const AROUND = `
SELECT ${COLUMNS}
FROM segment
WHERE first_number <= ?
ORDER BY first_number DESC`;

export interface SegmentMeta {
  firstNumber: number;
  sealed: boolean;
  eventCount: number;
  /** The number after the last event. If it is larger than `firstNumber + eventCount`, the numbers have gaps. */
  endNumber: number;
  typeMask: bigint;
  minNs: bigint;
  maxNs: bigint;
  maxDurationNs: bigint;
  services: Uint32Array;
  /** Encoded facts about the segment's columns; undefined if none are stored. */
  facts: Buffer | undefined;
}

/** The bytes of a segment: either one blob, or pieces that are read on demand. */
export interface SegmentBytes {
  whole: Buffer | undefined;
  /** Returns the bytes of a piece. Throws SegmentGone if retention has removed the segment meanwhile. */
  readPiece(piece: number): Buffer;
}

/** Bounds, as stored values (see `toStored`). Only segments that overlap the bounds are read. */
export interface SegmentBounds {
  firstNs: bigint;
  lastNs: bigint;
  typeMask: bigint;
  minDurationNs: bigint;
}

export interface SegmentIndex {
  /** Returns the number after the last event, and the number below which all events are in sealed segments. */
  ends(): { end: number; sealedEnd: number };
  longestSpanNs(): bigint;
  listSealedAfter(
    order: 'asc' | 'desc',
    key: [bigint, number],
    sealedEnd: number,
    bounds: SegmentBounds,
  ): SegmentMeta[];
  listSealedWithContexts(contexts: Iterable<number>, sealedEnd: number, bounds: SegmentBounds): SegmentMeta[];
  tail(sealedEnd: number, end: number, bounds: SegmentBounds): SegmentMeta[];
  /** Returns segments with numbers in [from, end), in the order in which they arrived. */
  listArrived(from: number, end: number, bounds: SegmentBounds, limit: number): SegmentMeta[];
  /** Returns a lower bound for the start times of all events numbered `from` or higher; undefined if there are none. */
  findEarliestNs(from: number): bigint | undefined;
  /** Returns whether the segment still exists; retention may have removed it. */
  exists(firstNumber: number): boolean;
  /**
   * Returns the segment's entry; undefined if the entry has impossible values, or if retention has removed the segment.
   */
  findSegment(firstNumber: number): SegmentMeta | undefined;
  /** Returns the segment's bytes; undefined if retention has removed the segment. */
  readBytes(segment: SegmentMeta): SegmentBytes | undefined;
  /**
   * Returns the segments whose range of numbers includes the number. In a bundle, ranges may overlap and have gaps, so
   * perhaps no segment has the number.
   */
  findAround(number: number): SegmentMeta[];
}

type SegmentRow = [
  firstNumber: bigint,
  sealed: bigint,
  eventCount: bigint,
  endNumber: bigint,
  minNs: bigint,
  maxNs: bigint,
  maxDurationNs: bigint,
  typeMask: bigint,
  services: Buffer,
  facts: Buffer | null,
];

/** Number of integer values at the start of a row. */
const INTEGERS = 8;

/** Opens the index. Entries with impossible values are skipped; `onDamagedEntry` is called for each of them. */
export function openSegmentIndex(database: Database.Database, onDamagedEntry: () => void): SegmentIndex {
  const prepareRows = (sql: string) => database.prepare<[object], SegmentRow>(sql).raw().safeIntegers();
  const [ascending, descending, withContexts, tail] = [ASCENDING, DESCENDING, WITH_CONTEXTS, TAIL].map(prepareRows);
  const arrived = prepareRows(ARRIVED);
  const earliest = database.prepare<[object], bigint | null>(EARLIEST).pluck().safeIntegers();
  const longestSpan = database.prepare<[], bigint>(LONGEST_SPAN).pluck().safeIntegers();
  const end = database.prepare<[], number>(END_NUMBER).pluck();
  const firstPart = database.prepare<[], number | null>(FIRST_PART).pluck();
  const data = database.prepare<[number, number, number], Buffer>(DATA).pluck();
  const exists = database.prepare<[number]>(EXISTS);
  const piece = database.prepare<[number, number], Buffer>(PIECE).pluck();
  const missingNumbers = database.prepare(MISSING_NUMBERS).pluck();
  const salvage = openSalvage(database, prepareRows(ENTRY), onDamagedEntry);
  let hasMissingNumbers: boolean | undefined;
  const segmentRow = database.prepare<[number], SegmentRow>(ROW).raw().safeIntegers();
  const around = database.prepare<[number], SegmentRow>(AROUND).raw().safeIntegers();
  /** Returns whether the numbers of segments may have gaps; true also if damage hides the answer. */
  function canMissNumbers(): boolean {
    hasMissingNumbers ??= readOrSalvage(
      () => missingNumbers.get() === 1,
      () => true,
    );
    return hasMissingNumbers;
  }

  function listSoundMetas(row: SegmentRow): SegmentMeta[] {
    if (isSound(row)) return [toSegmentMeta(row)];
    onDamagedEntry();
    return [];
  }

  return {
    ends() {
      const endNumber = end.get() ?? 0;
      // Larger numbers are not exact as doubles. No event has such a number, so the entry that claims it is damaged.
      if (endNumber > Number.MAX_SAFE_INTEGER) onDamagedEntry();
      const sound = Math.min(endNumber, Number.MAX_SAFE_INTEGER);
      return { end: sound, sealedEnd: Math.min(firstPart.get() ?? sound, sound) };
    },
    longestSpanNs: () => longestSpan.get()!,
    listSealedAfter: (order, [afterNs, afterNumber], sealedEnd, bounds) =>
      readOrSalvage(
        () => (order === 'asc' ? ascending! : descending!).all({ ...bounds, sealedEnd, afterNs, afterNumber }),
        () => salvage.readInOrder(order, { afterNs, afterNumber }, { ...bounds, sealedEnd }),
      ).flatMap(listSoundMetas),
    listSealedWithContexts(contexts, sealedEnd, bounds) {
      const found = new Map<bigint, SegmentRow>();
      for (const part of splitIntoQueries(contexts)) {
        const wanted = { sealedEnd, contexts: JSON.stringify(part) };
        const some = readOrSalvage(
          () => withContexts!.all({ ...bounds, ...wanted }),
          () => salvage.readWithContexts(wanted, { ...bounds, sealedEnd }),
        );
        for (const row of some) found.set(row[0], row);
      }
      return [...found.values()].flatMap(listSoundMetas);
    },
    tail: (sealedEnd, endNumber, bounds) => tail!.all({ ...bounds, sealedEnd, end: endNumber }).flatMap(listSoundMetas),
    listArrived: (from, endNumber, bounds, limit) =>
      arrived.all({ ...bounds, from, end: endNumber, limit }).flatMap(listSoundMetas),
    findEarliestNs: (from) =>
      readOrSalvage(
        () => earliest.get({ from }) ?? undefined,
        () => undefined,
      ),
    exists: (firstNumber) => exists.get(firstNumber) !== undefined,
    findSegment(firstNumber) {
      const row = segmentRow.get(firstNumber);
      return row && listSoundMetas(row)[0];
    },
    readBytes({ firstNumber, sealed, eventCount }) {
      const whole = data.get(firstNumber, sealed ? 1 : 0, eventCount);
      return (
        whole && {
          whole: whole.length > 0 ? whole : undefined,
          readPiece: (number) =>
            piece.get(firstNumber, number) ?? throwMissingPiece(data.get(firstNumber, 1, eventCount)),
        }
      );
    },
    findAround(number) {
      const found: SegmentMeta[] = [];
      for (const row of around.iterate(number)) {
        for (const meta of listSoundMetas(row)) {
          if (number < meta.endNumber) found.push(meta);
          if (!canMissNumbers()) return found;
        }
      }
      return found;
    },
  };
}

function* splitIntoQueries(ids: Iterable<number>): Generator<number[]> {
  let part: number[] = [];
  for (const id of ids) {
    if (part.push(id) < CONTEXTS_A_QUERY) continue;
    yield part;
    part = [];
  }
  if (part.length > 0) yield part;
}

function readOrSalvage<T>(read: () => T, otherwise: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!isDamage(error)) throw error;
    return otherwise();
  }
}

function throwMissingPiece(segment: Buffer | undefined): never {
  if (segment) throw createCorruptError('a piece of a segment is missing');
  throw new SegmentGone();
}

/**
 * Returns whether a row has possible values. A damaged page may contain values of any type, whatever the table
 * declares.
 */
function isSound(row: SegmentRow): boolean {
  const [firstNumber, , eventCount, endNumber, minNs, maxNs, , , services] = row;
  return (
    row.slice(0, INTEGERS).every((value) => typeof value === 'bigint' && value >= 0n) &&
    Buffer.isBuffer(services) &&
    eventCount <= SEGMENT_ROWS_MAX &&
    endNumber >= firstNumber + eventCount &&
    endNumber <= Number.MAX_SAFE_INTEGER &&
    minNs <= maxNs
  );
}

function toSegmentMeta(row: SegmentRow): SegmentMeta {
  const [firstNumber, sealed, eventCount, endNumber, minNs, maxNs, maxDurationNs, typeMask, services, facts] = row;
  return {
    firstNumber: Number(firstNumber),
    sealed: sealed === 1n,
    eventCount: Number(eventCount),
    endNumber: Number(endNumber),
    typeMask,
    minNs,
    maxNs: decodeStoredMax(maxNs),
    maxDurationNs: decodeStoredMax(maxDurationNs),
    services: unpackIds(services),
    facts: Buffer.isBuffer(facts) ? facts : undefined,
  };
}

/*
 * Reads segment entries although a page of their table is unreadable. An index has the times and numbers of the
 * entries, so the entries can be read one by one. Only recordings with checksums reach this code.
 */

const ORDERS = {
  asc: ['segment_by_start', 'min_timestamp_ns', '>', 'ASC'],
  desc: ['segment_by_end', 'max_timestamp_ns', '<', 'DESC'],
} as const;

const SEGMENTS_WITH_CONTEXTS = `
SELECT DISTINCT first_number
FROM json_each(:contexts) AS wanted
CROSS JOIN segment_context ON context_id = wanted.value
WHERE first_number < :sealedEnd`;

const buildKeysInOrderSql = (order: 'asc' | 'desc') => {
  const [index, column, after, direction] = ORDERS[order];
  return `
SELECT ${column}, first_number
FROM main.segment INDEXED BY ${index}
WHERE sealed = 1 AND (${column}, first_number) ${after} (:afterNs, :afterNumber)
ORDER BY ${column} ${direction}, first_number ${direction}
LIMIT 64`;
};

interface Salvage<Row> {
  /** Returns the next readable entries after a key. An empty list means the end. */
  readInOrder(order: 'asc' | 'desc', after: { afterNs: bigint; afterNumber: number }, bounds: object): Row[];
  readWithContexts(wanted: { contexts: string; sealedEnd: number }, bounds: object): Row[];
}

/** Opens the salvage. `entry` selects the entry with `:firstNumber` if it overlaps `bounds`. */
function openSalvage<Row>(
  database: Database.Database,
  entry: Database.Statement<[object], Row>,
  onDamagedEntry: () => void,
): Salvage<Row> {
  function read(firstNumber: bigint, bounds: object): Row[] {
    try {
      const row = entry.get({ ...bounds, firstNumber });
      return row === undefined ? [] : [row];
    } catch (error) {
      if (!isDamage(error)) throw error;
      onDamagedEntry();
      return [];
    }
  }

  return {
    readInOrder(order, after, bounds) {
      const keys = database.prepare<[object], [bigint, bigint]>(buildKeysInOrderSql(order)).raw().safeIntegers();
      for (let from: object = after; ; ) {
        const found = keys.all(from);
        const rows = found.flatMap(([, firstNumber]) => read(firstNumber, bounds));
        const last = found.at(-1);
        if (rows.length > 0 || !last) return rows;
        from = { afterNs: last[0], afterNumber: last[1] };
      }
    },
    readWithContexts(wanted, bounds) {
      const keys = database.prepare<[object], bigint>(SEGMENTS_WITH_CONTEXTS).pluck().safeIntegers().all(wanted);
      return keys.flatMap((firstNumber) => read(firstNumber, bounds));
    },
  };
}

export function isDamage(error: unknown): boolean {
  return (toRecordingError(error, '') as { code?: unknown }).code === 'recording_corrupt';
}
