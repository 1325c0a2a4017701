/**
 * Assigns columns to pieces: a sealed segment of many rows is stored in pieces, so that a query reads and decompresses
 * only those with the columns it needs. Columns that are used together, or are alike, share a piece.
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

/** Pieces of common columns; those that are not listed are in the last one. */
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

/** The first piece of event types. Each type has two: the columns that owner filters read, and the rest. */
const FIRST_OWN = 8;

/**
 * Exclusive upper bound of a segment's piece numbers: a piece's key in its table is `first_number * PIECES_MAX +
 * piece`.
 */
export const PIECES_MAX = 256;

/** The last piece that columns may be in. */
const PIECE_LAST = PIECES_MAX - 2;

/**
 * The piece in which a writer of this version stores a new column. Each file records where its columns are, so this may
 * change for columns that a file does not have yet.
 */
export function choosePiece({ name, eventType, source }: Column): number {
  if (eventType === 0) return COMMON[name] ?? COMMON_REST;
  const own = FIRST_OWN + 2 * eventType;
  if (own + 1 > PIECE_LAST) throw new Error(`event type ${eventType} would need a piece above ${PIECE_LAST}`);
  const isOwner = source === 'queuer' || (source === 'origins' && !name.endsWith('_bytes'));
  return isOwner ? own : own + 1;
}

/** Seed of the checksum of a piece. */
export function computePieceSeed(firstNumber: number, piece: number): number {
  return (firstNumber % 2 ** 24) * PIECES_MAX + piece;
}

/** Seed of the checksum of what a segment's entry says about its columns: that of a piece which no column is in. */
export function computeFactsSeed(firstNumber: number): number {
  return computePieceSeed(firstNumber, PIECE_LAST + 1);
}
