/** The plan of a session turns recorded events into the bytes to send. Plans do not run in the thread of the clock. */

import { computeWholeEndNs } from '../../../agent/recording/read/transactions.ts';
import { max } from '../../base/bigints.ts';
import { growBuffer } from '../../base/growing_buffer.ts';
import { Problem } from '../../base/problem.ts';
import type { SeekTarget } from '../../contract/target.ts';
import { readEventKey } from '../../store/blocks/event.ts';
import { encodeJsonRows } from '../../store/blocks/event_json.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import { computeAlignedSpanNs } from './aligned_span.ts';
import {
  type AppliedOffsets,
  checkNodes,
  createClockShiftLookup,
  getClockOffsetNs,
  type ReplayedClock,
  readReplayedClocks,
} from './clock_offsets.ts';
import {
  type AlignedClocks,
  createMerge,
  type LatencyChange,
  type LayoutChange,
  type ProjectedPage,
  START,
} from './merge.ts';
import { type PageCache, type RecordedEvents, type RecordedPage, readRecorded, SPAN_NS_MAX } from './recorded.ts';
import { createSchedule, type Schedule } from './schedule.ts';

export interface PlanRequest extends AppliedOffsets {
  transactionId: string;
  /** Sorted by index; the first entry has index 0. */
  latency: readonly LatencyChange[];
  timeoutNs: number | null;
  maxGapNs: number | null;
}

/** The facts known about a plan so far. */
export interface Outline {
  /** Number of events; until all of them have been processed, this is the count in the recording's index. */
  eventCount: number;
  firstTimestampNs: bigint;
  /**
   * Span from the first start to the last end of an own event, as recorded. The clocks are not aligned until all events
   * have been processed.
   */
  recordedDurationNs: number;
  /** The latency changes of the current layout. A plan that is opened with these changes has the same layout. */
  latency: readonly LatencyChange[];
  /** Results of the survey; null until all events have been processed. */
  survey: { durationNs: number; endNs: number; timeoutEventId: string | null } | null;
  /** The clock of each node. */
  clocks: readonly ReplayedClock[];
}

/** Consecutive events in projected order. */
export interface PlanPage {
  first: number;
  count: number;
  /** Whether no event follows this page. */
  isLast: boolean;
  /** Offsets from the first event's start. */
  startNs: Float64Array;
  /** Durations including the extra latency. */
  durationNs: Float64Array;
  /** 1: the transaction's caller waited for the event. */
  isOwn: Uint8Array;
  /** The events as JSON, and the end offset of each event in `bytes`. */
  bytes: Buffer;
  ends: Uint32Array;
}

/** A plan that is computed step by step; all its methods are synchronous. */
export interface PlanWork {
  outline(): Outline;
  /** Processes some more events; returns false when nothing is left to be done. */
  advance(): boolean;
  /** Reads a page, into `memory` if the page fits there; `memory` belonged to a page that is not needed any more. */
  readPage(index: number, limit: number, memory?: ArrayBuffer): PlanPage;
  /** Finds the place of a seek target; null for a target past the end. All events must have been processed. */
  place(target: SeekTarget): SeekResult | null;
  /** Changes the latency or the gaps from an event on. */
  changeLatency(fromIndex: number, change: LayoutChange): void;
  /** Changes the deadline; no event moves. */
  changeTimeout(timeoutNs: number | null): void;
  /** Computes when the last event would end if all events were laid out with the latest settings and this change. */
  endWith(change: Partial<LayoutChange>): Generator<void, number>;
  /**
   * Starts a new layout of all events with the latency that was set last; returns false if the current layout already
   * uses that latency for all events. The next `place` returns a place in the new layout, which replaces the old one.
   */
  layOutAnew(): boolean;
  /** Drops the new layout that `layOutAnew` has started; returns whether the old layout still has to be processed. */
  keepLayout(): boolean;
  close(): void;
}

export interface PlanCaches {
  recorded: PageCache<RecordedPage>;
  bodies: PageCache<Chunk>;
}

/** Numbers of events that a plan handles together. The defaults are best for large transactions. */
export interface PlanSizes {
  pageEvents?: number;
  markEvents?: number;
  chunkEvents?: number;
}

/** Duration of one `advance`, and number of events that are processed between two checks of the time. */
const SLICE_MS = 1;
const SLICE_EVENTS = 32;
/** Number of events that one step of `endWith` processes, which takes a few tenths of a millisecond. */
const MEASURED_EVENTS = 512;

