/**
 * Selects the rows of a segment that match a filter. Each condition checks only the rows that met the previous
 * conditions.
 */
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { U64_MAX } from '../../../daemon/base/bigints.ts';
import { findFirstNotBelow } from '../../../daemon/base/binary_search.ts';
import { type ColumnFacts, decodeFacts, hasInFilter, type Range } from '../codec/column_facts.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { ORIGINS, OWN, type OwnerColumns } from '../format/owner_columns.ts';
import { computeFactsSeed } from '../format/pieces.ts';
import { toWords } from '../words64.ts';
import type { OwnCondition, ResolvedFilter, SortedIds } from './event_filter.ts';
import type { Segment } from './segment.ts';
import type { SegmentMeta } from './segment_index.ts';

const findColumn = (name: string): Column => COLUMNS.find((column) => column.name === name)!;
const TIMESTAMP = findColumn('timestamp_ns');
const DURATION = findColumn('duration_ns');
const RESULT = findColumn('result');
const PID = findColumn('pid');
const COMM = findColumn('comm');

/** Row numbers. All segments share this memory, because only the matching rows, usually few, are copied from it. */
const candidates = new Uint32Array(SEGMENT_ROWS_MAX);
const ALL = candidates.map((_, row) => row);

const SIGN = 2n ** 63n;
/** The smallest high word of a negative number. */
const SIGN_HIGH = 2 ** 31;
const MARKED = Uint32Array.of(1);
const UNMARKED = Uint32Array.of(0);

/** Returns the rows that match the filter and have a number below `endNumber`, in arrival order. */
export function findMatchingRows(segment: Segment, filter: ResolvedFilter, endNumber: number): Uint32Array {
  const rows = candidates;
  let count = countRowsBelow(segment, endNumber);
  rows.set(ALL.subarray(0, count));

  /** Keeps the rows with a value in [min, max]. The column is not decoded if no rows are left. */
  function keepWithin(column: Column, min: bigint, max: bigint): void {
    if (count === 0 || (min === 0n && max === U64_MAX)) return;
    count = nativeColumns.keepRowsWithin(segment.readColumn(column), min, max, rows, count);
  }

  function keepRowsWithIds(column: Column, ids: SortedIds): void {
    if (count > 0) count = nativeColumns.keepSortedRows(segment.readColumn(column), ids, rows, count);
  }

  /** Keeps the rows whose mark is in `wanted`: `MARKED` or `UNMARKED`. */
  function keepMarked(markedRows: () => Uint8Array, wanted: Uint32Array): void {
    if (count > 0) count = nativeColumns.keepSortedRows(markedRows(), wanted, rows, count);
  }

  function keepResults(results: ReadonlySet<bigint>, areWanted: boolean): void {
    if (count > 0) count = keepRowsWith(results, areWanted, segment.readColumn(RESULT) as BigInt64Array, rows, count);
  }

  // These two checks are usually skipped: most scans want all event types, and most segments are within the requested
  // time.
  const { typeMask, minNs, maxNs } = segment.meta;
  if ((typeMask & ~filter.typeMask) !== 0n && count > 0) {
    count = nativeColumns.keepSortedRows(segment.eventTypes(), filter.eventTypes, rows, count);
  }
  const isInside = minNs >= filter.firstNs && maxNs <= filter.lastNs;
  if (!isInside) keepWithin(TIMESTAMP, filter.firstNs, filter.lastNs);
  keepWithin(DURATION, filter.minDurationNs, filter.maxDurationNs);
  for (const contexts of filter.contexts) keepMarked(() => markOwnedRows(segment, 'context', contexts), MARKED);
  const { services, excluded } = filter;
  if (services) keepMarked(() => markOwnedRows(segment, 'service', services), MARKED);
  if (filter.pid !== undefined) keepWithin(PID, BigInt(filter.pid), BigInt(filter.pid));
  if (filter.comms) keepRowsWithIds(COMM, filter.comms);
  if (filter.failed === true) keepWithin(RESULT, SIGN, U64_MAX);
  if (filter.failed === false) keepWithin(RESULT, 0n, SIGN - 1n);
  if (filter.results) keepResults(filter.results, true);
  for (const condition of filter.own) keepMarked(() => markConditionRows(segment, condition), MARKED);
  if (excluded.services) {
    const { services: names } = excluded;
    keepMarked(() => markOwnedRows(segment, 'service', names), UNMARKED);
  }
  if (excluded.comms) {
    const { comms } = excluded;
    keepMarked(() => markCommRows(segment, comms), UNMARKED);
  }
  if (excluded.results) keepResults(excluded.results, false);
  for (const condition of excluded.own) keepMarked(() => markConditionRows(segment, condition), UNMARKED);
  return rows.slice(0, count);
}

/**
 * Keeps the rows with a result in `results`, which are all negative. If `areWanted` is false, keeps the other rows
 * instead.
 */
