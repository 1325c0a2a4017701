/**
 * Selects the rows of a segment that match a filter. Each condition looks only at the rows that the ones before it
 * kept.
 */
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { ORIGINS, OWN, type OwnerColumns } from '../format/owner_columns.ts';
import { U64_MAX } from '../format/schema.ts';
import type { Ids, ResolvedFilter } from './event_filter.ts';
import type { Segment } from './segment.ts';

const columnNamed = (name: string): Column => COLUMNS.find((column) => column.name === name)!;
const TIMESTAMP = columnNamed('timestamp_ns');
const DURATION = columnNamed('duration_ns');
const RESULT = columnNamed('result');
const PID = columnNamed('pid');
const COMM = columnNamed('comm');

/** Reused for each segment: most keep few of its rows. */
const candidates = new Uint32Array(SEGMENT_ROWS_MAX);
const ALL = candidates.map((_, row) => row);

const SIGN = 2n ** 63n;
const MARKED = Uint32Array.of(1);

/** Matching rows in arrival order; only those with a number below `endNumber`. */
export function matchingRows(segment: Segment, filter: ResolvedFilter, endNumber: number): Uint32Array {
  const rows = candidates;
  let count = rowsBelow(segment, endNumber);
  rows.set(ALL.subarray(0, count));

  /** Columns are decoded only while rows are left. */
  function keepWithin(column: Column, min: bigint, max: bigint): void {
    if (count === 0 || (min === 0n && max === U64_MAX)) return;
    count = nativeColumns.keepRowsWithin(segment.column(column), min, max, rows, count);
  }

  function keepOneOf(column: Column, ids: Ids): void {
    if (count > 0) count = nativeColumns.keepRowsOf(segment.column(column), ids, rows, count);
  }

  function keepOwnedBy(kind: keyof Omit<OwnerColumns, 'eventType'>, ids: Ids): void {
    if (count > 0) count = nativeColumns.keepRowsOf(ownedRows(segment, kind, ids), MARKED, rows, count);
  }

  // Most scans want all types, and most segments are wholly inside the time.
  const { typeMask, minNs, maxNs } = segment.meta;
  if ((typeMask & ~filter.typeMask) !== 0n && count > 0) {
    count = nativeColumns.keepRowsOf(segment.eventTypes(), filter.eventTypes, rows, count);
  }
  const isInside = minNs >= filter.firstNs && maxNs <= filter.lastNs;
  if (!isInside) keepWithin(TIMESTAMP, filter.firstNs, filter.lastNs);
  keepWithin(DURATION, filter.minDurationNs, filter.maxDurationNs);
  for (const contexts of filter.contexts) keepOwnedBy('context', contexts);
  if (filter.services) keepOwnedBy('service', filter.services);
  if (filter.pid !== undefined) keepWithin(PID, BigInt(filter.pid), BigInt(filter.pid));
  if (filter.comms) keepOneOf(COMM, filter.comms);
  if (filter.failed === true) keepWithin(RESULT, SIGN, U64_MAX);
  if (filter.failed === false) keepWithin(RESULT, 0n, SIGN - 1n);
  return rows.slice(0, count);
}

function rowsBelow({ rowCount, numberAt }: Segment, endNumber: number): number {
  let count = rowCount;
  while (count > 0 && numberAt(count - 1) >= endNumber) count--;
  return count;
}

/** Returns 1 for each row that one of the ids owns, wholly or in part. */
function ownedRows(segment: Segment, kind: keyof Omit<OwnerColumns, 'eventType'>, ids: Ids): Uint8Array {
  const owned = new Uint8Array(segment.rowCount);
  nativeColumns.markRowsOf(segment.column(OWN[kind]), ids, undefined, owned);
  for (const origin of ORIGINS) {
    if (segment.typeRowCount(origin.eventType) === 0) continue;
    const values = segment.storedColumn(origin[kind]);
    if (values) nativeColumns.markRowsOf(values, ids, segment.rowsOfType(origin.eventType), owned);
  }
  return owned;
}
