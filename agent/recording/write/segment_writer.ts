/** Writes rows of a block as a part or as a sealed segment, inside the commit's transaction. */

import type Database from 'better-sqlite3';
import { type Block, createBlock } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { encodeFacts } from '../codec/column_facts.ts';
import { openSegmentData } from '../codec/decode_segment.ts';
import { type BlockRange, createSegmentEncoder, SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { collectDistinctIds, computeColumnFacts, computeSegmentFacts } from '../codec/segment_facts.ts';
import { RecordingError } from '../format/errors.ts';
import type { NextIds } from '../format/ids.ts';
import type { Loss } from '../format/losses.ts';
import { computeFactsSeed, computePieceSeed, PIECES_MAX } from '../format/pieces.ts';
import { END_NUMBER, packIds } from '../format/schema.ts';
import type { ColumnPlaces } from './create.ts';
import { copyRows, createOpenRows, type OpenRows } from './event_buffer.ts';
import { createLossWriter } from './loss_tables.ts';

/**
 * Minimum number of rows of a segment that is stored in pieces. A query reads a smaller segment whole anyway, and each
 * piece wastes the rest of its last page.
 */
const PIECES_ROWS_MIN = 1024;

const ADD_SEGMENT = `
INSERT INTO segment (
  first_number, sealed, event_count, min_timestamp_ns, max_timestamp_ns, max_duration_ns, type_mask, end_number,
  name_from, file_from, context_from, name_end, file_end, context_end, services, facts, data
) VALUES (
  :firstNumber, :sealed, :eventCount, :minTimestampNs, :maxTimestampNs, :maxDurationNs, :typeMask, :endNumber,
  :nameFrom, :fileFrom, :contextFrom, :nameEnd, :fileEnd, :contextEnd, :services, :facts, :data
)`;

const ADD_PIECE = `
INSERT INTO segment_piece VALUES (CAST(? AS INTEGER) * ${PIECES_MAX} + CAST(? AS INTEGER), ?)`;

const DELETE_PARTS = 'DELETE FROM segment WHERE sealed = 0 AND first_number >= :from AND first_number < :to';

const ADD_SERVICE = 'INSERT OR IGNORE INTO service VALUES (?)';

const ADD_CONTEXTS = 'INSERT INTO segment_context SELECT value, ? FROM json_each(?)';

/** The next number is stored in `meta`, so that no number is used twice even if retention removes the last segment. */
const SET_NEXT_NUMBER = "UPDATE meta SET value = max(value, CAST(? AS INTEGER)) WHERE key = 'next_number'";

const PARTS = `
SELECT first_number AS firstNumber, event_count AS eventCount, min_timestamp_ns AS minNs, max_timestamp_ns AS maxNs, data
FROM segment
WHERE sealed = 0
ORDER BY first_number`;

const DELETE_PART = 'DELETE FROM segment WHERE sealed = 0 AND first_number = ?';

const NO_DATA = Buffer.alloc(0);

/** Rows of a block that become one row of the segment table. */
export interface SegmentRows {
  block: Block;
  range: BlockRange;
  /** Event number of the first row of the range. */
  firstNumber: number;
  /** Event number after the last row; undefined if the rows have consecutive numbers. */
  endNumber?: number;
  /** See `idsFrom` and `idsEnd` of `RowsToWrite`. */
  idsFrom: NextIds;
  idsEnd: NextIds;
}

export interface SegmentWriter {
  writePart(rows: SegmentRows): void;
  /** Writes the rows as a sealed segment, and deletes the parts that contain some of them. */
  writeSealed(rows: SegmentRows): void;
  nextNumber(): number;
  /** Seals the parts that an earlier writer did not seal, in a transaction of its own. */
  sealLeftParts(nextIds: NextIds): void;
}

export function createSegmentWriter(database: Database.Database, { ids, pieces }: ColumnPlaces): SegmentWriter {
  const encodeAll = createSegmentEncoder(ids);
  const pieceEncoders = [...pieces].map(([piece, columns]) => ({
    piece,
    eventTypes: new Set(columns.map(({ eventType }) => eventType)),
    encode: createSegmentEncoder(ids, columns),
  }));
  const addSegment = database.prepare(ADD_SEGMENT);
  const addPiece = database.prepare(ADD_PIECE);
  const deleteParts = database.prepare(DELETE_PARTS);
  const addService = database.prepare(ADD_SERVICE);
  const addContexts = database.prepare(ADD_CONTEXTS);
  const setNextNumber = database.prepare(SET_NEXT_NUMBER);
  const nextNumber = database.prepare<[], number>(END_NUMBER).pluck();
  const parts = database.prepare<[], PartRow>(PARTS).safeIntegers();
  const deletePart = database.prepare(DELETE_PART);
  const notes = createLossWriter(database);

  function add(rows: SegmentRows, sealed: 0 | 1, data: Buffer): void {
    const { block, range, firstNumber, endNumber, idsFrom, idsEnd } = rows;
    const facts = computeSegmentFacts(block, range);
    for (const nameId of facts.services) addService.run(nameId);
    const eventCount = range.to - range.from;
    addSegment.run({
      ...facts,
      services: packIds(facts.services),
      // A part has no facts, because it is small and soon replaced.
      facts: sealed ? encodeFacts(computeColumnFacts(block, range, ids), computeFactsSeed(firstNumber)) : null,
      nameFrom: idsFrom.name,
      fileFrom: idsFrom.file,
      contextFrom: idsFrom.context,
      nameEnd: idsEnd.name,
      fileEnd: idsEnd.file,
      contextEnd: idsEnd.context,
      firstNumber,
      sealed,
      eventCount,
      endNumber: endNumber === undefined || endNumber === firstNumber + eventCount ? null : endNumber,
      data,
    });
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
        addPiece.run(firstNumber, piece, encode(block, range, computePieceSeed(firstNumber, piece)));
      }
    }
    const contexts = collectDistinctIds(block, range, 'context');
    if (contexts.length > 0) addContexts.run(firstNumber, JSON.stringify(contexts));
    setNextNumber.run(end);
  }

  return {
    writePart: (rows) => add(rows, 0, encodeAll(rows.block, rows.range)),
    writeSealed,
    nextNumber: () => nextNumber.get()!,
    sealLeftParts: database.transaction((nextIds: NextIds) => {
      let gathered: LeftRows | undefined;
      const sealGathered = () => {
        if (gathered) writeSealed(buildSealedRows(gathered, nextIds));
        gathered = undefined;
      };
      for (const part of parts.all()) {
        const block = decodePart(part, ids);
        if (!block) {
          deletePart.run(part.firstNumber);
          notes.addLoss(toLoss(part));
          continue;
        }
        const end = gathered && gathered.firstNumber + gathered.rows.block.rowCount;
        // The part before this one may be missing, so the numbers may have a gap.
        const firstNumber = Number(part.firstNumber);
        if (end !== firstNumber || !fits(gathered!.rows, block)) sealGathered();
        gathered ??= { rows: createOpenRows(0), firstNumber };
        copyRows(gathered.rows, block, buildWholeRange(block));
      }
      sealGathered();
    }),
  };
}

