/**
 * Computes the replay's time line. Extra latency lengthens calls. It also delays each later event of the same thread by
 * the sum of the latencies added before on that thread:
 *
 *   recorded   thread 1  |--a--|   |-c-|          extra latency ==
 *              thread 2      |-b-|    |--d--|
 *
 *   projected  thread 1  |--a--==|   |-c-==|      c starts 1 == later, ends 2 == later
 *              thread 2      |-b-==|    |--d--==|
 *
 * How requests delay the call that queued them is described in `thread_delay.ts`.
 *
 * The order of events within a thread does not change. The projected order is therefore a merge of threads: by
 * projected start or, if starts are equal, by recorded order. Finally, gaps in which no event is under way are
 * shortened to the maximum gap.
 *
 * Each thread has a lane: a position in the recorded order, and the latency added so far. Lanes reach different
 * positions, so each lane reads on from its own position. The front is a position ahead of all lanes, and finds the
 * threads that had no event before.
 */

import { createHeap, type HeapItem } from '../../base/heap.ts';
import { createThreadDelay, goOn, type ThreadDelay, take } from '../../model/thread_delay.ts';
import { callDelays, findNextPage } from './call_delay.ts';
import type { OnlyFilter, RecordedEvents, RecordedPage } from './recorded.ts';

/** The layout settings that a change replaces, from an event on. */
export interface LayoutChange {
  extraLatencyNs: number;
  /** The events that get the latency; all calls if omitted. */
  only?: OnlyFilter | undefined;
  /** The maximum gap; null leaves gaps as recorded. If omitted, `maxGapNs` of the settings applies. */
  maxGapNs?: number | null | undefined;
}

/** The layout that applies from the event at `fromIndex` on, in projected order. */
export interface LatencyChange extends LayoutChange {
  fromIndex: number;
}

export interface MergeSettings {
  /** Sorted by index; the first entry has index 0. */
  latency: readonly LatencyChange[];
  /** The maximum gap for changes without `maxGapNs`; null leaves gaps as recorded. */
  maxGapNs: number | null;
  clocks: AlignedClocks;
}

/** Puts the times of all nodes onto one time line. Each node's times are counted from the node's first event. */
export interface AlignedClocks {
  shiftNs: (node: string) => number;
  /** Shift that turns an event's start into a lower bound for the starts of all later recorded events, on any node. */
  frontShiftNs: (node: string) => number;
}

/** Consecutive events in projected order. */
export interface ProjectedPage {
  first: number;
  count: number;
  /** The recorded index of each event. */
  recorded: Uint32Array;
  /** Offsets from the first event's start. */
  startNs: Float64Array;
  /** Durations including the extra latency. */
  durationNs: Float64Array;
  /** 1: the transaction's caller waited for the event. */
  isOwn: Uint8Array;
}

/** The state of a merge between two events, from which it can be resumed. */
export interface MergeState {
  index: number;
  /** Recorded index up to which all threads have been found. */
  front: number;
  /** Start of the first event; null before it is known. */
  originNs: number | null;
  /** The latest end so far, as if no gap were shortened. */
  endNs: number;
  /** The latest end of an own event so far, minus the time removed from the gaps before that event. */
  ownEndNs: number;
  /** The latest recorded end of an own event so far. */
  recordedOwnEndNs: number;
  /** Total time removed by shortened gaps so far. */
  cutNs: number;
  /** The lanes that differ from a new lane, each as the numbers of `encodeLane`. */
  lanes: Float64Array;
}

export const LANE_FIELDS = 9;

export interface Merge {
  readonly index: number;
  /** The latest end of the events returned so far, as an offset from the first event's start. */
  readonly endNs: number;
  /** The latest end so far of the transaction's own events, which its caller waited for; 0 if there is none. */
  readonly ownEndNs: number;
  /** `ownEndNs` as recorded: with aligned clocks, without latency and with all gaps. */
  readonly recordedOwnEndNs: number;
  /** Returns a page of at most `limit` events; the page is empty after the last event. */
  mergePage(limit: number): ProjectedPage;
  state(): MergeState;
}

