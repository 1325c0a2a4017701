/**
 * Assigns columns to pieces. A sealed segment of many rows is stored in pieces, and so a query reads and decompresses
 * only the pieces with the columns that it needs. Columns that are used together, or are alike, share a piece.
 */
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';

/** Number of the event in its recording. It is stored only where numbers are not consecutive: in bundles. */
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
 * The first piece of the event types. Each type has two pieces: one for the columns that owner filters read, and one
 * for the other columns.
 */
const FIRST_OWN = 8;

/**
 * Exclusive upper bound of a segment's piece numbers: a piece's key in its table is `first_number * PIECES_MAX +
 * piece`.
 */
export const PIECES_MAX = 256;

/** The last piece that can contain columns. */
const PIECE_LAST = PIECES_MAX - 2;

/**
 * Returns the piece in which a writer of this version stores a new column. Each file records where its columns are, so
 * the choice may change for columns that a file does not have yet.
 */
export function choosePiece({ name, eventType, source }: Column): number {
  if (eventType === 0) return COMMON[name] ?? COMMON_REST;
  const own = FIRST_OWN + 2 * eventType;
  if (own + 1 > PIECE_LAST) throw new Error(`event type ${eventType} would need a piece above ${PIECE_LAST}`);
  const isOwner = source === 'queuer' || (source === 'origins' && !name.endsWith('_bytes'));
  return isOwner ? own : own + 1;
}

/** Computes the seed for the checksum of a piece. */
export function computePieceSeed(firstNumber: number, piece: number): number {
  return (firstNumber % 2 ** 24) * PIECES_MAX + piece;
}

/**
 * Computes the seed for the checksum of the column facts in a segment's entry, with a piece number that no columns use.
 */
export function computeFactsSeed(firstNumber: number): number {
  return computePieceSeed(firstNumber, PIECE_LAST + 1);
}
