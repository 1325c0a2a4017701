/**
 * Forms groups of sealed segments, which are sent together. A group with the same boundary has the same rows in every
 * attempt.
 */

import type { NumberedBlock } from '../../bpf/schema/block.ts';
import { max, min } from '../../daemon/base/bigints.ts';
import { countGivenNumbers } from '../recording/format/numbers.ts';
import { takeRows } from '../recording/read/assemble_block.ts';
import type { SealedReader, SealedSegment } from '../recording/read/sealed_segments.ts';

export interface SegmentGroup {
  /** The group has the numbers [from, end). Events whose numbers are in no segment were removed by retention. */
  from: number;
  end: number;
  segments: readonly SealedSegment[];
  eventCount: number;
  minNs: bigint;
  maxNs: bigint;
  typeMask: bigint;
  /** Whether the group has no room for the events that follow. */
  isFull: boolean;
}

export interface GroupLimits {
  eventsMax: number;
}

const HOUR_NS = 3_600_000_000_000n;
const DAY_NS = 24n * HOUR_NS;

/**
 * Limits on the hours in a group and in an insert. A table has a partition for each hour, and a server refuses an
 * insert with rows of more than 100 partitions.
 */
const GROUP_SPAN_NS_MAX = 8n * HOUR_NS;
const HOURS_MAX = 90;
const SPAN_NS_MAX = BigInt(HOURS_MAX - 1) * HOUR_NS;

/** Maximum number of segments in a group: a quiet node has many small segments, whose entries are read quickly. */
const SEGMENTS_MAX = 4096;

/** Smallest limit on the number of events in a group; also the limit for the first group. */
const EVENTS_MIN = 4096;
/**
 * Intended size of a group's rows for other tables. These rows stay in memory until the events of the group have
 * arrived.
 */
const BESIDE_BYTES_MAX = 4 * 1024 * 1024;

export interface GroupSizes {
  limits(): GroupLimits;
  /** Notes the total size of a group's rows for other tables. */
  note(eventCount: number, besideBytes: number): void;
}

/**
 * Chooses the size of groups by the size of the rows that the last group had for other tables. Groups are as large as
 * this size allows, because rows that are inserted together need no later merge in the server.
 */
export function groupSizes(eventsMax: number): GroupSizes {
  let size = Math.min(eventsMax, EVENTS_MIN);
  return {
    limits: () => ({ eventsMax: size }),
    note(eventCount, besideBytes) {
      const fitting = Math.floor((eventCount * BESIDE_BYTES_MAX) / Math.max(besideBytes, 1));
      size = Math.min(eventsMax, Math.max(EVENTS_MIN, fitting));
    },
  };
}

/**
 * Returns the group that begins with the number `from`; undefined while no segment with this or a larger number is
 * sealed.
 */
export function chooseNextGroup(
  reader: SealedReader,
  from: number,
  { eventsMax }: GroupLimits,
): SegmentGroup | undefined {
  const found = reader.listSealedSegments(from, SEGMENTS_MAX);
  const taken: SealedSegment[] = [];
  let [count, minNs, maxNs] = [0, 0n, 0n];
  for (const segment of found) {
    const [low, high] = [
      taken.length === 0 || segment.minNs < minNs ? segment.minNs : minNs,
      max(maxNs, segment.maxNs),
    ];
    const isOver = count + segment.eventCount > eventsMax || high - low > GROUP_SPAN_NS_MAX;
    if (taken.length > 0 && isOver) return buildGroup(from, taken.at(-1)!.endNumber, taken, true);
    taken.push(segment);
    [count, minNs, maxNs] = [count + segment.eventCount, low, high];
  }
  if (taken.length === 0) return undefined;
  return buildGroup(from, taken.at(-1)!.endNumber, taken, found.length === SEGMENTS_MAX);
}

/**
 * Returns the group with the boundary `from` and `end`, which was chosen earlier. Retention may have removed some of
 * its segments.
 */
export function rebuildGroup(reader: SealedReader, from: number, end: number): SegmentGroup {
  const segments = reader.listSealedSegments(from, SEGMENTS_MAX).filter(({ firstNumber }) => firstNumber < end);
  return buildGroup(from, end, segments, true);
}

