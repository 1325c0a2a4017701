/**
 * The replay's own time line. Extra latency lengthens every event and moves each later event of the same thread back by
 * the sum added before it on that thread:
 *
 *   recorded   thread 1  |--a--|   |-c-|          extra latency ==
 *              thread 2      |-b-|    |--d--|
 *
 *   projected  thread 1  |--a--==|   |-c-==|      c starts 1 == later, ends 2 == later
 *              thread 2      |-b-==|    |--d--==|
 *
 * Within a thread the order stays what it was, so the projected order is a merge of threads: by projected start, ties by
 * recorded order. At last, gaps in which no event is under way are cut down to the longest that is wanted.
 *
 * A thread is a lane: a place in the recorded order and what has been added to it. Lanes drift apart, so each reads on
 * from where it is; a front goes ahead of all and finds the threads that have not had an event yet.
 */
import { createHeap, type HeapItem } from '../clock/heap.ts';
import type { Recorded, RecordedPage } from './recorded.ts';

/** From an event on, in projected order. */
export interface LatencyChange {
  fromIndex: number;
  extraLatencyNs: number;
}

export interface MergeSettings {
  /** By index, the first from 0. */
  latency: readonly LatencyChange[];
  /** Null: as they were. */
  maxGapNs: number | null;
  /** What is added to the times of a node, so that all clocks are one; at least 0. */
  clockShiftNs: (node: string) => number;
}

/** Some neighbouring events of the projected order. */
export interface ProjectedPage {
  first: number;
  count: number;
  /** Index in recorded order. */
  recorded: Uint32Array;
  /** From the first event's start. */
  startNs: Float64Array;
  /** With what was added to it. */
  durationNs: Float64Array;
  /** 1: its caller waited for it. */
  isOwn: Uint8Array;
}

/** Where a merge stands between two events: what it needs to go on from there. */
export interface MergeState {
  index: number;
  /** Threads of recorded events before it have been found. */
  front: number;
  /** Of the first event, before anything was taken off. */
  originNs: number | null;
  /** The latest end so far, before anything was taken off. */
  endNs: number;
  /** The latest end of an own event so far, with what was taken off by then. */
  ownEndNs: number;
  /** Likewise as recorded. */
  recordedOwnEndNs: number;
  /** Taken off by shortened gaps so far. */
  cutNs: number;
  /** Of each lane that is not just as a new one would be: thread, next recorded index or -1, nanoseconds added. */
  lanes: Float64Array;
}

export const LANE_FIELDS = 3;

export interface Merge {
  readonly index: number;
  /** The latest end of the events given so far, from the first event's start. */
  readonly endNs: number;
  /** The latest end of the transaction's own events, which its caller waited for; 0 when there are none. */
  readonly ownEndNs: number;
  /** Likewise, as recorded: by one clock, without latency and with all gaps. */
  readonly recordedOwnEndNs: number;
  /** Makes a page of at most so many events; with none behind the last one. */
  next(limit: number): ProjectedPage;
  state(): MergeState;
}

interface Lane extends HeapItem {
  thread: number;
  /** Its next event; -1: behind the front. */
  recorded: number;
  startNs: number;
  /** Of its node's clock. */
  clockShiftNs: number;
  /** With the latency that has been added. */
  shiftNs: number;
}

export const START: MergeState = {
  index: 0,
  front: 0,
  originNs: null,
  endNs: 0,
  ownEndNs: 0,
  recordedOwnEndNs: 0,
  cutNs: 0,
  lanes: new Float64Array(),
};

export function emptyPage(first: number, limit: number): ProjectedPage {
  const [startNs, durationNs] = [new Float64Array(limit), new Float64Array(limit)];
  return { first, count: 0, recorded: new Uint32Array(limit), startNs, durationNs, isOwn: new Uint8Array(limit) };
}