/** Opens a plan; throws a Problem if the transaction is not recorded or not playable. */
export function openPlan(
  recordings: Recordings,
  request: PlanRequest,
  caches: PlanCaches,
  { pageEvents, markEvents, chunkEvents }: PlanSizes = {},
): PlanWork {
  const { transactionId, maxGapNs, clockOffsetsNs } = request;
  let { timeoutNs } = request;
  // Each change states its gap limit, because a plan reopened with these changes may have another `maxGapNs`.
  let latency: readonly LatencyChange[] = request.latency.map((change) => ({ maxGapNs, ...change }));
  checkNodes(request, recordings);
  const recorded = readRecorded(recordings, transactionId, caches.recorded, pageEvents);
  // The summary is read after the snapshot was taken, so that it contains every node of the snapshot.
  const summary = recordings.findTransaction(transactionId);
  const bodies = createBodies(recordings, transactionId, recorded, caches.bodies, chunkEvents);
  const firstTimestampNs = recorded.firstTimestampNs;
  let eventCount = Math.max(summary?.eventCount ?? 0, recorded.known);
  const lastEndNs = summary ? computeWholeEndNs(summary) : firstTimestampNs;
  const ownSpanNs = Math.min(Number((summary?.lastEndNs ?? firstTimestampNs) - firstTimestampNs), SPAN_NS_MAX);
  const nodes = summary?.nodes ?? recordings.nodes();
  const getClockShift = createClockShiftLookup(clockOffsetsNs, nodes);
  const aligned = createAlignedClocks(recorded, getClockShift);
  const clocks = readReplayedClocks(recordings, request, nodes, [firstTimestampNs, lastEndNs]);
  const spanNs = computeSpanNs(recordings, transactionId, { nodes, getClockShift, firstTimestampNs, lastEndNs });
  for (const { extraLatencyNs } of latency) checkSpan(extraLatencyNs);
  let schedule = layOut(latency);
  /** The new layout while it is being computed. */
  let coming: Schedule | null = null;

  /** Returns the latency that was set last, applied to all events. */
  function buildUniformLatency(): LatencyChange[] {
    return [{ ...latency.at(-1)!, fromIndex: 0 }];
  }

  function layOut(latency: readonly LatencyChange[]): Schedule {
    const settings = { latency, maxGapNs, timeoutNs, clocks: aligned };
    return createSchedule(recorded, { ...settings, ...(markEvents && { markEvents }) });
  }

  function checkSpan(addedNs: number): void {
    if (spanNs + eventCount * addedNs <= SPAN_NS_MAX) return;
    const isShifted = nodes.some((node) => getClockOffsetNs(clockOffsetsNs, node) !== 0n);
    const cause = spanNs <= SPAN_NS_MAX ? 'extra_latency_ns' : isShifted ? 'clock_offsets_ns' : 'transaction_id';
    const cure = nodes.length > 1 && cause === 'transaction_id' ? ': if a clock was off, give clock_offsets_ns' : '';
    const message = `the replay would take longer than 104 days, the most that a session can play${cure}`;
    throw new Problem('invalid_body', message, [{ pointer: `/${cause}`, message }]);
  }

  function advance(): boolean {
    const unfinished = coming ?? schedule;
    const endMs = performance.now() + SLICE_MS;
    do unfinished.advance(SLICE_EVENTS);
    while (!unfinished.survey && performance.now() < endMs);
    if (!unfinished.survey) return true;
    eventCount = unfinished.survey.eventCount;
    return false;
  }

  function outline(): Outline {
    const { survey } = schedule;
    const timeoutEventId =
      survey?.timeoutRecorded === null || survey === null
        ? null
        : recorded.readRecordedKey(survey.timeoutRecorded).event_id;
    return {
      eventCount,
      firstTimestampNs,
      recordedDurationNs: survey?.recordedDurationNs ?? ownSpanNs,
      latency,
      survey: survey && { durationNs: survey.durationNs, endNs: survey.endNs, timeoutEventId },
      clocks,
    };
  }

  function readPage(index: number, limit: number, memory?: ArrayBuffer): PlanPage {
    const projected = schedule.projectPage(index, limit);
    const { first, count } = projected;
    const ends = new Uint32Array(count);
    const slices = bodies.gather(projected.recorded.subarray(0, count), ends);
    const isLast = count < limit || (schedule.survey !== null && first + count === eventCount);
    return { first, count, isLast, ...packPage(projected, slices, ends, memory) };
  }

  // A replay most likely starts with the first event, so its chunk is read ahead.
  bodies.readAhead(0);
  return {
    outline,
    advance,
    readPage,
    place(target) {
      const layout = coming ?? schedule;
      const place = findPlace({ recordings, recorded, schedule: layout, eventCount, lastEndNs }, target);
      schedule = layout;
      if (coming) latency = buildUniformLatency();
      coming = null;
      return place;
    },
    keepLayout() {
      coming = null;
      return schedule.survey === null;
    },
    changeLatency(fromIndex, layout) {
      checkSpan(Math.max(layout.extraLatencyNs, latency.at(-1)!.extraLatencyNs));
      coming = null;
      const change = { ...latency.at(-1)!, ...layout, fromIndex };
      latency = [...latency.filter((earlier) => earlier.fromIndex < fromIndex), change];
      if (fromIndex === 0) schedule = layOut(latency);
      else schedule.changeLatency(change);
    },
    changeTimeout(timeout) {
      timeoutNs = timeout;
      coming = null;
      schedule.changeTimeout(timeout);
    },
    *endWith(change) {
      const settings = { latency: [{ ...latency.at(-1)!, ...change, fromIndex: 0 }], maxGapNs, clocks: aligned };
      const merge = createMerge(recorded, settings, START);
      while (merge.mergePage(MEASURED_EVENTS).count > 0) yield;
      return merge.endNs;
    },
    layOutAnew() {
      if (latency.length === 1) return false;
      coming = layOut(buildUniformLatency());
      return true;
    },
    close() {
      recorded.close();
      bodies.close();
    },
  };
}

