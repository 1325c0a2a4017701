/** What a session plays, from the recording to the bytes that are sent, made where nobody waits for the clock. */
import { wholeEndOf } from '../../../agent/recording/read/transactions.ts';
import { Problem } from '../../problem.ts';
import type { Store } from '../../store/store.ts';
import type { SeekTarget } from '../target.ts';
import { type Chunk, createBodies } from './bodies.ts';
import { type ClockOffsets, checkNodes, clockShifts, clocksOf, type ReplayedClock } from './clock_offsets.ts';
import type { LatencyChange } from './merge.ts';
import type { PageCache } from './page_cache.ts';
import { placeIn, type SeekResult } from './places.ts';
import { type RecordedPage, readRecorded, SPAN_NS_MAX } from './recorded.ts';
import { createSchedule, type Schedule } from './schedule.ts';

export interface PlanRequest {
  transactionId: string;
  /** By index, the first from 0. */
  latency: readonly LatencyChange[];
  timeoutNs: number | null;
  maxGapNs: number | null;
  clockOffsetsNs: ClockOffsets;
}

/** What is known of a plan by now. */
export interface Outline {
  /** As the recording's index has it, until all events have been gone through. */
  eventCount: number;
  firstTimestampNs: bigint;
  /** From the first start to the last end of its own; as the nodes' clocks have it, until all have been gone through. */
  recordedDurationNs: number;
  /** As the events are laid out: a plan that is opened with it is the same. */
  latency: readonly LatencyChange[];
  /** Null until all events have been gone through. */
  survey: { durationNs: number; endNs: number; timeoutEventId: string | null } | null;
  /** Of each node. */
  clocks: readonly ReplayedClock[];
}

/** Neighbouring events of the projected order. */
export interface PlanPage {
  first: number;
  count: number;
  /** Nothing comes behind it. */
  isLast: boolean;
  /** From the first event's start. */
  startNs: Float64Array;
  /** With what was added. */
  durationNs: Float64Array;
  /** 1: its caller waited for it. */
  isOwn: Uint8Array;
  /** The events as JSON, and where each ends. */
  bytes: Buffer;
  ends: Uint32Array;
}

/** A plan, made step by step: nothing in it waits. */
export interface PlanWork {
  outline(): Outline;
  /** Goes through some more events; false when nothing is left to be done. */
  advance(): boolean;
  page(index: number, limit: number): PlanPage;
  /** Null: past the end. Before the start is the start. Only when all events have been gone through. */
  place(target: SeekTarget): SeekResult | null;
  /** From an event on. */
  changeLatency(fromIndex: number, extraLatencyNs: number): void;
  /**
   * Begins to lay all events out with the latency that was set last; false when they are. The next `place` is one of
   * the new layout, and the old one is gone.
   */
  layOutAnew(): boolean;
  close(): void;
}

export interface PlanCaches {
  recorded: PageCache<RecordedPage>;
  bodies: PageCache<Chunk>;
}

/** Left out: what is best for large transactions. */
export interface PlanSizes {
  pageEvents?: number;
  markEvents?: number;
}

/** Gone through at once, and between two looks at the clock. */
const SLICE_MS = 1;
const SLICE_EVENTS = 32;

/** Throws a Problem when the transaction is not there, or cannot be played. */
export function openPlan(
  store: Store,
  request: PlanRequest,
  caches: PlanCaches,
  { pageEvents, markEvents }: PlanSizes = {},
): PlanWork {
  const { transactionId, timeoutNs, maxGapNs, clockOffsetsNs } = request;
  let { latency } = request;
  checkNodes(clockOffsetsNs, store);
  const recorded = readRecorded(store, transactionId, caches.recorded, pageEvents);
  // After the snapshot was taken, so that it knows every node in there.
  const summary = store.transaction(transactionId);
  const bodies = createBodies(store, transactionId, recorded, caches.bodies);
  const firstTimestampNs = recorded.firstTimestampNs;
  let eventCount = Math.max(summary?.eventCount ?? 0, recorded.known);
  const lastEndNs = summary ? wholeEndOf(summary) : firstTimestampNs;
  /** The span of all events, by the nodes' own clocks. */
  const recordedSpanNs = Number(lastEndNs - firstTimestampNs);
  const ownSpanNs = Number((summary?.lastEndNs ?? firstTimestampNs) - firstTimestampNs);
  const nodes = summary?.nodes ?? store.nodes();
  const clockShiftNs = clockShifts(clockOffsetsNs, nodes);
  const clocks = clocksOf(store, clockOffsetsNs, nodes, [firstTimestampNs, lastEndNs]);
  for (const { extraLatencyNs } of latency) checkSpan(extraLatencyNs);
  let schedule = laidOut(latency);
  /** Laid out anew. */
  let coming: Schedule | null = null;

  /** The latency that was set last, for all events. */
  function uniform(): LatencyChange[] {
    return [{ ...latency.at(-1)!, fromIndex: 0 }];
  }

  function laidOut(latency: readonly LatencyChange[]): Schedule {
    const settings = { latency, maxGapNs, timeoutNs, clockShiftNs };
    return createSchedule(recorded, { ...settings, ...(markEvents && { markEvents }) });
  }

  function checkSpan(addedNs: number): void {
    const shiftNs = Math.max(...nodes.map(clockShiftNs));
    if (recordedSpanNs + shiftNs + eventCount * addedNs <= SPAN_NS_MAX) return;
    const message = `the replay would take longer than 104 days, the most that a session can play`;
    const cause = addedNs > 0 ? 'extra_latency_ns' : shiftNs > 0 ? 'clock_offsets_ns' : 'transaction_id';
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

  function page(index: number, limit: number): PlanPage {
    const projected = schedule.page(index, limit);
    const { first, count, startNs, durationNs, isOwn } = projected;
    const pieces = Array.from({ length: count }, (_, at) => bodies.read(projected.recorded[at]!));
    const ends = new Uint32Array(count);
    let length = 0;
    for (const [at, piece] of pieces.entries()) {
      length += piece.length;
      ends[at] = length;
    }
    // Its own memory, which is given away.
    const bytes = Buffer.allocUnsafeSlow(length);
    for (const [at, piece] of pieces.entries()) piece.copy(bytes, at === 0 ? 0 : ends[at - 1]);
    const isLast = count < limit || (schedule.survey !== null && first + count === eventCount);
    return { first, count, isLast, startNs, durationNs, isOwn, bytes, ends };
  }

  // It is played from the start, most likely.
  bodies.read(0);
  return {
    outline,
    advance,
    page,
    place(target) {
      const layout = coming ?? schedule;
      const place = placeIn({ store, recorded, schedule: layout, eventCount, recordedSpanNs }, target);
      schedule = layout;
      if (coming) latency = uniform();
      coming = null;
      return place;
    },
    changeLatency(fromIndex, extraLatencyNs) {
      checkSpan(Math.max(extraLatencyNs, latency.at(-1)!.extraLatencyNs));
      coming = null;
      const change = { fromIndex, extraLatencyNs };
      latency = [...latency.filter((earlier) => earlier.fromIndex < fromIndex), change];
      if (fromIndex === 0) schedule = laidOut(latency);
      else schedule.changeLatency(change);
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
