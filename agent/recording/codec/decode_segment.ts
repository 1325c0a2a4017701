/** Decodes the blobs of encode_segment.ts, column by column, and validates every number in them. */
import { crc32 } from 'node:zlib';
import { type ColumnArray, createColumn, createColumnArray } from '../../../bpf/schema/block.ts';
import type { Column } from '../../../bpf/schema/columns.ts';
import { findEventDefinition } from '../../../bpf/schema/index.ts';
import { createCorruptError } from '../format/errors.ts';
import { createAbsentValues } from './absent.ts';
import { decodeColumn, decompressFrame, pickValues } from './column_bytes.ts';
import { ENTRY_HEAD_BYTES, GROUP_BYTES_MAX, GROUP_HEAD_BYTES, HEAD_BYTES, SEGMENT_ROWS_MAX } from './encode_segment.ts';

interface StoredGroup {
  rows: number;
  rawBytes: number;
  /** The stored bytes of the group; undefined after the first read has decompressed the group. */
  body: Buffer | undefined;
  /** The encoded bytes of each column by column id; set when the group is first decompressed. */
  columns?: Map<number, Uint8Array>;
}

export interface SegmentData {
  rowCount: number;
  /** Size of all groups after decompression. */
  bytes: number;
  /** Number of rows of an event type; 0 for a type that has no columns in this data. */
  typeRowCount(eventType: number): number;
  readColumn(column: Column): ColumnArray;
  /** Returns whether the column is stored. A column that is not stored reads as absent values. */
  has(column: Column): boolean;
  /**
   * Sets `target[to[i]]` to `column[from[i]]` without decoding the other values. Returns false if the column is not
   * stored or is delta-encoded.
   */
  pick(column: Column, from: Uint32Array, target: ColumnArray, to: Uint32Array): boolean;
}

/**
 * Opens a segment's data. `make` allocates memory for values and decompressed groups. `label` distinguishes the groups
 * of this data from the groups of other data in the same memory.
 */
export function openSegmentData(
  data: Buffer,
  columnIds: ReadonlyMap<string, number>,
  seed = 0,
  { make, label } = { make: createColumn, label: '' },
): SegmentData {
  const { rowCount, groups } = readGroups(data, seed);

  function readEncodedColumn(group: StoredGroup, column: Column): Uint8Array | undefined {
    group.columns ??= readColumns(group, (bytes) =>
      // Decompression overwrites all of the memory, so zeroing it first is unnecessary.
      make === createColumn
        ? Buffer.allocUnsafe(bytes)
        : (make(`${label} ${column.eventType}`, 'u8', bytes) as Uint8Array),
    );
    group.body = undefined;
    return group.columns.get(columnIds.get(column.name) ?? -1);
  }

  return {
    rowCount,
    bytes: [...groups.values()].reduce((sum, { rawBytes, body }) => sum + (rawBytes || body!.length), 0),
    typeRowCount: (eventType) => (eventType === 0 ? rowCount : (groups.get(eventType)?.rows ?? 0)),
    readColumn(column) {
      const group = groups.get(column.eventType);
      if (!group) return createColumnArray(column.storage, 0);
      const encoded = readEncodedColumn(group, column);
      if (!encoded) return createAbsentValues(column, group.rows, make);
      const values = make(column.name, column.storage, group.rows);
      decodeColumn(encoded, values);
      return values;
    },
    has(column) {
      const group = groups.get(column.eventType);
      return group !== undefined && readEncodedColumn(group, column) !== undefined;
    },
    pick(column, from, target, to) {
      const group = groups.get(column.eventType);
      const encoded = group && readEncodedColumn(group, column);
      return encoded !== undefined && pickValues(encoded, group!.rows, from, target, to);
    },
  };
}

function readGroups(data: Buffer, seed: number): { rowCount: number; groups: Map<number, StoredGroup> } {
  // A damaged row may contain a value of any SQLite type.
  if (!Buffer.isBuffer(data)) throw createCorruptError('the data of a segment is malformed');
  if (data.length < HEAD_BYTES || data.readUInt32LE(0) !== crc32(data.subarray(4), seed)) {
    throw createCorruptError('the checksum of a segment is wrong');
  }
  const rowCount = data.readUInt16LE(4);
  const groupCount = data.readUInt16LE(6);
  const groups = new Map<number, StoredGroup>();
  let bodyStart = HEAD_BYTES + groupCount * GROUP_HEAD_BYTES;
  if (bodyStart > data.length) throw createCorruptError('a segment is too short for its groups');
  let typedRows = 0;
  for (let head = HEAD_BYTES; head < HEAD_BYTES + groupCount * GROUP_HEAD_BYTES; head += GROUP_HEAD_BYTES) {
    const eventType = data.readUInt16LE(head);
    const rows = data.readUInt16LE(head + 2);
    const bodyEnd = bodyStart + data.readUInt32LE(head + 4);
    const rawBytes = data.readUInt32LE(head + 8);
    if (bodyEnd > data.length || rawBytes > GROUP_BYTES_MAX)
      throw createCorruptError('a group of columns has a wrong size');
    groups.set(eventType, { rows, rawBytes, body: data.subarray(bodyStart, bodyEnd) });
    if (eventType !== 0 && findEventDefinition(eventType)) typedRows += rows;
    bodyStart = bodyEnd;
  }
  const commonRows = groups.get(0)?.rows ?? rowCount;
  if (rowCount > SEGMENT_ROWS_MAX || commonRows !== rowCount || typedRows > rowCount) {
    throw createCorruptError('the row counts of a segment contradict each other');
  }
  return { rowCount, groups };
}

function readColumns(
  { body, rawBytes }: StoredGroup,
  takeBytes: (count: number) => Uint8Array,
): Map<number, Uint8Array> {
  const raw = rawBytes === 0 ? body! : decompress(body!, takeBytes(rawBytes));
  const columns = new Map<number, Uint8Array>();
  for (let offset = 0; offset < raw.length; ) {
    const start = offset + ENTRY_HEAD_BYTES;
    if (start > raw.length) throw createCorruptError('a column is cut off');
    const end = start + raw.readUInt32LE(offset + 2);
    if (end > raw.length) throw createCorruptError('a column is cut off');
    columns.set(raw.readUInt16LE(offset), raw.subarray(start, end));
    offset = end;
  }
  return columns;
}

function decompress(body: Buffer, { buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  const raw = Buffer.from(buffer, byteOffset, byteLength);
  decompressFrame(body, raw);
  return raw;
}
