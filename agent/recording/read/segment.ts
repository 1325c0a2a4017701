/** A segment that a scan has opened. Its columns are decoded on demand, and may be dropped and decoded again. */
import { type ColumnArray, createColumn, createColumnArray } from '../../../bpf/schema/block.ts';
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { createAbsentValues } from '../codec/absent.ts';
import { openSegmentData, type SegmentData } from '../codec/decode_segment.ts';
import { createCorruptError, RecordingError, SegmentGone, toDamageError, toRecordingError } from '../format/errors.ts';
import { computePieceSeed, NUMBER, PIECES_MAX } from '../format/pieces.ts';
import type { SegmentBytes, SegmentMeta } from './segment_index.ts';

/**
 * Maximum number of segments whose decoded columns a scan keeps, about 0.5 MB each. Other segments have only their
 * stored bytes.
 */
const DECODED_SEGMENTS_MAX = 16;

const EVENT_TYPE = COLUMNS.find(({ name }) => name === 'event_type')!;

/**
 * Returns whether every segment with events must store the column. All-zero columns are not stored, so the timestamps
 * may be absent if they are all zero.
 */
function isNeverAbsent({ name }: Column, { maxNs }: SegmentMeta): boolean {
  return name === 'event_type' || (name === 'timestamp_ns' && maxNs > 0n);
}

export interface Segment {
  readonly firstNumber: number;
  readonly rowCount: number;
  readColumn(column: Column): ColumnArray;
  /** Like `readColumn`, but returns undefined for a column that is not stored, and so has only absent values. */
  readStoredColumn(column: Column): ColumnArray | undefined;
  /**
   * Sets `target[to[i]]` to `column[from[i]]`. If only some of the values are copied, only these are decoded, except in
   * a delta-encoded column.
   */
  copy(column: Column, from: Uint32Array, target: ColumnArray, to: Uint32Array): void;
  readEventNumber(row: number): number;
  /** The segment's row in the segment table, which is available before the segment is read. */
  readonly meta: SegmentMeta;
  eventTypes(): Uint8Array;
  typeRowCount(eventType: number): number;
  /** Returns, for each row, its index in the columns of its event type. */
  places(): Uint32Array;
  /** Returns the rows of an event type; the inverse of `places`. */
  listRowsOfType(eventType: number): Uint32Array;
  dropDecoded(): void;
}

/** Locations of columns in the file. */
export interface ColumnLocations {
  ids: ReadonlyMap<string, number>;
  /** The piece of each column by name. Columns that the file does not have are missing. */
  pieces: ReadonlyMap<string, number>;
}

/**
 * Opens a segment. `cache` keeps its pieces for later segment objects; without a cache, each object reads its pieces
 * again. `make` allocates the memory of decoded columns. If `make` reuses memory, there must be no cache.
 */
