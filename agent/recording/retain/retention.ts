/**
 * Keeps a recording within its limits by removing whole segments, oldest first. Each step removes only a few segments,
 * so that no commit waits long for it. New events reuse the freed space. Excess space is returned to the file system
 * in small steps, never by copying the file. Pinned segments stay. Dictionary entries and summaries that no event
 * refers to are removed too.
 */
import { readFileSync, statSync } from 'node:fs';
import type Database from 'better-sqlite3';
import type { NextIds } from '../format/ids.ts';
import { PIECES_MAX } from '../format/pieces.ts';
import { END_NUMBER, toStored } from '../format/schema.ts';
import { findPinnedSegments, type PinnedContent } from './pinned_segments.ts';
import { type OldestKept, openPruning } from './pruning.ts';

export interface RetentionLimits {
  /** Maximum size of the file and its log together. */
  bytes?: number;
  /** Maximum age of an event, measured from its end. */
  ageNs?: bigint;
  /**
   * Path of a shipper's position file. The age limit keeps events that the shipper has not shipped yet; the size limit
   * may remove them.
   */
  unshipped?: string;
}

/** The smallest allowed size limit. A smaller recording would have room for little more than its own tables. */
export const RETAIN_BYTES_MIN = 64 << 20;

/** Number of segments that one step removes. */
const SEGMENTS_A_STEP = 16;
/** Maximum number of pages that one step returns to the file system. */
const PAGES_A_STEP = 512;

/** Share of the size limit that is kept free, so that the file does not grow between two steps. */
const FREE_SHARE = 0.02;
/**
 * Maximum share of the size limit for the write-ahead log. With a large limit, SQLite's checkpoint setting limits the
 * log instead.
 */
const LOG_SHARE = 1 / 32;
/** Size of a frame's header. Each frame of the log consists of a header and a page. */
const FRAME_OVERHEAD_BYTES = 24;

/**
 * Number of newest segments that the size limit never removes. If only these are left, other data takes up the space.
 */
const SEGMENTS_MIN = 16;

/**
 * Interval between two reads of the pins. It may be long: new segments of a pinned transaction are among the newest
 * segments, and retention removes the oldest.
 */
const PINS_EVERY_NS = 10_000_000_000n;

const SET_LIMIT = `
INSERT INTO meta VALUES ('retain_bytes', CAST(? AS INTEGER)) ON CONFLICT (key) DO UPDATE SET value = excluded.value`;

/**
 * SQL for the oldest sealed segment with at least the given number. The `+` stops SQLite from using the indexes by
 * time, because it would have to sort their rows by number.
 */
const OLDEST = `
SELECT
  first_number AS firstNumber, event_count AS eventCount, coalesce(end_number, first_number + event_count) AS endNumber,
  min_timestamp_ns AS minNs, max_timestamp_ns AS maxNs, max_duration_ns AS maxDurationNs,
  name_from AS nameFrom, file_from AS fileFrom, context_from AS contextFrom
FROM segment
WHERE +sealed = 1 AND first_number >= ?
ORDER BY first_number
LIMIT 1`;

/**
 * SQL for the parts, which contain the events that are in no sealed segment yet. Parts follow all sealed segments. The
 * first part has the oldest dictionary ids.
 */
const OLDEST_PART = `
WITH part AS MATERIALIZED (
  SELECT * FROM segment
  WHERE first_number > coalesce(
    (SELECT first_number FROM segment WHERE +sealed = 1 ORDER BY first_number DESC LIMIT 1), -1
  )
)
SELECT
  first_number AS firstNumber, (SELECT min(min_timestamp_ns) FROM part) AS minNs,
  name_from AS nameFrom, file_from AS fileFrom, context_from AS contextFrom
FROM part
ORDER BY first_number
LIMIT 1`;

const NEWEST = `
SELECT first_number FROM segment WHERE +sealed = 1 ORDER BY first_number DESC LIMIT 1 OFFSET ${SEGMENTS_MIN - 1}`;

const RECORDING_ID = "SELECT value FROM meta WHERE key = 'recording_id'";

const DELETE_SEGMENT = 'DELETE FROM segment WHERE first_number = ?';
const DELETE_PIECES = `
DELETE FROM segment_piece
WHERE piece_key >= :first * ${PIECES_MAX} AND piece_key < (:first + 1) * ${PIECES_MAX}`;

