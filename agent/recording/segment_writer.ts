/** Writes rows as a part or as a sealed segment; runs inside the flush's transaction. */
import type Database from 'better-sqlite3';
import { type Block, newBlock } from '../../bpf/schema/block.ts';
import { COLUMNS } from '../../bpf/schema/columns.ts';
import { openSegmentData } from './codec/decode_segment.ts';
import { type BlockRange, segmentEncoder } from './codec/encode_segment.ts';
import { unpackIds } from './format.ts';
import { copyRows, markWritten, newOpenRows, type OpenRows, unwrittenRange, wholeRange } from './open_rows.ts';
import { distinct, segmentFacts } from './segment_facts.ts';

const ADD_SEGMENT = `
INSERT INTO segment VALUES (
  :firstNumber, :sealed, :eventCount, :minTimestampNs, :maxTimestampNs, :maxDurationNs, :typeMask, :services, :data
)`;

const DELETE_PARTS = 'DELETE FROM segment WHERE sealed = 0 AND first_number >= :from AND first_number < :to';

const ADD_SERVICE = 'INSERT OR IGNORE INTO service VALUES (?)';

const ADD_CONTEXT = 'INSERT INTO segment_context VALUES (?, ?)';

/** Kept so that a number is not used twice even when retention has removed the last segment. */
const SET_NEXT_NUMBER = "UPDATE meta SET value = ? WHERE key = 'next_number'";

const NEXT_NUMBER = `
SELECT max(
  (SELECT value FROM meta WHERE key = 'next_number'),
  coalesce((SELECT first_number + event_count FROM segment ORDER BY first_number DESC LIMIT 1), 0)
)`;

const PARTS = 'SELECT first_number, data FROM segment WHERE sealed = 0 ORDER BY first_number';

export interface SegmentWriter {
  writePart(rows: OpenRows): void;
  writeSealed(rows: OpenRows): void;
  nextNumber(): number;
  /** Seals what a writer left that did not close. Its own transaction. */
  sealLeftParts(): void;
}

export function segmentWriter(database: Database.Database, columnIds: ReadonlyMap<string, number>): SegmentWriter {
  const encode = segmentEncoder(columnIds);
  const addSegment = database.prepare(ADD_SEGMENT);
  const deleteParts = database.prepare(DELETE_PARTS);
  const addService = database.prepare(ADD_SERVICE);
  const addContext = database.prepare(ADD_CONTEXT);
  const setNextNumber = database.prepare(SET_NEXT_NUMBER);
  const nextNumber = database.prepare<[], number>(NEXT_NUMBER).pluck();
  const parts = database.prepare<[], { first_number: number; data: Buffer }>(PARTS);

  function add(block: Block, range: BlockRange, firstNumber: number, sealed: 0 | 1): void {
    const facts = segmentFacts(block, range);
    for (const nameId of unpackIds(facts.services)) addService.run(nameId);
    addSegment.run({
      ...facts,
      firstNumber,
      sealed,
      eventCount: range.to - range.from,
      data: encode(block, range),
    });
  }

  function writeSealed(rows: OpenRows): void {
    const { block, firstNumber } = rows;
    const range = wholeRange(rows);
    const end = firstNumber + block.rowCount;
    if (rows.writtenRows > 0) deleteParts.run({ from: firstNumber, to: end });
    add(block, range, firstNumber, 1);
    for (const contextId of distinct(block, range, 'context')) addContext.run(contextId, firstNumber);
    setNextNumber.run(end);
  }

  return {
    writePart: (rows) => add(rows.block, unwrittenRange(rows), rows.firstNumber + rows.writtenRows, 0),
    writeSealed,
    nextNumber: () => nextNumber.get()!,
    sealLeftParts: database.transaction(() => {
      const left = parts.all();
      if (left.length === 0) return;
      const rows = newOpenRows(left[0]!.first_number, 0n);
      for (const { data } of left) {
        const block = decodeAll(data, columnIds);
        copyRows(rows, block, wholeRange({ ...rows, block }));
      }
      markWritten(rows);
      writeSealed(rows);
    }),
  };
}

function decodeAll(data: Buffer, columnIds: ReadonlyMap<string, number>): Block {
  const segment = openSegmentData(data, columnIds);
  const block = newBlock(0, []);
  block.rowCount = segment.rowCount;
  for (let type = 0; type < block.typeCounts.length; type++) block.typeCounts[type] = segment.typeRowCount(type);
  block.typeCounts[0] = 0;
  for (const column of COLUMNS) block.columns.set(column.name, segment.column(column));
  return block;
}