export function createMerge(recorded: Recorded, settings: MergeSettings, from: MergeState): Merge {
  const { latency, maxGapNs, clockShiftNs } = settings;
  const { pageEvents } = recorded;
  const pageOf = (index: number) => Math.floor(index / pageEvents);
  const heap = createHeap<Lane>(
    (a, b) => a.startNs < b.startNs || (a.startNs === b.startNs && a.recorded < b.recorded),
  );
  const lanes = new Map<number, Lane>();
  const clockShifts = new Map<string, number>();
  let { index, front, originNs, endNs, ownEndNs, recordedOwnEndNs, cutNs } = from;
  let frontPage: RecordedPage | undefined;
  let latencyAt = latency.findLastIndex(({ fromIndex }) => fromIndex <= index);

  for (let at = 0; at < from.lanes.length; at += LANE_FIELDS) {
    const [thread, next, shiftNs] = from.lanes.subarray(at, at + LANE_FIELDS) as unknown as [number, number, number];
    const lane = { slot: -1, thread, recorded: -1, startNs: 0, clockShiftNs: clockShiftOf(thread), shiftNs };
    lanes.set(thread, lane);
    if (next >= 0) enter(lane, next, recorded.page(pageOf(next))!);
  }

  function clockShiftOf(thread: number): number {
    const { node } = recorded.threads[thread]!;
    let shiftNs = clockShifts.get(node);
    if (shiftNs === undefined) {
      shiftNs = clockShiftNs(node);
      clockShifts.set(node, shiftNs);
    }
    return shiftNs;
  }

  function enter(lane: Lane, next: number, page: RecordedPage): void {
    lane.recorded = next;
    lane.startNs = page.startNs[next - page.first]! + lane.shiftNs;
    if (lane.slot < 0) heap.push(lane);
    else heap.moved(lane);
  }

  function laneOf(thread: number): Lane {
    let lane = lanes.get(thread);
    if (!lane) {
      const shiftNs = clockShiftOf(thread);
      lane = { slot: -1, thread, recorded: -1, startNs: 0, clockShiftNs: shiftNs, shiftNs };
      lanes.set(thread, lane);
    }
    return lane;
  }

  /** Brings the front behind every recorded event that may be next. */
  function advanceFront(): void {
    for (;;) {
      if (!frontPage || front >= frontPage.first + frontPage.count || front < frontPage.first)
        frontPage = recorded.page(pageOf(front));
      if (!frontPage || front >= frontPage.first + frontPage.count) return;
      const row = front - frontPage.first;
      const nearest = heap.peek();
      // With nothing added it would not start later than as recorded.
      if (nearest && nearest.startNs < frontPage.startNs[row]!) return;
      const lane = laneOf(frontPage.thread[row]!);
      if (lane.recorded < 0) enter(lane, front, frontPage);
      front++;
    }
  }

  /** To the lane's next event, if the front has come by it. */
  function advance(lane: Lane, page: RecordedPage): void {
    const inPage = page.nextRow[lane.recorded - page.first]!;
    let next = inPage > 0 ? page.first + inPage : -1;
    let nextPage = page;
    if (next < 0 && (pageOf(lane.recorded) + 1) * pageEvents < front) {
      const number = pageBehind(recorded.pagesOf(lane.thread), pageOf(lane.recorded));
      if (number !== undefined && number * pageEvents < front) {
        nextPage = recorded.page(number)!;
        next = nextPage.first + nextPage.firstRow.get(lane.thread)!;
      }
    }
    if (next >= 0 && next < front) enter(lane, next, nextPage);
    else {
      lane.recorded = -1;
      heap.remove(lane);
    }
  }

  function next(limit: number): ProjectedPage {
    const page = emptyPage(index, limit);
    while (page.count < limit) {
      advanceFront();
      const lane = heap.peek();
      if (!lane) break;
      while (latencyAt + 1 < latency.length && latency[latencyAt + 1]!.fromIndex <= index) latencyAt++;
      const { extraLatencyNs } = latency[latencyAt]!;
      const recordedPage = recorded.page(pageOf(lane.recorded))!;
      const row = lane.recorded - recordedPage.first;
      const durationNs = recordedPage.durationNs[row]! + extraLatencyNs;
      originNs ??= lane.startNs;
      const recordedEndNs = recordedPage.startNs[row]! + lane.clockShiftNs + recordedPage.durationNs[row]! - originNs;
      const isOwn = recordedPage.isOwn[row] === 1;
      if (isOwn && recordedEndNs > recordedOwnEndNs) recordedOwnEndNs = recordedEndNs;
      const startNs = lane.startNs - originNs;
      if (maxGapNs !== null && startNs - endNs > maxGapNs) cutNs += startNs - endNs - maxGapNs;
      // The gap is gone: what comes next is not to find it again.
      if (startNs > endNs) endNs = startNs;
      if (startNs + durationNs > endNs) endNs = startNs + durationNs;
      // Gaps behind this event take nothing off its end: they begin after all that is under way.
      if (isOwn && startNs - cutNs + durationNs > ownEndNs) ownEndNs = startNs - cutNs + durationNs;
      const at = page.count++;
      page.isOwn[at] = isOwn ? 1 : 0;
      page.recorded[at] = lane.recorded;
      page.startNs[at] = startNs - cutNs;
      page.durationNs[at] = durationNs;
      lane.shiftNs += extraLatencyNs;
      advance(lane, recordedPage);
      index++;
    }
    return page;
  }

  function state(): MergeState {
    const kept: number[] = [];
    for (const { thread, recorded: next, clockShiftNs, shiftNs } of lanes.values())
      if (next >= 0 || shiftNs !== clockShiftNs) kept.push(thread, next, shiftNs);
    return { index, front, originNs, endNs, ownEndNs, recordedOwnEndNs, cutNs, lanes: Float64Array.from(kept) };
  }

  return {
    get index() {
      return index;
    },
    get endNs() {
      return endNs - cutNs;
    },
    get ownEndNs() {
      return ownEndNs;
    },
    get recordedOwnEndNs() {
      return recordedOwnEndNs;
    },
    next,
    state,
  };
}

/** The first of the ascending numbers that is larger. */
function pageBehind(numbers: readonly number[], number: number): number | undefined {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numbers[middle]! > number) high = middle;
    else low = middle + 1;
  }
  return numbers[low];
}
