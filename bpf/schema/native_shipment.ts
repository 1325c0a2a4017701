/**
 * Builds blocks in FORMAT Native from a segment's columns in C++ (native/columns/shipment.h): V8 takes many times as
 * long.
 */
import { createRequire } from 'node:module';
import type { ColumnArray } from './block.ts';

declare const SHIPMENT: unique symbol;
/**
 * Memory of the addon: names, files and contexts by their ids in the recording, and the rows that were made from the
 * recording's segments.
 */
export interface NativeShipment {
  readonly [SHIPMENT]: never;
}

/** The kinds of things that the ids of a column refer to. */
export const REFERS = { nothing: 0, name: 1, file: 2, context: 3 } as const;

/** Sources of the values of a column of the table `event`, in the order of native/columns/event_block.h. */
export const EVENT_PARTS = [
  'recording',
  'number',
  'owner',
  'node',
  'value',
  'word',
  'name',
  'path',
  'file_kind',
  'transaction',
  'trace',
  'span',
  'origin_services',
  'origin_transactions',
  'origin_traces',
  'origin_bytes',
] as const;

export interface ColumnHead {
  name: string;
  type: string;
}

/** Recording columns are given as indexes in `columns`. */
export interface ShipmentPlan {
  recording: bigint;
  node: string;
  columns: { eventType: number; width: number; refers: number }[];
  /** Columns in this order: event_type, timestamp, duration, result, context_source, context, service. */
  roles: Uint32Array;
  /** Four columns for each origin, in this order: event type, context, service, bytes. */
  origins: Uint32Array;
  /** Columns that name devices. */
  devices: Uint32Array;
  /** Value of context_source for data that was written back later. */
  writtenBack: number;
  /** Value of `owner` if several services own an event. */
  severalOwners: string;
  /** Names of the event types, indexed by id. */
  typeNames: string[];
  /** Columns of the table `event`; `part` is an index in EVENT_PARTS, and `words` contains the texts of values. */
  events: (ColumnHead & { part: number; column: number; words: string[] })[];
  /** Columns of each table, in this order: `by_id`, `transaction`, `stat`, `name`. */
  tables: ColumnHead[][];
  /** Values of `kind` in the table `name`. */
  serviceKind: string;
  deviceKind: string;
}

interface NativeShipmentFunctions {
  createShipment(plan: ShipmentPlan): NativeShipment;
  /** Begins a group and forgets the rows of the previous group. */
  beginGroup(shipment: NativeShipment): void;
  /**
   * Writes the block of the table `event` with the chosen columns to `output`, and adds the rows of the other tables.
   * Returns the size of the block, 0 if there is no room for the block, or undefined if ids are missing. In the last
   * two cases, no rows are added.
   */
  addSegment(
    shipment: NativeShipment,
    columns: readonly ColumnArray[],
    numbers: BigUint64Array,
    rowCount: number,
    firstNumber: number,
    chosen: Uint32Array,
    output: Uint8Array,
  ): number | undefined;
  /** Returns the ids that were missing; some of them may be listed several times. */
  missingIds(shipment: NativeShipment): [names: Uint32Array, files: Uint32Array, contexts: Uint32Array];
  addName(shipment: NativeShipment, id: number, text: string): void;
  addFile(shipment: NativeShipment, id: number, path: string, kind: string): void;
  addContext(
    shipment: NativeShipment,
    id: number,
    transaction: string | null,
    transactionHash: number,
    trace: string | null,
    traceBytes: Uint8Array,
    spanBytes: Uint8Array,
  ): void;
  /** Returns all blocks that a table of the plan has received since the group began. */
  tableBlocks(shipment: NativeShipment, table: number): Buffer;
}

export const nativeShipment: NativeShipmentFunctions = createRequire(import.meta.url)('#columns');
