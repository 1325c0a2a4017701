/** Rows that are not sealed yet, in arrival order: [0, writtenRows) are already in parts, the rest is only here. */
import { type Block, newBlock } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { absentValues } from '../codec/absent.ts';
import { type BlockRange, SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import type { NextIds } from '../format/ids.ts';

export interface OpenRows {
  /** Index of the block among the writer's blocks. */
  readonly slot: number;
  readonly block: Block;
  firstNumber: number;
  /** Time of the first append, and the next dictionary ids at that time. */
  openedNs: bigint;
  idsFrom: NextIds;
  writtenRows: number;
  readonly writtenTypeRows: Uint32Array;
}

export function newOpenRows(slot: number, block: Block = newBlock(SEGMENT_ROWS_MAX)): OpenRows {
  return {
    slot,
    block,
    firstNumber: 0,
    openedNs: 0n,
    idsFrom: { name: 0, file: 0, context: 0 },
    writtenRows: 0,
    writtenTypeRows: new Uint32Array(block.typeCounts.length),
  };
}

/** Forgets the rows and keeps the memory. */
export function reuse(rows: OpenRows, firstNumber: number): void {
  rows.block.rowCount = 0;
  rows.block.typeCounts.fill(0);
  rows.firstNumber = firstNumber;
  rows.writtenRows = 0;
  rows.writtenTypeRows.fill(0);
}

/** Appends rows of another block, which must fit. Columns that it lacks get absent values. */
export function copyRows(rows: OpenRows, source: Block, range: BlockRange): void {
  const { block } = rows;
  for (const column of COLUMNS) {
    const { name, eventType } = column;
    const from = eventType === 0 ? range.from : range.typeFrom[eventType]!;
    const to = eventType === 0 ? range.to : range.typeTo[eventType]!;
    if (from === to) continue;
    const target = block.columns.get(name)!;
    const at = eventType === 0 ? block.rowCount : block.typeCounts[eventType]!;
    const values = source.columns.get(name);
    if (values) nativeColumns.copyValues(values, from, to, target, at);
    else nativeColumns.copyValues(absentValues(column, to - from), 0, to - from, target, at);
  }
  for (let type = 0; type < block.typeCounts.length; type++) {
    block.typeCounts[type]! += range.typeTo[type]! - range.typeFrom[type]!;
  }
  block.rowCount += range.to - range.from;
}

/** Returns the range of a block's rows [from, to), whose rows by type begin at `typeFrom`. */
export function rangeOf(source: Block, from: number, to: number, typeFrom: Uint32Array): BlockRange {
  const eventType = source.columns.get('event_type')! as Uint8Array;
  const typeTo = typeFrom.slice();
  for (let row = from; row < to; row++) typeTo[eventType[row]!]!++;
  return { from, to, typeFrom, typeTo };
}
