/**
 * Assembles a block from rows of several segments. Segments are copied one after another, so that only a few are
 * decoded at a time.
 */
import { createBlock, createColumn, type NumberedBlock, typeRows } from '../../../bpf/schema/block.ts';
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { NUMBER } from '../format/pieces.ts';
import { toWords } from '../words64.ts';
import type { Segment } from './segment.ts';

/** The members of a segment that copying its rows requires. */
export type RowSource = Pick<Segment, 'copy' | 'readEventNumber' | 'eventTypes' | 'typeRowCount' | 'places'>;

/** Consecutive rows of the result that come from one segment. */
export interface RowRun<Source extends RowSource = Segment> {
  segment: Source;
  rows: Uint32Array;
}

/**
 * Target positions of a segment's rows: row `rows[i]` becomes row `targets[i]` in the common columns, and row
 * `typeTargets[i]` in the columns of its event type.
 */
interface Share {
  count: number;
  rows: Uint32Array;
  targets: Uint32Array;
  typeTargets: Uint32Array;
}

const EVERY_ROW = Uint32Array.from({ length: SEGMENT_ROWS_MAX }, (_, row) => row);

/**
 * Columns that every block includes. Readers of a block need them, and so does the continuation of a scan after the
 * block.
 */
const ALWAYS = ['event_type', 'timestamp_ns'];

export function selectColumns(names: readonly string[] | 'all'): readonly Column[] {
  if (names === 'all') return COLUMNS;
  const unknown = names.find((name) => !COLUMNS.some((column) => column.name === name));
  if (unknown !== undefined) throw new Error(`there is no column ${unknown}`);
  return COLUMNS.filter(({ name }) => ALWAYS.includes(name) || names.includes(name));
}

/** Copies the rows of `runs` into a block; calls `using` with each segment before the segment is decoded. */
export function gather<Source extends RowSource>(
  runs: readonly RowRun<Source>[],
  columns: readonly Column[],
  using: (segment: Source) => void,
  make = createColumn,
): NumberedBlock {
  const rowCount = runs.reduce((sum, { rows }) => sum + rows.length, 0);
  const numbers = make(NUMBER.name, NUMBER.storage, rowCount) as BigUint64Array;
  setNumbers(numbers, runs);
  const block: NumberedBlock = { ...createBlock(0, []), rowCount, numbers };
  const shares = shareOut(runs, block.typeCounts, using);
  for (const { name, storage, eventType } of columns) {
    const length = eventType === 0 ? rowCount : block.typeCounts[eventType]!;
    block.columns.set(name, make(name, storage, length));
  }
  for (const [segment, share] of shares) {
    using(segment);
    copySegment(segment, share, columns, block);
  }
  return block;
}

/** Copies some rows of a block into a new block. */
export function takeRows(block: NumberedBlock, rows: Uint32Array): NumberedBlock {
  const places = typeRows(block);
  const source: RowSource = {
    copy: ({ name }, from, target, to) => nativeColumns.scatterValues(block.columns.get(name)!, from, target, to),
    readEventNumber: (row) => Number(block.numbers[row]),
    eventTypes: () => block.columns.get('event_type') as Uint8Array,
    typeRowCount: (eventType) => (eventType === 0 ? block.rowCount : block.typeCounts[eventType]!),
    places: () => places,
  };
  return gather([{ segment: source, rows }], COLUMNS, () => {});
}

/** Builds a block of all rows of a segment, in recorded order. The block shares the segment's arrays. */
export function buildWholeBlock(segment: Segment, columns: readonly Column[], make = createColumn): NumberedBlock {
  const { rowCount } = segment;
  const numbers = make(NUMBER.name, NUMBER.storage, rowCount) as BigUint64Array;
  setNumbers(numbers, [{ segment, rows: EVERY_ROW.subarray(0, rowCount) }]);
  const block: NumberedBlock = { ...createBlock(0, []), rowCount, numbers };
  for (let type = 1; type < block.typeCounts.length; type++) block.typeCounts[type] = segment.typeRowCount(type);
  for (const column of columns) block.columns.set(column.name, segment.readColumn(column));
  return block;
}

/** Assigns target rows to each segment, and counts the rows of each event type in `typeCounts`. */
function shareOut<Source extends RowSource>(
  runs: readonly RowRun<Source>[],
  typeCounts: Uint32Array,
  using: (segment: Source) => void,
): Map<Source, Share> {
  const sizes = new Map<Source, number>();
  for (const { segment, rows } of runs) sizes.set(segment, (sizes.get(segment) ?? 0) + rows.length);
  const shares = new Map<Source, Share>();
  for (const [segment, size] of sizes) {
    const rows = new Uint32Array(size);
    const targets = new Uint32Array(size);
    const typeTargets = new Uint32Array(size);
    shares.set(segment, { count: 0, rows, targets, typeTargets });
  }
  let target = 0;
  for (const { segment, rows } of runs) {
    using(segment);
    const types = segment.eventTypes();
    const share = shares.get(segment)!;
    for (let i = 0; i < rows.length; i++) {
      const at = share.count++;
      share.rows[at] = rows[i]!;
      share.targets[at] = target++;
      share.typeTargets[at] = typeCounts[types[rows[i]!]!]!++;
    }
  }
  return shares;
}

function copySegment(segment: RowSource, share: Share, columns: readonly Column[], block: NumberedBlock): void {
  const byType = new Map<number, { from: Uint32Array; to: Uint32Array }>();
  byType.set(0, { from: share.rows, to: share.targets });
  for (const column of columns) {
    const { name, eventType } = column;
    if (eventType !== 0 && segment.typeRowCount(eventType) === 0) continue;
    let places = byType.get(eventType);
    if (!places) {
      places = collectTypePlaces(segment, share, eventType);
      byType.set(eventType, places);
    }
    if (places.from.length > 0) segment.copy(column, places.from, block.columns.get(name)!, places.to);
  }
}

function collectTypePlaces(
  segment: RowSource,
  share: Share,
  eventType: number,
): { from: Uint32Array; to: Uint32Array } {
  const types = segment.eventTypes();
  const places = segment.places();
  const from = new Uint32Array(share.count);
  const to = new Uint32Array(share.count);
  let count = 0;
  for (let i = 0; i < share.count; i++) {
    const row = share.rows[i]!;
    if (types[row] !== eventType) continue;
    from[count] = places[row]!;
    to[count++] = share.typeTargets[i]!;
  }
  return { from: from.subarray(0, count), to: to.subarray(0, count) };
}

function setNumbers(numbers: BigUint64Array, runs: readonly RowRun<RowSource>[]): void {
  const pairs = toWords(numbers);
  let i = 0;
  for (const { segment, rows } of runs) {
    for (const row of rows) {
      const number = segment.readEventNumber(row);
      pairs[i++] = number >>> 0;
      pairs[i++] = Math.floor(number / 2 ** 32);
    }
  }
}
