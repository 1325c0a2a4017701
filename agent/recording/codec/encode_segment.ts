/**
 * Encodes the columns of a segment into a blob, compressed by groups. The first group has the common columns; each
 * further group has the columns of one event type. A query decompresses only the groups that it needs, and decodes only
 * the columns that it needs.
 *
 *   [crc32 of the rest u32, from a seed][rows u16][groups u16] [group head]... [group body]...
 *   group head   event type u16 (0: common), rows u16, body bytes u32, raw bytes u32 (0: the body is not compressed)
 *   raw body     for each column: id u16, bytes u32, and these bytes, see column_bytes.ts
 *
 * One zstd frame per column would compress no better and cost more.
 */
import { crc32 } from 'node:zlib';
import type { Block } from '../../../bpf/schema/block.ts';
import type { Column } from '../../../bpf/schema/columns.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { STORED_COLUMNS } from '../format/pieces.ts';
import { getAbsentValue } from './absent.ts';
import { compressFrame, computeEncodedBytesMax, encodeColumn, repeatsByte, STORAGE_WIDTH } from './column_bytes.ts';

/** The maximum number of rows of a segment, and of a block that a scan returns. */
export const SEGMENT_ROWS_MAX = 4096;

/** The maximum decompressed size of a valid group. The limit bounds how much memory a reader allocates. */
export const GROUP_BYTES_MAX = SEGMENT_ROWS_MAX * 8 * 128;

export const HEAD_BYTES = 8;
export const GROUP_HEAD_BYTES = 12;
export const ENTRY_HEAD_BYTES = 6;

/** The smallest group that is compressed. For smaller groups, zstd saves too little to be worth the call. */
const COMPRESS_BYTES_MIN = 128;

/**
 * A range of a block's rows: [from, to) in the common columns, and [typeFrom[type], typeTo[type]) in the columns of
 * each event type.
 */
export interface BlockRange {
  from: number;
  to: number;
  typeFrom: Uint32Array;
  typeTo: Uint32Array;
}

interface ColumnGroup {
  eventType: number;
  columns: readonly Column[];
}

const ABSENT_BYTE = new Map(STORED_COLUMNS.map((column) => [column.name, getAbsentValue(column) === 0n ? 0 : 0xff]));

/** Buffers that all encoders of a thread share: the raw columns of a group, and the encoded blob. */
let work: { raw: Buffer; blob: Buffer } | undefined;

function allocateWorkMemory(): { raw: Buffer; blob: Buffer } {
  if (work) return work;
  const rawBytes = STORED_COLUMNS.reduce((sum, column) => sum + computeColumnBytesMax(column), 0);
  const headBytes = HEAD_BYTES + (EVENTS.length + 1) * GROUP_HEAD_BYTES;
  work = { raw: Buffer.allocUnsafeSlow(rawBytes), blob: Buffer.allocUnsafeSlow(headBytes + rawBytes) };
  return work;
}

/**
 * Returns a function that encodes `columns` for a range of a block. The checksum starts from `seed`, so a blob with the
 * seed of another segment or piece is invalid. The next encoding in this thread overwrites the returned blob.
 */
export function createSegmentEncoder(
  columnIds: ReadonlyMap<string, number>,
  columns: readonly Column[] = STORED_COLUMNS,
): (block: Block, range: BlockRange, seed?: number) => Buffer {
  const groups: ColumnGroup[] = [0, ...EVENTS.map((event) => event.id)]
    .map((eventType) => ({ eventType, columns: columns.filter((column) => column.eventType === eventType) }))
    .filter((group) => group.columns.length > 0);
  const { raw, blob } = allocateWorkMemory();
  return (block, range, seed = 0) => {
    const rows = groups.map(({ eventType }) => getTypeRows(range, eventType));
    const groupCount = rows.filter(({ from, to }) => to > from).length;
    blob.writeUInt16LE(range.to - range.from, 4);
    blob.writeUInt16LE(groupCount, 6);
    let head = HEAD_BYTES;
    let end = HEAD_BYTES + groupCount * GROUP_HEAD_BYTES;
    for (const [i, group] of groups.entries()) {
      const { from, to } = rows[i]!;
      if (to === from) continue;
      const rawBytes = encodeGroup(group, block, from, to, columnIds, raw);
      const packedBytes = compress(raw.subarray(0, rawBytes), blob, end);
      if (packedBytes === 0) raw.copy(blob, end, 0, rawBytes);
      const bodyBytes = packedBytes || rawBytes;
      blob.writeUInt16LE(group.eventType, head);
      blob.writeUInt16LE(to - from, head + 2);
      blob.writeUInt32LE(bodyBytes, head + 4);
      blob.writeUInt32LE(packedBytes === 0 ? 0 : rawBytes, head + 8);
      head += GROUP_HEAD_BYTES;
      end += bodyBytes;
    }
    blob.writeUInt32LE(crc32(blob.subarray(4, end), seed), 0);
    return blob.subarray(0, end);
  };
}

function getTypeRows(range: BlockRange, eventType: number): { from: number; to: number } {
  if (eventType === 0) return range;
  return { from: range.typeFrom[eventType]!, to: range.typeTo[eventType]! };
}

function computeColumnBytesMax({ storage }: Column): number {
  return computeEncodedBytesMax(SEGMENT_ROWS_MAX, STORAGE_WIDTH[storage]) + ENTRY_HEAD_BYTES;
}

/** Returns the number of bytes written to `output`, or 0 if compression would not save any. */
function compress(raw: Uint8Array, output: Buffer, offset: number): number {
  if (raw.length < COMPRESS_BYTES_MIN) return 0;
  return compressFrame(raw, output.subarray(0, offset + raw.length - 1), offset);
}

/** Writes the group's columns to `raw`; returns the number of bytes written. */
function encodeGroup(
  { columns }: ColumnGroup,
  block: Block,
  from: number,
  to: number,
  columnIds: ReadonlyMap<string, number>,
  raw: Buffer,
): number {
  let end = 0;
  for (const { name, encoding } of columns) {
    const values = block.columns.get(name);
    if (!values) continue;
    const start = end + ENTRY_HEAD_BYTES;
    const next = encodeColumn(values.subarray(from, to), encoding, raw, start);
    // A column that has only absent values need not be stored.
    if (repeatsByte(raw, start, ABSENT_BYTE.get(name)!)) continue;
    raw.writeUInt16LE(columnIds.get(name)!, end);
    raw.writeUInt32LE(next - start, end + 2);
    end = next;
  }
  return end;
}
