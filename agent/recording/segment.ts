/** A segment as a scan holds it: columns are decoded when asked for, and may be dropped and decoded again. */
import type { ColumnArray } from '../../bpf/schema/block.ts';
import { COLUMNS, type Column } from '../../bpf/schema/columns.ts';
import { EVENTS } from '../../bpf/schema/index.ts';
import { openSegmentData, type SegmentData } from './codec/decode_segment.ts';
import { corrupt } from './errors.ts';

/** Segments of a scan whose decoded columns are kept, about 0.5 MB each; of the others only the stored bytes are. */
export const DECODED_SEGMENTS_MAX = 16;

const EVENT_TYPE = COLUMNS.find(({ name }) => name === 'event_type')!;
const TYPE_COUNTS = Math.max(...EVENTS.map(({ id }) => id)) + 1;

export interface Segment {
  readonly firstNumber: number;
  readonly rowCount: number;
  column(column: Column): ColumnArray;
  eventTypes(): Uint8Array;
  typeRowCount(eventType: number): number;
  /** For each row its place in its type's own columns. */
  places(): Uint32Array;
  dropDecoded(): void;
}

export function openSegment(firstNumber: number, data: Buffer, columnIds: ReadonlyMap<string, number>): Segment {
  let source: SegmentData | undefined = openSegmentData(data, columnIds);
  const { rowCount, typeRowCount } = source;
  const columns = new Map<string, ColumnArray>();
  let places: Uint32Array | undefined;

  const segment: Segment = {
    firstNumber,
    rowCount,
    typeRowCount,
    column(column) {
      let values = columns.get(column.name);
      if (!values) {
        source ??= openSegmentData(data, columnIds);
        values = source.column(column);
        columns.set(column.name, values);
      }
      return values;
    },
    eventTypes: () => segment.column(EVENT_TYPE) as Uint8Array,
    places() {
      places ??= placesOf(segment);
      return places;
    },
    dropDecoded() {
      columns.clear();
      places = undefined;
      source = undefined;
    },
  };
  return segment;
}

function placesOf(segment: Segment): Uint32Array {
  const types = segment.eventTypes();
  const next = new Uint32Array(256);
  const places = new Uint32Array(types.length);
  for (let row = 0; row < types.length; row++) places[row] = next[types[row]!]!++;
  for (let type = 1; type < TYPE_COUNTS; type++) {
    if (next[type] !== segment.typeRowCount(type)) throw corrupt('event types and their columns differ in number');
  }
  return places;
}

/** Keeps the columns of the segments that were used last. */
export function decodedSegments(): { use(segment: Segment): void } {
  const recent = new Set<Segment>();
  return {
    use(segment) {
      recent.delete(segment);
      recent.add(segment);
      if (recent.size <= DECODED_SEGMENTS_MAX) return;
      const oldest = recent.values().next().value!;
      recent.delete(oldest);
      oldest.dropDecoded();
    },
  };
}
