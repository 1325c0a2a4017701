/**
 * Columns of a segment in a blob, compressed by groups: the common columns, then each event type's own. A query
 * decompresses the groups and undoes the planes of the columns that it needs.
 *
 *   [crc32 of the rest u32, from a seed][rows u16][groups u16] [group head]... [group body]...
 *   group head   event type u16 (0: common), rows u16, body bytes u32, raw bytes u32 (0: the body is not compressed)
 *   raw body     for each column: id u16, bytes u32, and these bytes, see column_bytes.ts
 *
 * One zstd frame a column would compress no better, and a call costs 20 us whatever its size.
 */
import { constants, crc32, zstdCompressSync } from 'node:zlib';
import type { Block } from '../../../bpf/schema/block.ts';
import type { Column } from '../../../bpf/schema/columns.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { absentValue } from './absent.ts';
import { encodeColumn, encodedBytesMax, repeatsByte, STORAGE_WIDTH } from './column_bytes.ts';
import { STORED_COLUMNS } from './pieces.ts';

/** Rows of a segment at most; also the longest block that a scan gives. */
export const SEGMENT_ROWS_MAX = 4096;

/** A group can not honestly be larger: what a reader allocates is bounded by it. */
export const GROUP_BYTES_MAX = SEGMENT_ROWS_MAX * 8 * 128;

export const HEAD_BYTES = 8;
export const GROUP_HEAD_BYTES = 12;
export const ENTRY_HEAD_BYTES = 6;

/** Below this zstd gains nothing worth its call. */
const COMPRESS_BYTES_MIN = 128;
const ZSTD_LEVEL = { [constants.ZSTD_c_compressionLevel]: 1 };

/** Rows [from, to) of a block, for the common columns and for each event type's own. */
export interface BlockRange {
  from: number;
  to: number;
  typeFrom: Uint32Array;
  typeTo: Uint32Array;
}

interface Group {
  eventType: number;
  columns: readonly Column[];
}

const ABSENT_BYTE = new Map(STORED_COLUMNS.map((column) => [column.name, absentValue(column) === 0n ? 0 : 0xff]));

/**
 * Gives a function that encodes some columns of a range of a block; it owns the memory that it works in. The checksum
 * begins with `seed`, so that a blob is only right in its place.
 */
export function segmentEncoder(
  columnIds: ReadonlyMap<string, number>,
  columns: readonly Column[] = STORED_COLUMNS,
): (block: Block, range: BlockRange, seed?: number) => Buffer {
  const groups: Group[] = [0, ...EVENTS.map((event) => event.id)]
    .map((eventType) => ({ eventType, columns: columns.filter((column) => column.eventType === eventType) }))
    .filter((group) => group.columns.length > 0);
  const scratch = Buffer.alloc(Math.max(...groups.map((group) => rawBytesMax(group.columns))));
  return (block, range, seed = 0) => {
    const heads: Buffer[] = [];
    const bodies: Uint8Array[] = [];
    for (const group of groups) {
      const { eventType } = group;
      const from = eventType === 0 ? range.from : range.typeFrom[eventType]!;
      const to = eventType === 0 ? range.to : range.typeTo[eventType]!;
      if (to === from) continue;
      const raw = encodeGroup(group, block, from, to, columnIds, scratch);
      const packed = raw.length < COMPRESS_BYTES_MIN ? undefined : compress(raw);
      const compressed = packed !== undefined && packed.length < raw.length;
      // The next group is made in the same memory.
      const body = compressed ? packed : Uint8Array.from(raw);
      const head = Buffer.alloc(GROUP_HEAD_BYTES);
      head.writeUInt16LE(eventType, 0);
      head.writeUInt16LE(to - from, 2);
      head.writeUInt32LE(body.length, 4);
      head.writeUInt32LE(compressed ? raw.length : 0, 8);
      heads.push(head);
      bodies.push(body);
    }
    const start = Buffer.alloc(HEAD_BYTES);
    start.writeUInt16LE(range.to - range.from, 4);
    start.writeUInt16LE(heads.length, 6);
    const data = Buffer.concat([start, ...heads, ...bodies]);
    data.writeUInt32LE(crc32(data.subarray(4), seed), 0);
    return data;
  };
}

function rawBytesMax(columns: readonly Column[]): number {
  return columns.reduce(
    (sum, { storage }) => sum + encodedBytesMax(SEGMENT_ROWS_MAX, STORAGE_WIDTH[storage]) + ENTRY_HEAD_BYTES,
    0,
  );
}

function compress(raw: Uint8Array): Buffer {
  // One chunk of the right size: by default Node deflates into 16 KiB pieces and joins them.
  return zstdCompressSync(raw, { params: ZSTD_LEVEL, pledgedSrcSize: raw.length, chunkSize: raw.length + 1024 });
}

function encodeGroup(
  { columns }: Group,
  block: Block,
  from: number,
  to: number,
  columnIds: ReadonlyMap<string, number>,
  scratch: Buffer,
): Uint8Array {
  let end = 0;
  for (const { name, encoding } of columns) {
    const values = block.columns.get(name);
    if (!values) continue;
    const start = end + ENTRY_HEAD_BYTES;
    const next = encodeColumn(values.subarray(from, to), encoding, scratch, start);
    // What an absent column would read as needs not be stored.
    if (repeatsByte(scratch, start, ABSENT_BYTE.get(name)!)) continue;
    scratch.writeUInt16LE(columnIds.get(name)!, end);
    scratch.writeUInt32LE(next - start, end + 2);
    end = next;
  }
  return scratch.subarray(0, end);
}
