/**
 * Reads sealed segments in the order of their event numbers, for a reader that reads each segment once. Sealed segments
 * never change, and retention removes them in nearly this order.
 */

import { createColumnReuser, type NumberedBlock } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { I64_MAX } from '../../../daemon/base/bigints.ts';
import { typeMask as maskOf } from '../codec/segment_facts.ts';
import { createCorruptError } from '../format/errors.ts';
import { buildWholeBlock, gather } from './assemble_block.ts';
import type { ResolvedFilter } from './event_filter.ts';
import { findMatchingRows } from './match.ts';
import type { ScanSource } from './scan.ts';
import { runWithSegmentErrors, UnreadableSegment } from './segment.ts';
import type { SegmentMeta } from './segment_index.ts';

export type SealedSegment = Pick<
  SegmentMeta,
  'firstNumber' | 'endNumber' | 'eventCount' | 'typeMask' | 'minNs' | 'maxNs' | 'maxDurationNs'
>;

/** The result of reading a segment. `block` has no events of types that this kreplay does not know. */
export type SealedEvents = { kind: 'events'; block: NumberedBlock } | { kind: 'damaged' } | { kind: 'removed' };

export interface SealedReader {
  /** Returns at most `limit` sealed segments with event numbers of at least `from`, in the order of numbers. */
  listSealedSegments(from: number, limit: number): SealedSegment[];
  /**
   * Returns all events of a segment in recorded order, and caches the dictionary entries that they refer to. The block
   * is valid until the next call.
   */
  readSealedEvents(segment: SealedSegment): SealedEvents;
  /** Returns the number after the last event, and the number below which all segments are sealed. */
  ends(): { end: number; sealedEnd: number };
  /**
   * Returns a lower bound for the start times of all events numbered `from` or higher, sealed or not; undefined if
   * there are none.
   */
  findEarliestNs(from: number): bigint | undefined;
}

const EVENT_TYPES = EVENTS.map(({ id }) => id).sort((a, b) => a - b);

/** Bounds that every segment overlaps. */
const EVERYWHERE = { firstNs: 0n, lastNs: I64_MAX, typeMask: -1n, minDurationNs: 0n };

/** Opens the reader. `everything` returns a filter that all events of known types match. */
export function openSealedSegments(source: ScanSource, everything: () => ResolvedFilter): SealedReader {
  const make = createColumnReuser();

  function readSealedBlock(firstNumber: number): NumberedBlock | undefined {
    const [meta] = source.index.findAround(firstNumber).filter((found) => found.firstNumber === firstNumber);
    const segment = meta && source.open(meta, make);
    if (!segment) return undefined;
    return runWithSegmentErrors(meta, () => {
      const rows = findMatchingRows(segment, everything(), meta.endNumber);
      const block =
        rows.length === segment.rowCount
          ? buildWholeBlock(segment, COLUMNS, make)
          : gather([{ segment, rows }], COLUMNS, () => {});
      if (!isWithin(block, meta)) throw createCorruptError('the entry of a segment denies events that it has');
      source.onBlock(block);
      return block;
    });
  }

  return {
    ends: () => source.index.ends(),
    findEarliestNs: (from) => source.runInTransaction(() => source.index.findEarliestNs(from)),
    listSealedSegments: (from, limit) =>
      source.runInTransaction(() => source.index.listArrived(from, source.index.ends().sealedEnd, EVERYWHERE, limit)),
    readSealedEvents: ({ firstNumber }) =>
      source.runInTransaction(() => {
        try {
          const block = readSealedBlock(firstNumber);
          if (block) return { kind: 'events', block };
          return { kind: source.index.exists(firstNumber) ? 'damaged' : 'removed' };
        } catch (error) {
          if (!(error instanceof UnreadableSegment)) throw error;
          if (error.damage) source.onDamaged(error.meta);
          return { kind: error.damage ? 'damaged' : 'removed' };
        }
      }),
  };
}

/**
 * Returns whether all events of a segment are within the bounds of its entry. Lookups of single events rely on these
 * bounds.
 */
function isWithin(
  { columns, numbers, rowCount }: NumberedBlock,
  { firstNumber, endNumber, typeMask, minNs, maxNs, maxDurationNs }: SealedSegment,
): boolean {
  // This loop is ten times faster than Uint32Array.from, which matters because every event is checked.
  const rows = new Uint32Array(rowCount);
  for (let row = 0; row < rowCount; row++) rows[row] = row;
  const types = EVENT_TYPES.filter((type) => (maskOf([type]) & typeMask) !== 0n);
  const { keepRowsWithin, keepSortedRows } = nativeColumns;
  return (
    keepSortedRows(columns.get('event_type')!, Uint32Array.from(types), rows, rowCount) === rowCount &&
    keepRowsWithin(columns.get('timestamp_ns')!, minNs, maxNs, rows, rowCount) === rowCount &&
    keepRowsWithin(columns.get('duration_ns')!, 0n, maxDurationNs, rows, rowCount) === rowCount &&
    keepRowsWithin(numbers, BigInt(firstNumber), BigInt(endNumber - 1), rows, rowCount) === rowCount
  );
}
