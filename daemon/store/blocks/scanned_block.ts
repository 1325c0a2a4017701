/** Blocks of events as a store returns them, and the dictionary that resolves the ids in their columns. */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { type ColumnArray, type NumberedBlock, typeRows } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';

/** An event's position in the total order. An event can be passed as its own key, because it has both fields. */
export type EventKey = Pick<ApiEvent, 'timestamp_ns' | 'event_id'>;

export interface Context {
  transactionId: string | null;
  traceId: string | null;
  spanId: string | null;
}

/** The recording that a row belongs to, and the node that it was recorded on. */
export interface NodeRecording {
  readonly recordingId: string;
  readonly node: string;
}

/** Resolves the ids in a block. */
export interface Dictionary {
  /** Resolves an index in the column `recording`; index 0 is the only index if blocks lack that column. */
  recording(index: number): NodeRecording;
  /** Returns an empty name for id 0. */
  name(id: number): string;
  /** Returns undefined for id 0. */
  file(id: number): { path: string; kind: string } | undefined;
  context(id: number): Context;
}

/** The dictionary of one recording. */
export interface RecordingDictionary extends Dictionary, NodeRecording {}

export function createRecordingDictionary(entries: Omit<RecordingDictionary, 'recording'>): RecordingDictionary {
  const { recordingId, node } = entries;
  const recording = { recordingId, node };
  return { ...entries, recording: () => recording };
}

/**
 * Name of an optional u32 column with the recording of each row. Blocks of a file lack this column, because all their
 * rows are of one recording. A database of many nodes returns rows of several recordings in one block.
 */
export const RECORDING_COLUMN = 'recording';

/** A block with its dictionary, because the next block may be of another file with another dictionary. */
export interface ScannedBlock {
  block: NumberedBlock;
  dictionary: Dictionary;
  /** Whether the next block is already in memory, so that reading it does not block. */
  nextAtHand?: boolean;
}

/** A block whose rows are all of one recording, without the column `recording`. */
export interface RecordingBlock extends ScannedBlock {
  dictionary: RecordingDictionary;
}

/** Returns a function that returns the recording of a row, as an index for the dictionary. */
export function createRecordingReader(block: NumberedBlock): (row: number) => number {
  const indexes = block.columns.get(RECORDING_COLUMN) as Uint32Array | undefined;
  return indexes ? (row) => indexes[row]! : () => 0;
}

/* Cuts a range of adjacent rows out of a block; the result is a block that shares the arrays of the original. */

/** Returns rows `[from, to)`. */
export type RowCutter = (from: number, to: number) => NumberedBlock;

export function createRowCutter(block: NumberedBlock): RowCutter {
  const types = getColumn(block, 'event_type');
  const given = COLUMNS.filter(({ name }) => block.columns.has(name));
  let places: Uint32Array | undefined;
  return (from, to) => {
    if (from === 0 && to === block.rowCount) return block;
    places ??= typeRows(block);
    const typeCounts = new Uint32Array(block.typeCounts.length);
    // Index at which the range begins in the columns of each type. Common columns use type 0, which no event has.
    const starts = new Uint32Array(block.typeCounts.length);
    starts[0] = from;
    for (let row = to - 1; row >= from; row--) {
      const type = types[row]!;
      typeCounts[type]!++;
      starts[type] = places[row]!;
    }
    const columns: NumberedBlock['columns'] = new Map();
    for (const { name, eventType } of given) {
      const values = block.columns.get(name)!;
      const start = starts[eventType]!;
      columns.set(name, start === 0 ? values : values.subarray(start));
    }
    const recordings = block.columns.get(RECORDING_COLUMN);
    if (recordings) columns.set(RECORDING_COLUMN, recordings.subarray(from));
    return { rowCount: to - from, typeCounts, columns, numbers: block.numbers.subarray(from, to) };
  };
}

type Big = BigUint64Array | BigInt64Array;
type Small = Exclude<ColumnArray, Big>;

function getAnyColumn(block: NumberedBlock, name: string): ColumnArray {
  const values = block.columns.get(name);
  if (!values) throw new Error(`the scan left out column ${name}`);
  return values;
}

export function getColumn(block: NumberedBlock, name: string): Small {
  return getAnyColumn(block, name) as Small;
}

/** Returns a 64-bit column. */
export function getBigColumn(block: NumberedBlock, name: string): Big {
  return getAnyColumn(block, name) as Big;
}