const REMOVED = "SELECT loss_id FROM loss WHERE cause = 'retention'";
const ADD_REMOVED = "INSERT INTO loss (from_ns, to_ns, cause, event_type, count) VALUES (?, ?, 'retention', NULL, 0)";
const WIDEN_REMOVED = `
UPDATE loss SET from_ns = min(from_ns, :minNs), to_ns = max(to_ns, :maxNs), count = count + :eventCount
WHERE loss_id = :lossId`;

/** Result of a step. `stuck`: the segments that must be kept exceed the limit. */
export type RetentionState = 'done' | 'more' | 'stuck';

interface OldPart {
  firstNumber: bigint;
  minNs: bigint;
  nameFrom: bigint;
  fileFrom: bigint;
  contextFrom: bigint;
}

interface OldSegment extends OldPart {
  eventCount: bigint;
  endNumber: bigint;
  maxNs: bigint;
  maxDurationNs: bigint;
}

/**
 * Returns a function that performs one step. `nextIds` returns the dictionary ids that follow the last written entries.
 */
export function openRetention(
  database: Database.Database,
  path: string,
  { bytes = Number.POSITIVE_INFINITY, ageNs, unshipped }: RetentionLimits,
  nextIds: () => NextIds,
): (nowNs: bigint) => RetentionState {
  const pageBytes = database.pragma('page_size', { simple: true }) as number;
  const logBytesMax = limitLog(database, bytes, pageBytes);
  const pageCount = database.prepare<[], number>('PRAGMA page_count').pluck();
  const freePages = database.prepare<[], number>('PRAGMA freelist_count').pluck();
  const dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck();
  const oldest = database.prepare<[bigint], OldSegment>(OLDEST).safeIntegers();
  const oldestPart = database.prepare<[], OldPart>(OLDEST_PART).safeIntegers();
  const newest = database.prepare<[], bigint>(NEWEST).pluck().safeIntegers();
  const endNumber = database.prepare<[], bigint>(END_NUMBER).pluck().safeIntegers();
  const deleteSegment = database.prepare(DELETE_SEGMENT);
  const deletePieces = database.prepare(DELETE_PIECES);
  const removed = database.prepare<[], number>(REMOVED).pluck();
  const addRemoved = database.prepare(ADD_REMOVED);
  const widenRemoved = database.prepare(WIDEN_REMOVED);
  const pruning = openPruning(database);
  const recordingId = database.prepare<[], string>(RECORDING_ID).pluck().get()!;
  const shipped = unshipped === undefined ? undefined : createShippedNumberReader(unshipped, recordingId);

  let pinned: PinnedContent = { segments: new Set(), transactionKeys: new Set(), names: [], files: [] };
  let pinsVersion: number | undefined;
  let pinsNs = 0n;
  /**
   * End of the segments that were sealed when `pinned` was read. Later segments are not in `pinned`, even if a pin
   * keeps them.
   */
  let pinsEnd = 0n;
  /** All segments before this number are pinned. */
  let from = 0n;

  function lookAtPins(nowNs: bigint): void {
    const version = dataVersion.get()!;
    const since = nowNs - pinsNs;
    if (version === pinsVersion && since >= 0n && since < PINS_EVERY_NS) return;
    if (version !== pinsVersion) pruning.restart();
    pinsVersion = version;
    pinsNs = nowNs;
    readPins();
    from = 0n;
  }

  function readPins(): void {
    pinsEnd = oldestPart.get()?.firstNumber ?? endNumber.get()!;
    pinned = findPinnedSegments(database);
  }

  function findNextUnpinned(): OldSegment | undefined {
    for (let segment = oldest.get(from); segment; segment = oldest.get(from)) {
      if (segment.firstNumber >= pinsEnd) readPins();
      if (!pinned.segments.has(Number(segment.firstNumber))) return segment;
      from = segment.endNumber;
    }
    return undefined;
  }

  const logBytes = () => statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  // A long-running reader can make the log grow, and removing events does not shrink it. So at most the log's normal
  // size counts.
  const computeUsedBytes = () => (pageCount.get()! - freePages.get()!) * pageBytes + Math.min(logBytes(), logBytesMax);
  const isTooMuch = () => computeUsedBytes() > bytes * (1 - FREE_SHARE);
  const isTooOld = ({ maxNs, maxDurationNs, endNumber: end }: OldSegment, nowNs: bigint) =>
    ageNs !== undefined && maxNs + maxDurationNs < nowNs - ageNs && (!shipped || end <= shipped(nowNs));

  const removeSome = database.transaction((nowNs: bigint): RetentionState => {
    // Pins are read inside the transaction, so that a segment of a confirmed pin is never removed.
    lookAtPins(nowNs);
    const keptFrom = newest.get() ?? 0n;
    for (let left = SEGMENTS_A_STEP; left > 0; left--) {
      const segment = findNextUnpinned();
      if (!segment) return isTooMuch() ? 'stuck' : 'done';
      if (!isTooOld(segment, nowNs)) {
        if (!isTooMuch()) return 'done';
        if (segment.firstNumber >= keptFrom) return 'stuck';
      }
      remove(segment);
    }
    return 'more';
  });

  function remove({ firstNumber, eventCount, minNs, maxNs }: OldSegment): void {
    deleteSegment.run(firstNumber);
    deletePieces.run({ first: firstNumber });
    const lossId = removed.get() ?? Number(addRemoved.run(minNs, maxNs).lastInsertRowid);
    widenRemoved.run({ minNs, maxNs, eventCount, lossId });
  }

  function findOldestKept(nowNs: bigint): OldestKept {
    const oldestEvents = findNextUnpinned() ?? oldestPart.get();
    if (!oldestEvents) return { number: endNumber.get()!, minNs: toStored(nowNs), ids: nextIds() };
    const { firstNumber, minNs, nameFrom, fileFrom, contextFrom } = oldestEvents;
    const ids = { name: Number(nameFrom), file: Number(fileFrom), context: Number(contextFrom) };
    return { number: firstNumber, minNs, ids };
  }

  function needsStep(nowNs: bigint): boolean {
    if (isTooMuch()) return true;
    const segment = ageNs === undefined ? undefined : oldest.get(from);
    return segment !== undefined && isTooOld(segment, nowNs);
  }

  return (nowNs) => {
    let state: RetentionState = 'done';
    if (needsStep(nowNs)) {
      state = removeSome.immediate(toStored(nowNs));
      pruning.prune(findOldestKept(nowNs), pinned);
    }
    const tooManyPages = Math.ceil(
      (pageCount.get()! * pageBytes + Math.min(logBytes(), logBytesMax) - bytes) / pageBytes,
    );
    const spare = Math.min(tooManyPages, freePages.get()!, PAGES_A_STEP);
    if (spare > 0) database.pragma(`incremental_vacuum(${spare})`);
    return state === 'done' && spare === PAGES_A_STEP ? 'more' : state;
  };
}

