/** The plan of a session: from the recording to the bytes that are sent. It runs outside the clock's thread. */

import { wholeEndOf } from '../../../agent/recording/read/transactions.ts';
import { max } from '../../base/bigints.ts';
import { Problem } from '../../base/problem.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import type { SeekTarget } from '../target.ts';
import { alignedSpan } from './aligned_span.ts';
import { type Chunk, createBodies } from './bodies.ts';
import {
  type AppliedOffsets,
  checkNodes,
  clockShifts,
  clocksOf,
  offsetOf,
  type ReplayedClock,
} from './clock_offsets.ts';
import {
  type AlignedClocks,
  createMerge,
  type LatencyChange,
  type LayoutChange,
  type ProjectedPage,
  START,
} from './merge.ts';
import type { PageCache } from './page_cache.ts';
import { placeIn, type SeekResult } from './places.ts';
import { type Recorded, type RecordedPage, readRecorded, SPAN_NS_MAX } from './recorded.ts';
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
  /** The count in the recording's index, until all events have been processed. */
  eventCount: number;
  firstTimestampNs: bigint;
  /** First start to last end of an own event, as recorded; by unaligned clocks until all events have been processed. */
  recordedDurationNs: number;
  /** The latency changes of the current layout: a plan that is opened with them is the same. */
  latency: readonly LatencyChange[];
  /** Null until all events have been processed. */
  survey: { durationNs: number; endNs: number; timeoutEventId: string | null } | null;
  /** The clock of each node. */
  clocks: readonly ReplayedClock[];
}

/** A run of events in projected order. */
export interface PlanPage {
  first: number;
  count: number;
  /** Whether no event follows this page. */
  isLast: boolean;
  /** Offset from the first event's start. */
  startNs: Float64Array;
  /** Duration including the extra latency. */
  durationNs: Float64Array;
  /** 1: its caller waited for it. */
  isOwn: Uint8Array;
  /** The events as JSON, and the end offset of each. */
  bytes: Buffer;
  ends: Uint32Array;
}

/** A plan that is computed step by step; all its methods are synchronous. */
export interface PlanWork {
  outline(): Outline;
  /** Processes some more events; returns false when nothing is left to be done. */
  advance(): boolean;
  /** The page takes `memory`, of a page that is not needed any more, if it fits. */
  page(index: number, limit: number, memory?: ArrayBuffer): PlanPage;
  /** Works like `placeIn`. All events must have been processed. */
  place(target: SeekTarget): SeekResult | null;
  /** Changes the latency or the gaps from an event on. */
  changeLatency(fromIndex: number, change: LayoutChange): void;
  /** Changes the deadline; no event moves. */
  changeTimeout(timeoutNs: number | null): void;
  /** Computes when the last event would end if all were laid out with the latest settings and this change. */
  endWith(change: Partial<LayoutChange>): Generator<void, number>;
  /**
   * Starts a layout of all events with the latency that was set last; false when the layout has only that one. The next
   * `place` returns a place in the new layout, which replaces the old one.
   */
  layOutAnew(): boolean;
  /** Drops the new layout that `layOutAnew` has started; returns whether the old one is not processed to its end. */
  keepLayout(): boolean;
  close(): void;
}

export interface PlanCaches {
  recorded: PageCache<RecordedPage>;
  bodies: PageCache<Chunk>;
}

/** The defaults are best for large transactions. */
export interface PlanSizes {
  pageEvents?: number;
  markEvents?: number;
  chunkEvents?: number;
}

/** The length of one `advance`, and the events that are processed between two checks of the time. */
const SLICE_MS = 1;
const SLICE_EVENTS = 32;
/** Events of a step of `endWith`: a few tenths of a millisecond. */
const MEASURED_EVENTS = 512;