interface MergedThread extends HeapItem {
  thread: number;
  /** Recorded index of the lane's next event; -1 while the front has not reached that event. */
  recorded: number;
  startNs: number;
  /** `shiftNs` and `frontShiftNs` of the lane's node. */
  clockShiftNs: number;
  frontShiftNs: number;
  /** The delay that latency has added so far. Its times are recorded times of the lane's node. */
  delay: ThreadDelay<number>;
  /**
   * Index of the latency change that applied when the lane's last call began. Requests within the call get that latency
   * too.
   */
  latencyAt: number;
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

export function createProjectedPage(first: number, limit: number): ProjectedPage {
  const startNs = new Float64Array(limit);
  const durationNs = new Float64Array(limit);
  return { first, count: 0, recorded: new Uint32Array(limit), startNs, durationNs, isOwn: new Uint8Array(limit) };
}

export function createMerge(recorded: RecordedEvents, settings: MergeSettings, from: MergeState): Merge {
  const { latency, clocks } = settings;
  const delays = callDelays(recorded, latency);
  const { pageEvents } = recorded;
  const computePageNumber = (index: number) => Math.floor(index / pageEvents);
  const heap = createHeap<MergedThread>(
    (a, b) => a.startNs < b.startNs || (a.startNs === b.startNs && a.recorded < b.recorded),
  );
  const lanes = new Map<number, MergedThread>();
  const clockShifts = new Map<string, { clockShiftNs: number; frontShiftNs: number }>();
  let { index, front, originNs, endNs, ownEndNs, recordedOwnEndNs, cutNs } = from;
  let frontPage: RecordedPage | undefined;
  /** Start of the last event that the front has passed. */
  let frontStartNs = 0;
  let latencyAt = latency.findLastIndex(({ fromIndex }) => fromIndex <= index);

  for (let at = 0; at < from.lanes.length; at += LANE_FIELDS) {
    const [thread, next, ...rest] = from.lanes.subarray(at, at + LANE_FIELDS);
    const lane = { ...findOrAddLane(thread!), ...decodeLane(rest) };
    lanes.set(thread!, lane);
    if (next! >= 0) enter(lane, next!, recorded.readPage(computePageNumber(next!))!);
  }

  function computeClockShifts(thread: number): { clockShiftNs: number; frontShiftNs: number } {
    const { node } = recorded.threads[thread]!;
    let shifts = clockShifts.get(node);
    if (shifts === undefined) {
      shifts = { clockShiftNs: clocks.shiftNs(node), frontShiftNs: clocks.frontShiftNs(node) };
      clockShifts.set(node, shifts);
    }
    return shifts;
  }

  function enter(lane: MergedThread, next: number, page: RecordedPage): void {
    lane.recorded = next;
    const row = next - page.first;
    const startNs = page.startNs[row]!;
    goOn(lane.delay, startNs, delays.isCallAt(page, row));
    lane.startNs = startNs + lane.clockShiftNs + lane.delay.added;
    if (lane.slot < 0) heap.push(lane);
    else heap.reorder(lane);
  }

  function findOrAddLane(thread: number): MergedThread {
    let lane = lanes.get(thread);
    if (!lane) {
      const place = { slot: -1, thread, recorded: -1, startNs: 0, ...computeClockShifts(thread) };
      lane = { ...place, delay: createThreadDelay(), latencyAt: 0 };
      lanes.set(thread, lane);
    }
    return lane;
  }

  /** Moves the front past every recorded event that may come next in projected order. */
  function advanceFront(): void {
    for (;;) {
      if (!frontPage || front >= frontPage.first + frontPage.count || front < frontPage.first)
        frontPage = recorded.readPage(computePageNumber(front));
      if (!frontPage || front >= frontPage.first + frontPage.count) return;
      const row = front - frontPage.first;
      const nearest = heap.peek();
      const lane = findOrAddLane(frontPage.thread[row]!);
      // The lanes contain the next event if its start is before the lower bound of all events from the front on.
      if (nearest && nearest.startNs < frontPage.startNs[row]! + lane.frontShiftNs) return;
      if (lane.recorded < 0) enter(lane, front, frontPage);
      frontStartNs = frontPage.startNs[row]!;
      front++;
    }
  }

  /** Moves a lane to its next event, if the front has passed that event. */
  function advance(lane: MergedThread, page: RecordedPage): void {
    const inPage = page.nextRow[lane.recorded - page.first]!;
    let next = inPage > 0 ? page.first + inPage : -1;
    let nextPage = page;
    if (next < 0 && (computePageNumber(lane.recorded) + 1) * pageEvents < front) {
      const number = findNextPage(recorded.getThreadPages(lane.thread), computePageNumber(lane.recorded));
      if (number !== undefined && number * pageEvents < front) {
        nextPage = recorded.readPage(number)!;
        next = nextPage.first + nextPage.firstRow.get(lane.thread)!;
      }
    }
    if (next >= 0 && next < front) enter(lane, next, nextPage);
    else {
      lane.recorded = -1;
      heap.remove(lane);
    }
  }

  function mergePage(limit: number): ProjectedPage {
    const page = createProjectedPage(index, limit);
    while (page.count < limit) {
      advanceFront();
      const lane = heap.peek();
      if (!lane) break;
      while (latencyAt + 1 < latency.length && latency[latencyAt + 1]!.fromIndex <= index) latencyAt++;
      const { maxGapNs = settings.maxGapNs } = latency[latencyAt]!;
      const recordedPage = recorded.readPage(computePageNumber(lane.recorded))!;
      const row = lane.recorded - recordedPage.first;
      const isCall = delays.isCallAt(recordedPage, row);
      // A call under way keeps the latency change with which it began.
      if (isCall || lane.delay.callEnd === null) lane.latencyAt = latencyAt;
      const ownNs = delays.computeAddedNs(lane.latencyAt, recordedPage.kind[row]!);
      const ownEndAtNs = recordedPage.startNs[row]! + recordedPage.durationNs[row]!;
      const hasBegun = lane.recorded >= recorded.firstOwn();
      if (hasBegun) take(lane.delay, ownEndAtNs, isCall, ownNs);
      const delayNs = isCall && hasBegun ? delays.computeCallDelayNs(lane, recordedPage, ownEndAtNs) : ownNs;
      const durationNs = recordedPage.durationNs[row]! + delayNs;
      originNs ??= lane.startNs;
      const recordedEndNs = ownEndAtNs + lane.clockShiftNs - originNs;
      const isOwn = recordedPage.isOwn[row] === 1;
      if (isOwn && recordedEndNs > recordedOwnEndNs) recordedOwnEndNs = recordedEndNs;
      const startNs = lane.startNs - originNs;
      if (maxGapNs !== null && startNs - endNs > maxGapNs) cutNs += startNs - endNs - maxGapNs;
      // The end moves past the gap, so that the next event does not shorten the same gap again.
      if (startNs > endNs) endNs = startNs;
      if (startNs + durationNs > endNs) endNs = startNs + durationNs;
      // Later gaps do not shorten this event: they begin after all events under way have ended.
      if (isOwn && startNs - cutNs + durationNs > ownEndNs) ownEndNs = startNs - cutNs + durationNs;
      const at = page.count++;
      page.isOwn[at] = isOwn ? 1 : 0;
      page.recorded[at] = lane.recorded;
      page.startNs[at] = startNs - cutNs;
      page.durationNs[at] = durationNs;
      advance(lane, recordedPage);
      index++;
    }
    return page;
  }

  function state(): MergeState {
    const numbers: number[] = [];
    for (const lane of lanes.values())
      if (lane.recorded >= 0 || hasEffect(lane.delay, frontStartNs)) numbers.push(...encodeLane(lane));
    return { index, front, originNs, endNs, ownEndNs, recordedOwnEndNs, cutNs, lanes: Float64Array.from(numbers) };
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
    mergePage,
    state,
  };
}

/** Whether later events of a lane depend on earlier events. Events after the front start at `frontStartNs` or later. */
function hasEffect(
  { added, callEnd, callAdded, runEnd, runAdded }: ThreadDelay<number>,
  frontStartNs: number,
): boolean {
  const goesOn = (endNs: number | null) => endNs !== null && endNs > frontStartNs;
  return added !== 0 || callAdded !== 0 || runAdded !== 0 || goesOn(callEnd) || goesOn(runEnd);
}

/** Encodes a lane as numbers: thread, next recorded index or -1, the latency change of its last call, and its delay. */
function encodeLane({ thread, recorded, latencyAt, delay }: MergedThread): number[] {
  const { added, callEnd, callAdded, runEnd, runFirstEnd, runAdded } = delay;
  return [thread, recorded, latencyAt, added, callEnd ?? -1, callAdded, runEnd ?? -1, runFirstEnd ?? -1, runAdded];
}

function decodeLane(numbers: readonly number[]): Pick<MergedThread, 'latencyAt' | 'delay'> {
  const [latencyAt, added, callEnd, callAdded, runEnd, runFirstEnd, runAdded] = numbers as [number, ...number[]];
  const time = (ns: number | undefined) => (ns! < 0 ? null : ns!);
  const [call, run] = [
    { callEnd: time(callEnd), callAdded: callAdded! },
    { runEnd: time(runEnd), runFirstEnd: time(runFirstEnd), runAdded: runAdded! },
  ];
  return { latencyAt, delay: { added: added!, ...call, ...run } };
}