interface PartRow {
  firstNumber: bigint;
  eventCount: bigint;
  minNs: bigint;
  maxNs: bigint;
  data: Buffer;
}

/** Rows of parts with consecutive numbers. */
interface LeftRows {
  rows: OpenRows;
  firstNumber: number;
}

function fits({ block }: OpenRows, { rowCount }: Block): boolean {
  return block.rowCount + rowCount <= SEGMENT_ROWS_MAX;
}

/** Returns the rows of a new sealed segment. `idsFrom` is 0 because the ids that the rows use are unknown. */
function buildSealedRows({ rows, firstNumber }: LeftRows, idsEnd: NextIds): SegmentRows {
  const { block } = rows;
  return { block, range: buildWholeRange(block), firstNumber, idsFrom: { name: 0, file: 0, context: 0 }, idsEnd };
}

/** Converts a damaged part to a loss. The part's row may be damaged too, so its values may have any type. */
function toLoss({ eventCount, minNs, maxNs }: PartRow): Loss {
  const toInteger = (value: unknown) => (typeof value === 'bigint' ? value : 0n);
  const fromNs = toInteger(minNs);
  const toNs = toInteger(maxNs);
  return { cause: 'damaged', eventType: null, count: Number(toInteger(eventCount)), fromNs, toNs };
}

/** Decodes a part; returns undefined if the part is damaged. */
function decodePart({ data, eventCount }: PartRow, columnIds: ReadonlyMap<string, number>): Block | undefined {
  try {
    const block = decodeAll(data, columnIds);
    return block.rowCount === Number(eventCount) ? block : undefined;
  } catch (error) {
    if (error instanceof RecordingError && error.code === 'recording_corrupt') return undefined;
    throw error;
  }
}

function hasRows({ from, to, typeFrom, typeTo }: BlockRange, eventType: number): boolean {
  return eventType === 0 ? to > from : typeTo[eventType]! > typeFrom[eventType]!;
}

/** Returns the range of all rows of a block. */
export function buildWholeRange({ rowCount, typeCounts }: Block): BlockRange {
  return { from: 0, to: rowCount, typeFrom: new Uint32Array(typeCounts.length), typeTo: typeCounts };
}

function decodeAll(data: Buffer, columnIds: ReadonlyMap<string, number>): Block {
  const segment = openSegmentData(data, columnIds);
  const block = createBlock(0, []);
  block.rowCount = segment.rowCount;
  for (let type = 1; type < block.typeCounts.length; type++) block.typeCounts[type] = segment.typeRowCount(type);
  for (const column of COLUMNS) block.columns.set(column.name, segment.readColumn(column));
  return block;
}