export function openSegment(
  meta: SegmentMeta,
  bytes: SegmentBytes,
  locations: ColumnLocations,
  { cache, make = createColumn }: { cache?: PieceCache | undefined; make?: typeof createColumn | undefined } = {},
): Segment {
  const { firstNumber, eventCount } = meta;
  const columns = new Map<string, ColumnArray>();
  const sources = new Map<number, SegmentData>();
  let typeCounts: Uint32Array | undefined;
  let typePlaces: Uint32Array | undefined;

  const runGuarded = <T>(work: () => T): T => runWithSegmentErrors(meta, work);

  function getOrOpenSource(piece: number): SegmentData {
    let source = sources.get(piece);
    if (!source) {
      source = openCachedSource(piece);
      if (source.rowCount !== eventCount)
        throw createCorruptError('a segment does not have the rows that its entry says');
      sources.set(piece, source);
    }
    return source;
  }

  /**
   * Returns the data of a piece, from the cache if possible. Parts are not cached, because a writer soon replaces a
   * part by a segment that begins with the same number.
   */
  function openCachedSource(piece: number): SegmentData {
    if (!cache || !meta.sealed) return openSource(piece);
    let source = cache.get(firstNumber, piece);
    if (!source) {
      source = openSource(piece);
      cache.add(firstNumber, piece, source);
    }
    return source;
  }

  function openSource(piece: number): SegmentData {
    if (bytes.whole) return openSegmentData(bytes.whole, locations.ids, 0, { make, label: '' });
    return openSegmentData(bytes.readPiece(piece), locations.ids, computePieceSeed(firstNumber, piece), {
      make,
      label: `${piece}`,
    });
  }

  /** Returns the data that contains the column; undefined if the file does not have the column. */
  function findColumnData(column: Column): SegmentData | undefined {
    const piece = bytes.whole ? 0 : locations.pieces.get(column.name);
    if (piece === undefined) return undefined;
    const found = getOrOpenSource(piece);
    if (found.typeRowCount(column.eventType) !== typeRowCount(column.eventType)) {
      throw createCorruptError('event types and their columns differ in number');
    }
    return found;
  }

  function decode(column: Column): ColumnArray {
    const length = typeRowCount(column.eventType);
    if (length === 0) return createColumnArray(column.storage, 0);
    const found = findColumnData(column);
    if (isNeverAbsent(column, meta) && !found?.has(column)) throw createCorruptError(`a segment has no ${column.name}`);
    return found?.readColumn(column) ?? createAbsentValues(column, length, make);
  }

  function copy(column: Column, from: Uint32Array, target: ColumnArray, to: Uint32Array): void {
    // Picking some values costs less than decoding all values, even if the next block picks the rest.
    const isPart = from.length < typeRowCount(column.eventType);
    const picked = isPart && !columns.has(column.name) && findColumnData(column)?.pick(column, from, target, to);
    if (!picked) nativeColumns.scatterValues(decodeOnce(column), from, target, to);
  }

  function decodeOnce(column: Column): ColumnArray {
    let values = columns.get(column.name);
    if (!values) {
      values = decode(column);
      columns.set(column.name, values);
    }
    return values;
  }

  function typeRowCount(eventType: number): number {
    if (eventType === 0) return eventCount;
    typeCounts ??= countRowsByType(decodeOnce(EVENT_TYPE) as Uint8Array);
    return typeCounts[eventType]!;
  }

  function computePlacesOnce(): Uint32Array {
    typePlaces ??= computeTypePlaces(decodeOnce(EVENT_TYPE) as Uint8Array);
    return typePlaces;
  }

  const segment: Segment = {
    firstNumber,
    rowCount: eventCount,
    meta,
    readColumn: (column) => runGuarded(() => decodeOnce(column)),
    readStoredColumn: (column) =>
      runGuarded(() => (findColumnData(column)?.has(column) ? decodeOnce(column) : undefined)),
    copy: (column, from, target, to) => runGuarded(() => copy(column, from, target, to)),
    readEventNumber(row) {
      if (meta.endNumber === firstNumber + eventCount) return firstNumber + row;
      return Number((segment.readColumn(NUMBER) as BigUint64Array)[row]);
    },
    eventTypes: () => segment.readColumn(EVENT_TYPE) as Uint8Array,
    typeRowCount: (eventType) => runGuarded(() => typeRowCount(eventType)),
    places: () => runGuarded(computePlacesOnce),
    listRowsOfType: (eventType) => listTypeRows(segment.eventTypes(), eventType, segment.typeRowCount(eventType)),
    dropDecoded() {
      columns.clear();
      sources.clear();
      typeCounts = undefined;
      typePlaces = undefined;
    },
  };
  return segment;
}

/** An error about a segment that a scan skips and reports. */
export class UnreadableSegment extends Error {
  override readonly name = 'UnreadableSegment';
  readonly meta: SegmentMeta;
  /**
   * The damage that was found; undefined if retention has removed the segment, which the recording reports as a loss.
   */
  readonly damage: RecordingError | undefined;

  constructor(meta: SegmentMeta, damage: RecordingError | undefined) {
    super(damage?.message, { cause: damage });
    this.meta = meta;
    this.damage = damage;
  }
}

/**
 * Runs `work`. If it throws an error about damage, throws an `UnreadableSegment` instead, so that the reader leaves out
 * this segment and not the whole file.
 */