interface Spanned {
  nodes: readonly string[];
  getClockShift: (node: string) => bigint;
  firstTimestampNs: bigint;
  lastEndNs: bigint;
}

/**
 * Computes the span of all events on the common time line. If a simple upper bound is within `SPAN_NS_MAX`, returns
 * that bound instead.
 */
function computeSpanNs(recordings: Recordings, transactionId: string, spanned: Spanned): number {
  const { nodes, getClockShift, firstTimestampNs, lastEndNs } = spanned;
  const shiftNs = nodes.map(getClockShift).reduce(max, 0n);
  const mostNs = Number(lastEndNs - firstTimestampNs + shiftNs);
  return mostNs <= SPAN_NS_MAX ? mostNs : Number(computeAlignedSpanNs(recordings, transactionId, nodes, getClockShift));
}

/** On the common time line, the first recorded event starts at 0. */
function createAlignedClocks(recorded: RecordedEvents, getClockShift: (node: string) => bigint): AlignedClocks {
  const zeroNs = recorded.firstTimestampNs + getClockShift(recorded.threads[0]!.node);
  return {
    shiftNs: (node) => Number(recorded.getNodeStartNs(node) + getClockShift(node) - zeroNs),
    frontShiftNs(node) {
      // Events that are recorded later have clock shifts of 0 or more, on any node, so the bound includes no clock
      // shift.
      const shiftNs = Number(recorded.getNodeStartNs(node) - zeroNs);
      return Number.isSafeInteger(shiftNs) ? shiftNs : Number.NEGATIVE_INFINITY;
    },
  };
}

/** Minimum share of the memory that a page must fill for the memory to be reused. */
const FITS = 1 / 4;
/** Factor by which new memory is larger than its page, so that later pages fit into it too. */
const SPARE = 1.25;

/**
 * Puts the columns of a page into one `ArrayBuffer`, which is transferred to another thread without a copy. Reusing
 * memory leaves little work to the garbage collectors of both threads.
 */
function packPage(
  projected: ProjectedPage,
  slices: readonly Uint8Array[],
  ends: Uint32Array,
  offered: ArrayBuffer | undefined,
) {
  const { count } = projected;
  const bytesLength = count === 0 ? 0 : ends[count - 1]!;
  const length = count * (2 * 8 + 4 + 1) + bytesLength;
  const fits = offered && length <= offered.byteLength && length >= offered.byteLength * FITS;
  const memory = fits ? offered : new ArrayBuffer(Math.ceil(length * SPARE));
  const startNs = new Float64Array(memory, 0, count);
  const durationNs = new Float64Array(memory, startNs.byteLength, count);
  const packedEnds = new Uint32Array(memory, 2 * startNs.byteLength, count);
  const isOwn = new Uint8Array(memory, packedEnds.byteOffset + packedEnds.byteLength, count);
  const bytes = Buffer.from(memory, isOwn.byteOffset + count, bytesLength);
  startNs.set(projected.startNs.subarray(0, count));
  durationNs.set(projected.durationNs.subarray(0, count));
  isOwn.set(projected.isOwn.subarray(0, count));
  packedEnds.set(ends);
  let at = 0;
  for (const slice of slices) {
    bytes.set(slice, at);
    at += slice.length;
  }
  return { startNs, durationNs, isOwn, bytes, ends: packedEnds };
}

