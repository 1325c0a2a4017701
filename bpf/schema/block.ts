/**
 * Events as columns: the decoder fills them, the recording stores them and a scan returns them.
 *
 *   event_type   1  1  2  1          common columns: one value per row
 *   pid          7  7  9  7
 *   sys_write.fd 3  4     3          a type's own columns: one value per row of that type, without gaps
 *   block_io.sector    8
 */
import { COLUMNS, type Column } from './columns.ts';
import { EVENTS } from './index.ts';
import type { Storage } from './kinds.ts';

export type ColumnArray = Uint8Array | Uint16Array | Uint32Array | Int32Array | BigUint64Array | BigInt64Array;

const ARRAYS = {
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  i32: Int32Array,
  u64: BigUint64Array,
  i64: BigInt64Array,
} as const satisfies Record<Storage, unknown>;

export interface Block {
  rowCount: number;
  /** Number of rows of each event type, indexed by the type's id. */
  typeCounts: Uint32Array;
  /** An array may be longer than its number of used rows. A scan omits columns that were not requested. */
  columns: Map<string, ColumnArray>;
}

/** A block in which each row has its number in the recording. */
export interface NumberedBlock extends Block {
  numbers: BigUint64Array;
}

const TYPE_COUNTS = Math.max(...EVENTS.map((event) => event.id)) + 1;

export function getArrayClass(storage: Storage): new (length: number) => ColumnArray {
  return ARRAYS[storage];
}

export function createColumnArray(storage: Storage, length: number): ColumnArray {
  return new ARRAYS[storage](length);
}

/** Returns an array for the values of a column. The array may still contain old values, which must be overwritten. */
export type ColumnMaker = (name: string, storage: Storage, length: number) => ColumnArray;

export const createColumn: ColumnMaker = (_, storage, length) => createColumnArray(storage, length);

/**
 * Creates a maker that reuses the memory of the previous array of the same column: new memory costs more than filling
 * the array.
 */
export function createColumnReuser(): ColumnMaker {
  const kept = new Map<string, ColumnArray>();
  return (name, storage, length) => {
    const known = kept.get(name);
    if (known && known.length >= length) return known.subarray(0, length);
    const values = createColumnArray(storage, length);
    kept.set(name, values);
    return values;
  };
}

export function createBlock(capacity: number, columns: readonly Column[] = COLUMNS): Block {
  return {
    rowCount: 0,
    typeCounts: new Uint32Array(TYPE_COUNTS),
    columns: new Map(columns.map((column) => [column.name, createColumnArray(column.storage, capacity)])),
  };
}

/** Returns the size in bytes of all columns of a block with this capacity; each column is aligned for its values. */
export function computeBlockBytes(capacity: number): number {
  return COLUMNS.reduce((sum, { storage }) => sum + computeColumnBytes(storage, capacity), 0);
}

/** Returns a block whose columns are stored in `memory`, so that two threads can access them. */
export function createSharedBlock(memory: SharedArrayBuffer, capacity: number): Block {
  const columns = new Map<string, ColumnArray>();
  let offset = 0;
  for (const { name, storage } of COLUMNS) {
    // The cast is safe: values are copied or encoded as soon as they are read from a column, so no caller keeps memory
    // that another thread changes.
    columns.set(name, new ARRAYS[storage](memory as unknown as ArrayBuffer, offset, capacity));
    offset += computeColumnBytes(storage, capacity);
  }
  return { ...createBlock(0, []), columns };
}

function computeColumnBytes(storage: Storage, capacity: number): number {
  return Math.ceil((capacity * ARRAYS[storage].BYTES_PER_ELEMENT) / 8) * 8;
}

/**
 * Returns the number of used values in a column: all rows for a common column, otherwise the rows of the column's type.
 */
export function getColumnLength(block: Block, column: Column): number {
  return column.eventType === 0 ? block.rowCount : block.typeCounts[column.eventType]!;
}

/** Returns, for each row, its index in the columns of its own type. */
export function typeRows(block: Block): Uint32Array {
  const eventType = block.columns.get('event_type')! as Uint8Array;
  const next = new Uint32Array(TYPE_COUNTS);
  const rows = new Uint32Array(block.rowCount);
  for (let row = 0; row < block.rowCount; row++) {
    const type = eventType[row]!;
    rows[row] = next[type]!;
    next[type] = rows[row]! + 1;
  }
  return rows;
}
