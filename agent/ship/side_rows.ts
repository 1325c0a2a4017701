/** Encodes the rows that are not made from events: losses, clock steps, segments and the state of a node. */
import { min, U64_MAX } from '../../daemon/base/bigints.ts';
import { createBlockEncoder } from '../clickhouse/native/encode.ts';
import { encodeReason, encodeScope, encodeSums } from '../recording/format/losses.ts';
import type { NotedLoss } from '../recording/read/arrivals.ts';
import type { NotedClockStep } from '../recording/read/reader.ts';
import type { UnendedLists } from '../recording/read/unended.ts';
import { encodeUnended } from '../recording/read/unended_text.ts';
import type { DeliveredSegment } from './arrived.ts';
import type { NumberGap } from './groups.ts';
import type { SentTable } from './rows/group_rows.ts';
import { findTable } from './rows/shipment_plan.ts';
import { createTableRows, type SentCell, selectSentColumns } from './rows/table_rows.ts';

export interface ShippedBy {
  recordingId: string;
  node: string;
}

const encoder = createBlockEncoder();

function encodeSentTable(name: string, cells: readonly (readonly SentCell[])[]): SentTable {
  const { columns } = findTable(name);
  const rows = createTableRows(columns);
  for (const row of cells) rows.add(row);
  const blocks = cells.length > 0 ? [encoder.encode(rows.take(), cells.length)] : [];
  return { table: name, columns: selectSentColumns(columns).map((column) => column.name), blocks };
}

const parseRecordingId = ({ recordingId }: ShippedBy): bigint => BigInt(`0x${recordingId}`);

/**
 * Base ids of the losses that the shipper found. The id of a loss is the base id plus the number of its first event.
 */
const OWN_LOSS_IDS = { unshipped: 2n ** 63n, damaged: 2n ** 63n + 2n ** 62n };

/** A loss of events that were recorded and will not arrive. */
export interface ShippingLoss extends NumberGap {
  cause: 'unshipped' | 'damaged';
}

/**
 * Encodes all losses except those with the cause `retention`: the events that retention removed were shipped before, or
 * count as `unshipped`.
 */
export function encodeLossTables(
  by: ShippedBy,
  noted: readonly NotedLoss[],
  own: readonly ShippingLoss[],
): SentTable[] {
  const id = parseRecordingId(by);
  const ofRecording = noted
    .filter(({ cause }) => cause !== 'retention')
    .map(({ lossId, eventType, count, fromNs, toNs, sums, ...reason }) => {
      const more = [encodeScope(reason), encodeSums(sums)];
      return [id, BigInt(lossId), by.node, encodeReason(reason), eventType ?? '', BigInt(count), fromNs, toNs, ...more];
    });
  const ofShipping = own.map(({ from, cause, count, fromNs, toNs }) => {
    return [id, OWN_LOSS_IDS[cause] + BigInt(from), by.node, cause, '', BigInt(count), fromNs, toNs, '', ''];
  });
  return splitByDays([...ofRecording, ...ofShipping]).map((rows) => encodeSentTable('loss', rows));
}

/**
 * Maximum number of days in one insert. The table has a partition for each day, and a server refuses an insert with
 * rows of more than 100 partitions.
 */
const DAYS_MAX = 90;
const DAY_NS = 86_400_000_000_000n;
const FROM_NS = findTable('loss').columns.findIndex(({ name }) => name === 'from_ns');

function splitByDays(rows: readonly SentCell[][]): SentCell[][][] {
  const parts: SentCell[][][] = [];
  let days = new Set<bigint>();
  for (const row of rows) {
    days.add((row[FROM_NS] as bigint) / DAY_NS);
    if (parts.length === 0 || days.size > DAYS_MAX) {
      parts.push([]);
      days = new Set([(row[FROM_NS] as bigint) / DAY_NS]);
    }
    parts.at(-1)!.push(row);
  }
  return parts;
}

export function encodeClockTable(by: ShippedBy, steps: readonly NotedClockStep[]): SentTable {
  const rows = steps.map(({ clockId, bootNs, offsetNs, kind, suspendedNs }) => {
    return [parseRecordingId(by), BigInt(clockId), by.node, bootNs, offsetNs, kind, suspendedNs];
  });
  return encodeSentTable('clock', rows);
}

export function encodeSegmentTable(by: ShippedBy, segments: readonly DeliveredSegment[]): SentTable {
  const rows = segments.map(({ firstNumber, endNumber, eventCount, minNs, maxNs, maxDurationNs }) => {
    const count = BigInt(eventCount);
    const endMaxNs = min(maxNs + maxDurationNs, U64_MAX);
    return [parseRecordingId(by), BigInt(firstNumber), BigInt(endNumber), by.node, count, minNs, maxNs, endMaxNs];
  });
  return encodeSentTable('segment', rows);
}

export interface NodeState {
  atNs: bigint;
  machineId: string;
  claim: string;
  createdNs: bigint;
  /** The latest time at which a writer is known to have been active. */
  aliveNs: bigint;
  /** The time at which the last writer ended; 0 if it has not ended. */
  endedNs: bigint;
  shippedNumber: number;
  /** All events that began before this time have arrived, or are in progress. */
  watermarkNs: bigint;
  /** Number of events that wait to be shipped. */
  backlog: number;
  clockOffsetNs: bigint;
  clockUncertaintyNs: bigint;
  /** Calls and requests in progress. All other events that began before `aliveNs` are recorded. */
  unended: UnendedLists;
}

export function encodeNodeTable(by: ShippedBy, state: NodeState): SentTable {
  return encodeSentTable('node', [
    [
      parseRecordingId(by),
      state.atNs,
      by.node,
      state.machineId,
      state.claim,
      state.createdNs,
      state.aliveNs,
      state.endedNs,
      BigInt(state.shippedNumber),
      state.watermarkNs,
      BigInt(state.backlog),
      state.clockOffsetNs,
      state.clockUncertaintyNs,
      encodeUnended(state.unended),
    ],
  ]);
}