/* Resolves the target of a seek to a place in a plan. */

export interface SeekResult {
  positionNs: number;
  /** Projected index of the next event; the event count if no event is left. */
  index: number;
}

/** A plan whose survey is done. */
interface Surveyed {
  recordings: Pick<Recordings, 'event'>;
  recorded: RecordedEvents;
  schedule: Schedule;
  eventCount: number;
  /** When the last event ended, by the clock of its node. */
  lastEndNs: bigint;
}

/**
 * Finds the place of a seek target; null for a target past the end. A target before the start is treated as the start.
 */
function findPlace(plan: Surveyed, target: SeekTarget): SeekResult | null {
  if ('position_ns' in target) return findPlaceByPosition(plan, clampNumber(target.position_ns));
  if ('timestamp_ns' in target) return findPlaceByTimestamp(plan, target.timestamp_ns);
  if ('event_index' in target) return findPlaceByIndex(plan, clampNumber(target.event_index));
  return findPlaceByEvent(plan, target.event_id);
}

/** Clamps a value to the range of any plan; all values beyond that range are equivalent. */
function clampNumber(value: bigint): number {
  return Math.min(Math.max(Number(value), -1), SPAN_NS_MAX);
}

function findPlaceByPosition({ schedule, eventCount }: Surveyed, positionNs: number): SeekResult | null {
  if (positionNs <= 0) return { positionNs: 0, index: 0 };
  const { endNs } = schedule.survey!;
  const index = schedule.indexAtPosition(positionNs);
  // At the very end, an event is left only if it starts there and has no duration.
  const isLeft = positionNs < endNs || (positionNs === endNs && index < eventCount);
  return isLeft ? { positionNs, index } : null;
}

function findPlaceByIndex(plan: Surveyed, index: number): SeekResult | null {
  const clampedIndex = Math.max(index, 0);
  if (clampedIndex >= plan.eventCount) return null;
  return { positionNs: readStartNs(plan, clampedIndex), index: clampedIndex };
}

function findPlaceByEvent(plan: Surveyed, eventId: string): SeekResult | null {
  const event = plan.recordings.event(eventId);
  const index = event && plan.recorded.findEventIndex(event);
  if (index === undefined) throw new Problem('event_not_found', `the session has no event ${eventId}`);
  return findPlaceByIndex(plan, plan.schedule.indexOfRecorded(index));
}

/**
 * Finds the place of a timestamp, which is compared with the recorded start of each event. The next event is the first
 * one recorded at or after the timestamp. The position is before that event by the recorded time between them, but not
 * before the start of the previous event.
 */
function findPlaceByTimestamp(plan: Surveyed, timestampNs: bigint): SeekResult | null {
  const { recorded, schedule, eventCount, lastEndNs } = plan;
  if (timestampNs < recorded.firstTimestampNs) return { positionNs: 0, index: 0 };
  const wanted = recorded.indexAtTimestamp(timestampNs);
  if (wanted === recorded.known) {
    // The timestamp is in the last event or after it.
    const beforeEndNs = Number(lastEndNs - timestampNs);
    if (beforeEndNs <= 0) return null;
    const positionNs = schedule.survey!.endNs - beforeEndNs;
    return { positionNs: Math.max(positionNs, readStartNs(plan, eventCount - 1)), index: eventCount };
  }
  const index = schedule.indexOfRecorded(wanted);
  const waitNs = Number(recorded.readRecordedKey(wanted).timestamp_ns - timestampNs);
  const earliestNs = index === 0 ? 0 : readStartNs(plan, index - 1);
  return { positionNs: Math.max(readStartNs(plan, index) - waitNs, earliestNs), index };
}

function readStartNs({ schedule }: Surveyed, index: number): number {
  return schedule.projectPage(index, 1).startNs[0]!;
}

/*
 * Reads events as JSON, ready to be sent, in chunks of neighbouring events. Threads with different delays read from
 * different chunks, so several chunks are cached.
 */

/**
 * Number of events read at once: reading takes 4.5 us per event with 512 events, 3.4 us with 1024, and 3.0 us with
 * 2048. A chunk of 1024 events takes some 500 KB.
 */
export const CHUNK_EVENTS = 1024;
const CHUNK_EVENTS_MIN = 128;
/** The first 64 plans get the largest chunks, the next 64 half that size, and the 128 after that a quarter. */
const LARGEST_CHUNKS = 64;

/**
 * Reused memory in which chunks are assembled. Each finished chunk is copied to memory of its own size, which produces
 * less garbage.
 */