export function runWithSegmentErrors<T>(meta: SegmentMeta, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const known = toRecordingError(toDamageError(error), 'a segment');
    if (known instanceof SegmentGone) throw new UnreadableSegment(meta, undefined);
    if (known instanceof RecordingError && known.code === 'recording_corrupt') throw new UnreadableSegment(meta, known);
    throw error;
  }
}

const TYPES_MAX = 256;

function countRowsByType(types: Uint8Array): Uint32Array {
  const counts = new Uint32Array(TYPES_MAX);
  nativeColumns.placeRows(types, counts, undefined);
  return counts;
}

function computeTypePlaces(types: Uint8Array): Uint32Array {
  const places = new Uint32Array(types.length);
  nativeColumns.placeRows(types, new Uint32Array(TYPES_MAX), places);
  return places;
}

function listTypeRows(types: Uint8Array, eventType: number, count: number): Uint32Array {
  const rows = new Uint32Array(count);
  nativeColumns.rowsOfType(types, eventType, rows);
  return rows;
}

/** Keeps the decoded columns of the most recently used segments, and drops those of older segments. */
export function createDecodedSegments(): { use(segment: Segment): void } {
  const recent = new Set<Segment>();
  return {
    use(segment) {
      recent.delete(segment);
      recent.add(segment);
      if (recent.size <= DECODED_SEGMENTS_MAX) return;
      const oldest = recent.values().next().value!;
      recent.delete(oldest);
      oldest.dropDecoded();
    },
  };
}

/*
 * Caches decompressed pieces of sealed segments, because queries often return to the same few minutes. A piece is
 * cached at its second read, if its key is still in `seen` then. So a scan of the whole recording neither fills nor
 * flushes the cache. All readers of a thread share the memory.
 */

const BYTES_MAX_DEFAULT = 64 * 1024 * 1024;
/** Maximum number of keys in `seen`, which has the pieces that were read once. */
const SEEN_MAX = 8192;
/**
 * Once the memory is full, only one in this many pieces is cached. If the pieces in use exceed the memory, most of them
 * would be dropped before their next read, and allocating memory for them costs more than reading them.
 */
const KEPT_OF_MANY = 8;

interface PieceCache {
  get(firstNumber: number, piece: number): SegmentData | undefined;
  add(firstNumber: number, piece: number, data: SegmentData): void;
  close(): void;
}

/** Cached pieces, the least recently used first. */
const kept = new Map<string, SegmentData>();
const seen = new Set<string>();
let bytes = 0;
let bytesMax = BYTES_MAX_DEFAULT;
let readers = 0;
let isFull = false;
let passed = 0;

/** Sets the size of this thread's cache in bytes. Must be called before the thread's first query. */
export function limitPieceCache(bytes: number): void {
  bytesMax = bytes;
}

export function openPieceCache(): PieceCache {
  const reader = `${readers++}:`;
  // Keys are texts, because a number could not represent an event number (up to 2^53) and a piece number exactly.
  const buildPieceKey = (firstNumber: number, piece: number) => `${reader}${firstNumber}:${piece % PIECES_MAX}`;
  return {
    get(firstNumber, piece) {
      const key = buildPieceKey(firstNumber, piece);
      const data = kept.get(key);
      if (!data) return undefined;
      kept.delete(key);
      kept.set(key, data);
      return data;
    },
    add(firstNumber, piece, data) {
      const key = buildPieceKey(firstNumber, piece);
      if (seen.delete(key)) keep(key, data);
      else see(key);
    },
    close() {
      for (const key of kept.keys()) if (key.startsWith(reader)) drop(key);
      isFull = false;
    },
  };
}

function keep(key: string, data: SegmentData): void {
  if (isFull && ++passed % KEPT_OF_MANY !== 0) return;
  kept.set(key, data);
  bytes += data.bytes;
  for (const oldest of kept.keys()) {
    if (bytes <= bytesMax) return;
    isFull = true;
    drop(oldest);
  }
}

function drop(key: string): void {
  bytes -= kept.get(key)!.bytes;
  kept.delete(key);
}

function see(key: string): void {
  seen.add(key);
  if (seen.size <= SEEN_MAX) return;
  seen.delete(seen.values().next().value!);
}