function buildGroup(from: number, end: number, segments: readonly SealedSegment[], isFull: boolean): SegmentGroup {
  return {
    from,
    end,
    segments,
    eventCount: segments.reduce((sum, { eventCount }) => sum + eventCount, 0),
    minNs: segments.map(({ minNs }) => minNs).reduce(min, segments[0]?.minNs ?? 0n),
    maxNs: segments.map(({ maxNs }) => maxNs).reduce(max, 0n),
    typeMask: segments.reduce((mask, segment) => mask | segment.typeMask, 0n),
    isFull,
  };
}

export interface NumberGap {
  from: number;
  count: number;
  fromNs: bigint;
  toNs: bigint;
}

/**
 * Returns the ranges of numbers that the group includes but none of its segments has. Numbers below `settled` are left
 * out.
 */
export function findHoles({ from, end, segments }: SegmentGroup, settled: number): { from: number; end: number }[] {
  const holes: { from: number; end: number }[] = [];
  let next = Math.max(from, settled);
  for (const { firstNumber, endNumber } of [...segments, { firstNumber: end, endNumber: end }]) {
    if (firstNumber > next) holes.push({ from: next, end: firstNumber });
    next = Math.max(next, endNumber);
  }
  return holes;
}

/**
 * Returns one gap for all numbers, `settled` or larger, that the group includes but none of its segments has. The gap
 * extends to the events of the neighbouring segments; at the ends of the group, to `beforeNs` and `nowNs`. There is
 * only one gap, because retention may remove more segments before the group is sent again: a larger gap then replaces
 * the reported gap.
 */
export function findGap(
  { from, end, segments }: SegmentGroup,
  { settled, seen }: { settled: number; seen: number },
  beforeNs: bigint,
  nowNs: bigint,
): NumberGap | undefined {
  const gap = { from: Math.max(from, settled), count: 0, fromNs: beforeNs, toNs: beforeNs };
  let [next, lastNs] = [gap.from, beforeNs];
  const add = (until: number, untilNs: bigint) => {
    const count = until > next ? countGivenNumbers(next, until, seen) : 0;
    if (count === 0) return;
    gap.count += count;
    gap.fromNs = min(gap.fromNs, min(lastNs, untilNs));
    gap.toNs = max(gap.toNs, max(lastNs, untilNs));
  };
  for (const { firstNumber, endNumber, minNs, maxNs } of segments) {
    add(firstNumber, minNs);
    [next, lastNs] = [Math.max(next, endNumber), maxNs];
  }
  add(end, nowNs);
  return gap.count > 0 ? gap : undefined;
}

/** A range of start times. */
export interface TimePart {
  fromNs: bigint;
  toNs: bigint;
}

/**
 * Divides a group that spans more hours than one insert allows into parts of whole days. Sums have the day in their
 * key, so the sums of two parts do not replace each other. Returns [undefined] for a group that needs no division.
 */
export function splitIntoParts(
  { minNs, maxNs }: SegmentGroup,
  blocks: () => Iterable<{ block: NumberedBlock }>,
): (TimePart | undefined)[] {
  if (maxNs - minNs <= SPAN_NS_MAX) return [undefined];
  const hoursByDay = new Map<bigint, Set<bigint>>();
  for (const { block } of blocks()) {
    for (const timestamp of getTimestamps(block)) {
      const day = timestamp / DAY_NS;
      const hours = hoursByDay.get(day) ?? new Set();
      hoursByDay.set(day, hours.add(timestamp / HOUR_NS));
    }
  }
  const parts: TimePart[] = [];
  let hours = Number.POSITIVE_INFINITY;
  for (const [day, { size }] of [...hoursByDay].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (hours + size > HOURS_MAX) {
      parts.push({ fromNs: day * DAY_NS, toNs: 0n });
      hours = 0;
    }
    hours += size;
    parts.at(-1)!.toNs = (day + 1n) * DAY_NS;
  }
  return parts;
}

/** Returns the events of a block that began within a part. */
export function selectEventsWithin(block: NumberedBlock, part: TimePart | undefined): NumberedBlock {
  if (!part) return block;
  const timestamps = getTimestamps(block);
  const rows = Uint32Array.from(timestamps.keys()).filter(
    (row) => timestamps[row]! >= part.fromNs && timestamps[row]! < part.toNs,
  );
  return takeRows(block, rows);
}

function getTimestamps({ columns, rowCount }: NumberedBlock): BigUint64Array {
  return (columns.get('timestamp_ns')! as BigUint64Array).subarray(0, rowCount);
}
