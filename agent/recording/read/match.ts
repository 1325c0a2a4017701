/**
 * Selects the rows of a segment that match a filter. Each condition looks only at the rows that the ones before it
 * kept.
 */
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import { ORIGINS, OWN, type OwnerColumns } from '../format/owner_columns.ts';
import { U64_MAX } from '../format/schema.ts';
import { wordsOf } from '../words64.ts';
import type { ResolvedFilter } from './event_filter.ts';
import type { Segment } from './segment.ts';

const columnNamed = (name: string): Column => COLUMNS.find((column) => column.name === name)!;
const TIMESTAMP = columnNamed('timestamp_ns');
const DURATION = columnNamed('duration_ns');
const RESULT = columnNamed('result');
const PID = columnNamed('pid');
const COMM = columnNamed('comm');

/** Matching rows in arrival order; only those with a number below `endNumber`. */
export function matchingRows(segment: Segment, filter: ResolvedFilter, endNumber: number): Uint32Array {
  let rows = new Uint32Array(rowsBelow(segment, endNumber));
  for (let row = 0; row < rows.length; row++) rows[row] = row;
  // Most scans want all types, and most segments are wholly inside the time.
  const { typeMask, minNs, maxNs } = segment.meta;
  if ((typeMask & ~filter.typeMask) !== 0n) rows = withType(rows, segment, filter.eventTypes);
  const isInside = minNs >= filter.firstNs && maxNs <= filter.lastNs;
  if (!isInside) rows = within(rows, segment, TIMESTAMP, filter.firstNs, filter.lastNs);
  rows = within(rows, segment, DURATION, filter.minDurationNs, filter.maxDurationNs);
  for (const contexts of filter.contexts) rows = ownedBy(rows, segment, 'context', contexts);
  if (filter.services) rows = ownedBy(rows, segment, 'service', filter.services);
  if (filter.pid !== undefined) rows = oneOf(rows, segment, PID, new Set([filter.pid]));
  if (filter.comms) rows = oneOf(rows, segment, COMM, filter.comms);
  if (filter.failed !== undefined) rows = withSign(rows, segment, filter.failed ? 1 : 0);
  return rows;
}

function rowsBelow({ rowCount, numberAt }: Segment, endNumber: number): number {
  let count = rowCount;
  while (count > 0 && numberAt(count - 1) >= endNumber) count--;
  return count;
}

function withType(rows: Uint32Array<ArrayBuffer>, segment: Segment, types: ReadonlySet<number>) {
  const wanted = new Uint8Array(256);
  for (const type of types) wanted[type] = 1;
  const values = segment.eventTypes();
  let kept = 0;
  for (const row of rows) if (wanted[values[row]!] === 1) rows[kept++] = row;
  return rows.subarray(0, kept);
}

function within(rows: Uint32Array<ArrayBuffer>, segment: Segment, column: Column, min: bigint, max: bigint) {
  if (rows.length === 0 || (min === 0n && max === U64_MAX)) return rows;
  const words = wordsOf(segment.column(column) as BigUint64Array);
  const [minLow, minHigh] = [Number(min & 0xffffffffn), Number(min >> 32n)];
  const [maxLow, maxHigh] = [Number(max & 0xffffffffn), Number(max >> 32n)];
  let kept = 0;
  for (const row of rows) {
    const low = words[row * 2]!;
    const high = words[row * 2 + 1]!;
    if (high < minHigh || (high === minHigh && low < minLow)) continue;
    if (high > maxHigh || (high === maxHigh && low > maxLow)) continue;
    rows[kept++] = row;
  }
  return rows.subarray(0, kept);
}

function oneOf(rows: Uint32Array<ArrayBuffer>, segment: Segment, column: Column, ids: ReadonlySet<number>) {
  if (rows.length === 0) return rows;
  const values = segment.column(column);
  let kept = 0;
  for (const row of rows) if (ids.has(values[row] as number)) rows[kept++] = row;
  return rows.subarray(0, kept);
}

function withSign(rows: Uint32Array<ArrayBuffer>, segment: Segment, sign: 0 | 1) {
  if (rows.length === 0) return rows;
  const words = wordsOf(segment.column(RESULT) as BigInt64Array);
  let kept = 0;
  for (const row of rows) if (words[row * 2 + 1]! >>> 31 === sign) rows[kept++] = row;
  return rows.subarray(0, kept);
}

function ownedBy(
  rows: Uint32Array<ArrayBuffer>,
  segment: Segment,
  kind: keyof Omit<OwnerColumns, 'eventType'>,
  ids: ReadonlySet<number>,
) {
  if (rows.length === 0) return rows;
  const owned = new Uint8Array(segment.rowCount);
  markRows(segment.column(OWN[kind]) as Uint32Array, ids, undefined, owned);
  for (const origin of ORIGINS) {
    if (segment.typeRowCount(origin.eventType) === 0) continue;
    const values = segment.storedColumn(origin[kind]) as Uint32Array | undefined;
    if (values) markRows(values, ids, segment.rowsOfType(origin.eventType), owned);
  }
  let kept = 0;
  for (const row of rows) if (owned[row] === 1) rows[kept++] = row;
  return rows.subarray(0, kept);
}

/** Marks the rows that have one of the ids: value `i` belongs to row `rows[i]`, or to row `i` without `rows`. */
function markRows(
  values: Uint32Array,
  ids: ReadonlySet<number>,
  rows: Uint32Array | undefined,
  marks: Uint8Array,
): void {
  // Neighbouring rows mostly have the same owner.
  let last = 0;
  let has = ids.has(0);
  for (let i = 0; i < values.length; i++) {
    const id = values[i]!;
    if (id !== last) {
      last = id;
      has = ids.has(id);
    }
    if (has) marks[rows ? rows[i]! : i] = 1;
  }
}