const scratch: { block: Buffer; chunk: Buffer } = { block: Buffer.alloc(0), chunk: Buffer.alloc(0) };

/** Returns the scratch memory for a chunk, enlarged if it is too small; the first `used` bytes are kept. */
function ensureScratch(bytes: number, used: number): Buffer {
  if (bytes > scratch.chunk.length) scratch.chunk = growBuffer(scratch.chunk, used, bytes);
  return scratch.chunk;
}

/**
 * Computes how many events each of `plans` plans reads at once, so that the chunks of a thousand plans fit into the
 * cache.
 */
export function computeChunkEvents(plans: number): number {
  let events = CHUNK_EVENTS;
  for (let limit = LARGEST_CHUNKS; plans >= limit && events > CHUNK_EVENTS_MIN; limit *= 2) events /= 2;
  return events;
}

/** Consecutive events in recorded order. */
export interface Chunk {
  bytes: Buffer;
  /** The end offset of each event. */
  ends: Uint32Array;
}

interface Bodies {
  /** Reads the chunk of an event ahead of time. */
  readAhead(recorded: number): void;
  /**
   * Finds the bytes of events, and stores in `ends` the end offset of each event, as if the events were concatenated.
   * The returned arrays belong to the cache. Throws a Problem if an event is not recorded any more.
   */
  gather(recorded: Uint32Array, ends: Uint32Array): Uint8Array[];
  close(): void;
}

function createBodies(
  recordings: Recordings,
  transactionId: string,
  recorded: RecordedEvents,
  cache: PageCache<Chunk>,
  chunkEventsMax = CHUNK_EVENTS,
): Bodies {
  const owner = {};
  /** Limited so that a page of recorded events consists of whole chunks. */
  const chunkEvents = Math.min(chunkEventsMax, recorded.pageEvents);

  function load(first: number): Chunk {
    const count = Math.min(chunkEvents, recorded.known - first);
    const ends = new Uint32Array(count);
    let [found, bytes] = [0, 0];
    const lastNs = recorded.readRecordedKey(first + count - 1).timestamp_ns;
    let after = first > 0 ? recorded.readRecordedKey(first - 1) : undefined;
    while (found < count) {
      const before = after;
      const request = { filter: { transactionId, toNs: lastNs + 1n }, order: 'asc', limit: count } as const;
      for (const scanned of recordings.scan({ ...request, ...(after && { after }) })) {
        const { rowCount } = scanned.block;
        if (rowCount === 0) continue;
        const json = encodeJsonRows(scanned, scratch.block);
        if (json.bytes.length > scratch.block.length) scratch.block = json.bytes;
        for (let row = 0; row < rowCount; ) {
          // Rows that were recorded after the snapshot are skipped.
          const rows = recorded.countSharedRows(first + found, scanned, row, count - found);
          if (rows === 0) {
            row++;
            continue;
          }
          const start = row === 0 ? 0 : json.ends[row - 1]!;
          for (const end of json.ends.subarray(row, row + rows)) ends[found++] = bytes + end - start;
          const all = ensureScratch(ends[found - 1]!, bytes);
          bytes += json.bytes.copy(all, bytes, start, json.ends[row + rows - 1]);
          row += rows;
        }
        after = readEventKey(scanned, rowCount - 1);
        if (found === count) break;
      }
      if (after === before) break;
    }
    if (found === count) return { bytes: Buffer.from(scratch.chunk.subarray(0, bytes)), ends };
    const { event_id } = recorded.readRecordedKey(first + found);
    throw new Problem('event_not_found', `event ${event_id} is no longer recorded: make a new session`);
  }

  const loadChunk = (number: number) => cache.get(owner, number, () => load(number * chunkEvents));

  return {
    readAhead: (index) => void loadChunk(Math.floor(index / chunkEvents)),
    gather(indexes, ends) {
      const slices: Uint8Array[] = [];
      let length = 0;
      for (let from = 0; from < indexes.length; ) {
        const number = Math.floor(indexes[from]! / chunkEvents);
        const known = loadChunk(number);
        const first = number * chunkEvents;
        // Consecutive events become one slice.
        let at = indexes[from]! - first;
        const start = at === 0 ? 0 : known.ends[at - 1]!;
        do ends[from++] = length + known.ends[at++]! - start;
        while (at < known.ends.length && indexes[from] === first + at);
        slices.push(known.bytes.subarray(start, known.ends[at - 1]));
        length = ends[from - 1]!;
      }
      return slices;
    },
    close: () => cache.forget(owner),
  };
}