function keepRowsWith(
  results: ReadonlySet<bigint>,
  areWanted: boolean,
  values: BigInt64Array,
  rows: Uint32Array,
  count: number,
): number {
  const words = toWords(values);
  let kept = 0;
  for (let i = 0; i < count; i++) {
    const row = rows[i]!;
    const has = words[row * 2 + 1]! >= SIGN_HIGH && results.has(values[row]!);
    if (has === areWanted) rows[kept++] = row;
  }
  return kept;
}

/** Returns an array with 1 for each row that meets the condition. */
function markConditionRows(segment: Segment, condition: OwnCondition): Uint8Array {
  const marks = new Uint8Array(segment.rowCount);
  for (const { column, numbers } of condition) {
    if (segment.typeRowCount(column.eventType) === 0) continue;
    nativeColumns.markSortedRows(segment.readColumn(column), numbers, segment.listRowsOfType(column.eventType), marks);
  }
  return marks;
}

function markCommRows(segment: Segment, comms: SortedIds): Uint8Array {
  const marks = new Uint8Array(segment.rowCount);
  nativeColumns.markSortedRows(segment.readColumn(COMM), comms, undefined, marks);
  return marks;
}

function countRowsBelow({ rowCount, readEventNumber }: Segment, endNumber: number): number {
  let count = rowCount;
  while (count > 0 && readEventNumber(count - 1) >= endNumber) count--;
  return count;
}

/** Returns an array with 1 for each row that one of the ids owns, wholly or in part. */
function markOwnedRows(segment: Segment, kind: keyof Omit<OwnerColumns, 'eventType'>, ids: SortedIds): Uint8Array {
  const owned = new Uint8Array(segment.rowCount);
  nativeColumns.markSortedRows(segment.readColumn(OWN[kind]), ids, undefined, owned);
  for (const origin of ORIGINS) {
    if (segment.typeRowCount(origin.eventType) === 0) continue;
    const values = segment.readStoredColumn(origin[kind]);
    if (values) nativeColumns.markSortedRows(values, ids, segment.listRowsOfType(origin.eventType), owned);
  }
  return owned;
}

/*
 * Selects the segments that may contain a match, by their entries. If an entry's facts are missing, damaged or in an
 * unknown form, its segment may contain a match.
 */

/** The smallest negative result in two's complement. Results are compared as unsigned numbers. */
const NEGATIVE_MIN = 2n ** 63n;

/**
 * Maximum number of values that are looked up in a column's Bloom filter. Of more values, the filter would probably
 * find one wrongly, so the filter is not used. A text usually has only a few ids.
 */
const TRIED_MAX = 64;

/** A test whether a segment may contain a match, given the facts about one of its columns. */
type Rule = (facts: ColumnFacts) => boolean;

export function createSegmentMatcher(
  filter: ResolvedFilter,
  columnIds: ReadonlyMap<string, number>,
): (segment: SegmentMeta) => boolean {
  const { services: wanted } = filter;
  const rules = new Map<number, Rule>();
  for (const [name, rule] of listRules(filter)) {
    const id = columnIds.get(name);
    if (id !== undefined) rules.set(id, rule);
  }

  function mayMatch({ facts, firstNumber }: SegmentMeta): boolean {
    const known = facts && decodeFacts(facts, computeFactsSeed(firstNumber), (id) => rules.has(id));
    for (const [id, ofColumn] of known ?? []) if (!rules.get(id)!(ofColumn)) return false;
    return true;
  }

  return (segment) =>
    (wanted === undefined || segment.services.some((id) => wanted.includes(id))) &&
    (rules.size === 0 || mayMatch(segment));
}

function* listRules(filter: ResolvedFilter): Generator<[column: string, Rule]> {
  const { eventTypes, minDurationNs, maxDurationNs, pid, comms, failed } = filter;
  if (minDurationNs > 0n || maxDurationNs < U64_MAX) {
    yield ['duration_ns', createRangeRule(eventTypes, minDurationNs, maxDurationNs)];
  }
  if (failed === true) yield ['result', createRangeRule(eventTypes, NEGATIVE_MIN, U64_MAX)];
  if (failed === false) yield ['result', createRangeRule(eventTypes, 0n, NEGATIVE_MIN - 1n)];
  if (pid !== undefined) yield ['pid', createMembershipRule([pid])];
  if (comms) yield ['comm', createMembershipRule(comms)];
}

/** Returns a rule for events of `eventTypes` with a value in [min, max]. */
function createRangeRule(eventTypes: SortedIds, min: bigint, max: bigint): Rule {
  return ({ extremes }) =>
    extremes?.some((one) => eventTypes.includes(one.eventType) && one.max >= min && one.min <= max) ?? true;
}

/** Returns a rule for events with one of the values in `sorted`, which are in ascending order. */
function createMembershipRule(sorted: SortedIds | readonly number[]): Rule {
  const isReached = ({ from, to }: Range) =>
    (sorted[findFirstNotBelow(sorted, from)] ?? Number.POSITIVE_INFINITY) <= to;
  const tried = sorted.slice(0, TRIED_MAX);
  return ({ ranges, filter }) => {
    if (ranges && !ranges.some(isReached)) return false;
    return !filter || sorted.length > TRIED_MAX || tried.some((value) => hasInFilter(filter, value));
  };
}
