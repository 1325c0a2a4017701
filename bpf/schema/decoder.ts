/**
 * Decodes framed records into columns. The decoder works column by column, so that each loop touches one field of one
 * width, and no object, closure or BigInt is created per event.
 *
 * A frame is {u32 payload size, u32 zero, payload, padding to 8}, as `RingReader.drain()` of libbpf-ts writes it.
 */
import { type Block, createBlock } from './block.ts';
import { COLUMNS, type Column } from './columns.ts';
import type { commonFields } from './common.ts';
import { type FieldLayout, ORIGIN_SIZE } from './define.ts';
import { EVENTS } from './index.ts';
import { nativeColumns } from './native_columns.ts';

export const FRAME_HEADER_SIZE = 8;

/** Maximum number of rows in a block. */
export const BLOCK_ROWS_MAX = 4096;

/** A field whose column is filled by the resolver instead of the decoder: times, texts and references. */
export interface ReferenceField {
  /** Event type that has the field; 0 if every event has it. */
  readonly eventType: number;
  readonly layout: FieldLayout;
  readonly columns: readonly Column[];
}

export interface DecodedBlock {
  readonly block: Block;
  /** Byte offset of each row's record in the buffer. */
  readonly recordOffsets: Uint32Array;
  /** Byte offsets of the records of each event type, indexed by the type's id. */
  readonly typeRecordOffsets: readonly Uint32Array[];
}

/** Returns whether the record at `offset` should be kept. */
export type Accept = (words: Uint32Array, offset: number) => boolean;

export interface Decoder {
  readonly decoded: DecodedBlock;
  /**
   * Fills the block from the frames in `buffer[start, end)` and returns where decoding stopped: at `end`, or earlier if
   * the block was full. Afterwards, plain values are in their columns, but reference fields are not.
   */
  decode(buffer: Uint8Array, start: number, end: number, accept: Accept): number;
  /** Returns the number of records with an unknown type or a wrong size since the last call. */
  takeBadRecords(): number;
}

interface PlainField {
  readonly eventType: number;
  readonly offset: number;
  readonly column: Column;
}

const typeIds = EVENTS.map((event) => event.id);
const SIZES = new Uint32Array(Math.max(...typeIds) + 1);
const SIZES_MIN = SIZES.slice().fill(1);
for (const event of EVENTS) {
  SIZES[event.id] = event.size;
  SIZES_MIN[event.id] = event.sizeMin;
}

/** Returns whether a record of this type can have this size; returns false for an unknown type. */
function hasSize(type: number, size: number): boolean {
  const min = SIZES_MIN[type]!;
  return size >= min && size <= SIZES[type]! && (size - min) % ORIGIN_SIZE === 0;
}

const columnsByField = Map.groupBy(COLUMNS, (column) => `${column.eventType}/${column.field}`);

function listDecodedFields(eventType: number, layout: readonly FieldLayout[]) {
  return layout.flatMap((field) => {
    const columns = columnsByField.get(`${eventType}/${field.name}`);
    return columns ? [{ eventType, layout: field, columns }] : [];
  });
}

const ALL_FIELDS: readonly ReferenceField[] = [
  ...listDecodedFields(0, EVENTS[0].layout),
  ...EVENTS.flatMap((event) => listDecodedFields(event.id, event.layout)),
];

export const REFERENCE_FIELDS: readonly ReferenceField[] = ALL_FIELDS.filter(
  ({ columns }) => columns[0]!.source !== 'value',
);

const PLAIN_FIELDS: readonly PlainField[] = ALL_FIELDS.filter(({ columns }) => columns[0]!.source === 'value').map(
  ({ eventType, layout, columns }) => ({ eventType, offset: layout.offset, column: columns[0]! }),
);

export function createDecoder(): Decoder {
  const block = createBlock(BLOCK_ROWS_MAX);
  const recordOffsets = new Uint32Array(BLOCK_ROWS_MAX);
  const typeRecordOffsets = Array.from(SIZES, () => new Uint32Array(BLOCK_ROWS_MAX));
  const gathers = [0, ...typeIds].map((eventType) => {
    const fields = PLAIN_FIELDS.filter((field) => field.eventType === eventType);
    return {
      eventType,
      fieldOffsets: Uint32Array.from(fields, ({ offset }) => offset),
      columns: fields.map(({ column }) => block.columns.get(column.name)!),
    };
  });
  let badRecords = 0;

  return {
    decoded: { block, recordOffsets, typeRecordOffsets },
    decode(buffer, start, end, accept) {
      const words = new Uint32Array(buffer.buffer, buffer.byteOffset, buffer.byteLength >>> 2);
      const counts = block.typeCounts.fill(0);
      let row = 0;
      let at = start;
      while (at < end && row < BLOCK_ROWS_MAX) {
        const size = words[at >>> 2]!;
        const offset = at + FRAME_HEADER_SIZE;
        if (size > end - offset) {
          // These bytes are not a frame, so it is unknown where the next frame starts.
          badRecords++;
          at = end;
          break;
        }
        at = offset + ((size + 7) & ~7);
        const type = words[offset >>> 2]! & 0xffff;
        if (!hasSize(type, size)) {
          badRecords++;
          continue;
        }
        if (!accept(words, offset)) continue;
        recordOffsets[row++] = offset;
        typeRecordOffsets[type]![counts[type]!++] = offset;
      }
      block.rowCount = row;
      for (const { eventType, fieldOffsets, columns } of gathers) {
        const offsets = eventType === 0 ? recordOffsets : typeRecordOffsets[eventType]!;
        const count = eventType === 0 ? row : counts[eventType]!;
        nativeColumns.gatherFields(buffer, offsets, count, fieldOffsets, columns);
      }
      return at;
    },
    takeBadRecords() {
      const count = badRecords;
      badRecords = 0;
      return count;
    },
  };
}

/** Returns the offset in the record of a field that every event has. */
export function recordOffset(field: keyof typeof commonFields): number {
  return EVENTS[0].layout.find(({ name }) => name === field)!.offset;
}
