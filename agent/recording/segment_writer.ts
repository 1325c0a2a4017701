/** Writes rows of a block as a part or as a sealed segment; runs inside the commit's transaction. */
import type Database from 'better-sqlite3';
import { type Block, newBlock } from '../../bpf/schema/block.ts';
import { COLUMNS } from '../../bpf/schema/columns.ts';
import { openSegmentData } from './codec/decode_segment.ts';
import { type BlockRange, segmentEncoder } from './codec/encode_segment.ts';
import { pieceSeed } from './codec/pieces.ts';
import type { ColumnPlaces } from './create.ts';
import { PIECE_KEY_FACTOR, packIds } from './format.ts';
import { copyRows, newOpenRows } from './open_rows.ts';
import { distinct, segmentFacts } from './segment_facts.ts';

/** Below this a segment is read whole anyway, and pieces would only waste the ends of pages. */
export const PIECES_ROWS_MIN = 1024;

const ADD_SEGMENT = `
INSERT INTO segment (
  first_number, sealed, event_count, min_timestamp_ns, max_timestamp_ns, max_duration_ns, type_mask, end_number,
  name_end, file_end, context_end, services, data
) VALUES (
  :firstNumber, :sealed, :eventCount, :minTimestampNs, :maxTimestampNs, :maxDurationNs, :typeMask, :endNumber,
  :nameEnd, :fileEnd, :contextEnd, :services, :data
)`;

const ADD_PIECE = `INSERT INTO segment_piece VALUES (? * ${PIECE_KEY_FACTOR} + ?, ?)`;

const DELETE_PARTS = 'DELETE FROM segment WHERE sealed = 0 AND first_number >= :from AND first_number < :to';

const ADD_SERVICE = 'INSERT OR IGNORE INTO service VALUES (?)';

const ADD_CONTEXTS = 'INSERT INTO segment_context SELECT value, ? FROM json_each(?)';

/** Kept so that a number is not used twice even when retention has removed the last segment. */
const SET_NEXT_NUMBER = "UPDATE meta SET value = max(value, ?) WHERE key = 'next_number'";

const NEXT_NUMBER = `
SELECT max(
  coalesce(CAST((SELECT value FROM meta WHERE key = 'next_number') AS INTEGER), 0),
  coalesce((SELECT coalesce(end_number, first_number + event_count) FROM segment ORDER BY first_number DESC LIMIT 1), 0)
)`;

const PARTS = 'SELECT first_number, data FROM segment WHERE sealed = 0 ORDER BY first_number';

const NO_DATA = Buffer.alloc(0);

/** Rows of a block that are written as one entry. */
export interface SegmentRows {
  block: Block;
  range: BlockRange;
  /** Number of the first row of the range. */
  firstNumber: number;
  /** Behind the last number; where it is not given, numbers follow each other. */
  endNumber?: number;
}

/** Dictionary ids that come next. */
export interface DictionaryEnds {
  nameEnd: number;
  fileEnd: number;
  contextEnd: number;
}

export interface SegmentWriter {
  writePart(rows: SegmentRows): void;
  /** Takes the place of the parts that hold some of the rows. */
  writeSealed(rows: SegmentRows): void;
  nextNumber(): number;
  /** Seals what a writer left that did not close. Its own transaction. */
  sealLeftParts(): void;
}

export function segmentWriter(
  database: Database.Database,
  { ids, pieces }: ColumnPlaces,
  dictionaryEnds: () => DictionaryEnds,
): SegmentWriter {
  const encodeAll = segmentEncoder(ids);
  const pieceEncoders = [...pieces].map(([piece, columns]) => ({
    piece,
    eventTypes: new Set(columns.map(({ eventType }) => eventType)),
    encode: segmentEncoder(ids, columns),
  }));
  const addSegment = database.prepare(ADD_SEGMENT);
  const addPiece = database.prepare(ADD_PIECE);
  const deleteParts = database.prepare(DELETE_PARTS);
  const addService = database.prepare(ADD_SERVICE);
  const addContexts = database.prepare(ADD_CONTEXTS);
  const setNextNumber = database.prepare(SET_NEXT_NUMBER);
  const nextNumber = database.prepare<[], number>(NEXT_NUMBER).pluck();
  const parts = database.prepare<[], { first_number: number; data: Buffer }>(PARTS);
  const knownServices = new Set<number>();

  function add(rows: SegmentRows, sealed: 0 | 1, data: Buffer): void {
    const { block, range, firstNumber, endNumber } = rows;
    const facts = segmentFacts(block, range);
    for (const nameId of facts.services) addServiceOnce(nameId);
    const eventCount = range.to - range.from;
    addSegment.run({
      ...facts,
      services: packIds(facts.services),
      ...dictionaryEnds(),
      firstNumber,
      sealed,
      eventCount,
      endNumber: endNumber === undefined || endNumber === firstNumber + eventCount ? null : endNumber,
      data,
    });
  }

  function addServiceOnce(nameId: number): void {
    if (knownServices.has(nameId)) return;
    addService.run(nameId);
    knownServices.add(nameId);
  }

  function writeSealed(rows: SegmentRows): void {
    const { block, range, firstNumber } = rows;
    const end = rows.endNumber ?? firstNumber + range.to - range.from;
    deleteParts.run({ from: firstNumber, to: end });
    if (range.to - range.from < PIECES_ROWS_MIN) add(rows, 1, encodeAll(block, range));
    else {
      add(rows, 1, NO_DATA);
      for (const { piece, eventTypes, encode } of pieceEncoders) {
        if (![...eventTypes].some((type) => hasRows(range, type))) continue;
        addPiece.run(firstNumber, piece, encode(block, range, pieceSeed(firstNumber, piece)));
      }
    }
    const contexts = distinct(block, range, 'context');
    if (contexts.length > 0) addContexts.run(firstNumber, JSON.stringify(contexts));
    setNextNumber.run(end);
  }

  return {
    writePart: (rows) => add(rows, 0, encodeAll(rows.block, rows.range)),
    writeSealed,
    nextNumber: () => nextNumber.get()!,
    sealLeftParts: database.transaction(() => {
      const left = parts.all();
      if (left.length === 0) return;
      const rows = newOpenRows(0);
      for (const { data } of left) {
        const block = decodeAll(data, ids);
        copyRows(rows, block, wholeRange(block));
      }
      writeSealed({ block: rows.block, range: wholeRange(rows.block), firstNumber: left[0]!.first_number });
    }),
  };
}

function hasRows({ from, to, typeFrom, typeTo }: BlockRange, eventType: number): boolean {
  return eventType === 0 ? to > from : typeTo[eventType]! > typeFrom[eventType]!;
}

/** All rows of a block. */
export function wholeRange({ rowCount, typeCounts }: Block): BlockRange {
  return { from: 0, to: rowCount, typeFrom: new Uint32Array(typeCounts.length), typeTo: typeCounts };
}

function decodeAll(data: Buffer, columnIds: ReadonlyMap<string, number>): Block {
  const segment = openSegmentData(data, columnIds);
  const block = newBlock(0, []);
  block.rowCount = segment.rowCount;
  for (let type = 1; type < block.typeCounts.length; type++) block.typeCounts[type] = segment.typeRowCount(type);
  for (const column of COLUMNS) block.columns.set(column.name, segment.column(column));
  return block;
}