/**
 * Limits the write-ahead log; returns its maximum size. The log exceeds this size only while a reader blocks
 * checkpoints.
 */
function limitLog(database: Database.Database, bytes: number, pageBytes: number): number {
  const frameBytes = pageBytes + FRAME_OVERHEAD_BYTES;
  const current = database.pragma('wal_autocheckpoint', { simple: true }) as number;
  const pages = Math.max(1, Math.min(current, Math.floor((bytes * LOG_SHARE) / frameBytes)));
  // A commit may exceed the size that triggers a checkpoint.
  const logBytesMax = 2 * pages * frameBytes;
  database.pragma(`wal_autocheckpoint = ${pages}`);
  database.pragma(`journal_size_limit = ${logBytesMax}`);
  if (Number.isFinite(bytes)) database.prepare(SET_LIMIT).run(bytes);
  else database.prepare("DELETE FROM meta WHERE key = 'retain_bytes'").run();
  return logBytesMax;
}

/*
 * Reads a shipper's position file, which shows how far a recording was shipped. The age limit keeps events that are
 * not shipped.
 */

/**
 * Interval between two reads of the position file. The file changes with every group that arrives, but reading it less
 * often suffices.
 */
const LOOK_EVERY_NS = 10_000_000_000n;

/**
 * Returns a function that returns the shipped position: events with smaller numbers have arrived. The position is 0 if
 * the file is missing, is unreadable or belongs to another recording, because then no event is known to have arrived.
 */
function createShippedNumberReader(path: string, recordingId: string): (nowNs: bigint) => bigint {
  let readNs: bigint | undefined;
  let number = 0n;
  return (nowNs) => {
    const since = readNs === undefined ? LOOK_EVERY_NS : nowNs - readNs;
    if (since >= 0n && since < LOOK_EVERY_NS) return number;
    readNs = nowNs;
    number = readPositionNumber(path, recordingId);
    return number;
  };
}

function readPositionNumber(path: string, recordingId: string): bigint {
  try {
    const position = JSON.parse(readFileSync(path, 'utf8')) as { recordingId?: unknown; number?: unknown } | null;
    const isOfThis = position?.recordingId === recordingId && Number.isSafeInteger(position.number);
    return isOfThis ? BigInt(Math.max(0, position.number as number)) : 0n;
  } catch {
    return 0n;
  }
}
