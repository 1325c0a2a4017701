/**
 * Assigns columns to pieces. A large sealed segment is stored in pieces, so that a query reads and decompresses only
 * the pieces with the columns that it needs. Columns that queries use together, or that have similar content, share a
 * piece.
 */
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';

/** The column with the event's number in its recording. Only bundles store it, because only their numbers have gaps. */
export const NUMBER: Column = {
  name: 'number',
  storage: 'u64',
  encoding: 'delta',
  source: 'value',
  eventType: 0,
  field: 'number',
  slot: 0,
};

export const STORED_COLUMNS: readonly Column[] = [...COLUMNS, NUMBER];

/** Pieces of common columns; columns that are not listed are in the piece `COMMON_REST`. */
const COMMON: Readonly<Record<string, number>> = {
  event_type: 1,
  timestamp_ns: 1,
  number: 1,
  duration_ns: 2,
  result: 2,
  context: 3,
  context_source: 3,
  context_quality: 3,
  service: 3,
};
const COMMON_REST = 4;

/**
 * Base of the piece numbers of event types. Event type n has the piece `FIRST_OWN + 2 * n` for the columns that owner
 * filters read, and the next piece for its other columns.
 */
const FIRST_OWN = 8;

/**
 * Exclusive upper bound of a segment's piece numbers. The key of a piece in its table is `first_number * PIECES_MAX +
 * piece`.
 */
export const PIECES_MAX = 256;

/** The last piece that can contain columns. */
const PIECE_LAST = PIECES_MAX - 2;

/**
 * Returns the piece in which this version stores a new column. Each file records the pieces of its own columns, so a
 * later version may choose differently.
 */
export function choosePiece({ name, eventType, source }: Column): number {
  if (eventType === 0) return COMMON[name] ?? COMMON_REST;
  const own = FIRST_OWN + 2 * eventType;
  if (own + 1 > PIECE_LAST) throw new Error(`event type ${eventType} would need a piece above ${PIECE_LAST}`);
  const isOwner = source === 'queuer' || (source === 'origins' && !name.endsWith('_bytes'));
  return isOwner ? own : own + 1;
}

export function computePieceSeed(firstNumber: number, piece: number): number {
  return (firstNumber % 2 ** 24) * PIECES_MAX + piece;
}

/** Returns the seed for the checksum of a segment's column facts. It uses a piece number that no columns use. */
export function computeFactsSeed(firstNumber: number): number {
  return computePieceSeed(firstNumber, PIECE_LAST + 1);
}