/** Throws a Problem when the transaction is not recorded, or cannot be played. */
export function openPlan(
  recordings: Recordings,
  request: PlanRequest,
  caches: PlanCaches,
  { pageEvents, markEvents, chunkEvents }: PlanSizes = {},
): PlanWork {
  const { transactionId, maxGapNs, clockOffsetsNs } = request;
  let { timeoutNs } = request;
  // A plan that is opened with the changes of this one has another setting, if it was changed.
  let latency: readonly LatencyChange[] = request.latency.map((change) => ({ maxGapNs, ...change }));
  checkNodes(request, recordings);
  const recorded = readRecorded(recordings, transactionId, caches.recorded, pageEvents);
  // This is read after the snapshot was taken, so that it contains every node of the snapshot.
  const summary = recordings.transaction(transactionId);
  const bodies = createBodies(recordings, transactionId, recorded, caches.bodies, chunkEvents);
  const firstTimestampNs = recorded.firstTimestampNs;
  let eventCount = Math.max(summary?.eventCount ?? 0, recorded.known);
  const lastEndNs = summary ? wholeEndOf(summary) : firstTimestampNs;
  const ownSpanNs = Math.min(Number((summary?.lastEndNs ?? firstTimestampNs) - firstTimestampNs), SPAN_NS_MAX);
  const nodes = summary?.nodes ?? recordings.nodes();
  const shiftOf = clockShifts(clockOffsetsNs, nodes);
  const aligned = alignedClocks(recorded, shiftOf);
  const clocks = clocksOf(recordings, request, nodes, [firstTimestampNs, lastEndNs]);
  const spanNs = spanOf(recordings, transactionId, { nodes, shiftOf, firstTimestampNs, lastEndNs });
  for (const { extraLatencyNs } of latency) checkSpan(extraLatencyNs);
  let schedule = laidOut(latency);
  /** The new layout while it is being computed. */
  let coming: Schedule | null = null;

  /** The latency that was set last, applied to all events. */
  function uniform(): LatencyChange[] {
    return [{ ...latency.at(-1)!, fromIndex: 0 }];
  }

  function laidOut(latency: readonly LatencyChange[]): Schedule {
    const settings = { latency, maxGapNs, timeoutNs, clocks: aligned };
    return createSchedule(recorded, { ...settings, ...(markEvents && { markEvents }) });
  }

  function checkSpan(addedNs: number): void {
    if (spanNs + eventCount * addedNs <= SPAN_NS_MAX) return;
    const isShifted = nodes.some((node) => offsetOf(clockOffsetsNs, node) !== 0n);
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
      survey?.timeoutRecorded === null || survey === null ? null : recorded.keyAt(survey.timeoutRecorded).event_id;
    return {
      eventCount,
      firstTimestampNs,
      recordedDurationNs: survey?.recordedDurationNs ?? ownSpanNs,
      latency,
      survey: survey && { durationNs: survey.durationNs, endNs: survey.endNs, timeoutEventId },
      clocks,
    };
  }

  function page(index: number, limit: number, memory?: ArrayBuffer): PlanPage {
    const projected = schedule.page(index, limit);
    const { first, count } = projected;
    const ends = new Uint32Array(count);
    const pieces = bodies.gather(projected.recorded.subarray(0, count), ends);
    const isLast = count < limit || (schedule.survey !== null && first + count === eventCount);
    return { first, count, isLast, ...packed(projected, pieces, ends, memory) };
  }

  // A replay most likely starts with the first event, so its chunk is read ahead.
  bodies.readAhead(0);
  return {
    outline,
    advance,
    page,
    place(target) {
      const layout = coming ?? schedule;
      const place = placeIn({ recordings, recorded, schedule: layout, eventCount, lastEndNs }, target);
      schedule = layout;
      if (coming) latency = uniform();
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
      if (fromIndex === 0) schedule = laidOut(latency);
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
      while (merge.next(MEASURED_EVENTS).count > 0) yield;
      return merge.endNs;
    },
    layOutAnew() {
      if (latency.length === 1) return false;
      coming = laidOut(uniform());
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
  shiftOf: (node: string) => bigint;
  firstTimestampNs: bigint;
  lastEndNs: bigint;
}

/** The span of all events on the common line, or more if that fits as well. */
function spanOf(recordings: Recordings, transactionId: string, spanned: Spanned): number {
  const { nodes, shiftOf, firstTimestampNs, lastEndNs } = spanned;
  const shiftNs = nodes.map(shiftOf).reduce(max, 0n);
  const mostNs = Number(lastEndNs - firstTimestampNs + shiftNs);
  return mostNs <= SPAN_NS_MAX ? mostNs : Number(alignedSpan(recordings, transactionId, nodes, shiftOf));
}

/** On the common line, the first recorded event starts at 0. */
function alignedClocks(recorded: Recorded, shiftOf: (node: string) => bigint): AlignedClocks {
  const zeroNs = recorded.firstTimestampNs + shiftOf(recorded.threads[0]!.node);
  return {
    shiftNs: (node) => Number(recorded.startOf(node) + shiftOf(node) - zeroNs),
    frontShiftNs(node) {
      // Other nodes are shifted by 0 or more, and their events are recorded later.
      const shiftNs = Number(recorded.startOf(node) - zeroNs);
      return Number.isSafeInteger(shiftNs) ? shiftNs : Number.NEGATIVE_INFINITY;
    },
  };
}

/** Memory is used again for a page that is no less than this part of it. */
const FITS = 1 / 4;
/** Memory that is new has room for a page that is larger by this. */
const SPARE = 1.25;

/**
 * Puts the columns of a page into one piece of memory, which is transferred to another thread without a copy. Memory
 * that is used again saves the garbage collectors of both threads most of their work.
 */
function packed(
  projected: ProjectedPage,
  pieces: readonly Uint8Array[],
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
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return { startNs, durationNs, isOwn, bytes, ends: packedEnds };
}
