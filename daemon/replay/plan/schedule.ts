/**
 * When each event of a transaction is played. The projected order is gone through once, in slices, to learn how long it
 * takes and to leave marks on the way; from a mark any part of it is made again.
 */
import {
  createMerge,
  LANE_FIELDS,
  type LatencyChange,
  type Merge,
  type MergeSettings,
  type MergeState,
  type ProjectedPage,
  START,
} from './merge.ts';
import { lowerBound, type Recorded } from './recorded.ts';

/** Events between two marks, at first. */
const MARK_EVENTS = 4096;
/** Numbers that the marks' lanes may have together: 16 MB. Beyond, every other mark is given up. */
const MARK_NUMBERS_MAX = 2_000_000;
/** Events made at once on the way to a place. */
const STRIDE_EVENTS = 1024;

/** Who plays it, who looks at all of it, and one more. */
const READERS_MAX = 4;

/** What is known when all has been gone through. */
export interface Survey {
  eventCount: number;
  /** From the first start to the last end of an event of its own, which its caller waited for. */
  durationNs: number;
  /** From the first start to the last end of all. */
  endNs: number;
  /** As the duration, without latency and with all gaps. */
  recordedDurationNs: number;
  /** The index of the first own event that ends after the timeout; null when all are in time. */
  timeoutIndex: number | null;
  /** In recorded order. */
  timeoutRecorded: number | null;
}

export interface Schedule {
  /** Events gone through so far. */
  readonly surveyed: number;
  /** Null until all is gone through. */
  readonly survey: Survey | null;
  /** Goes through so many more. */
  advance(events: number): void;
  /** Any part, gone through or not. Parts that follow each other are the quickest. */
  page(index: number, limit: number): ProjectedPage;
  /** The first event that starts at a position or behind it; the event count when there is none. Needs the survey. */
  indexAtPosition(positionNs: number): number;
  /** Where a recorded event is in projected order. Needs the survey. */
  indexOfRecorded(recorded: number): number;
  /** From the event with this index on, everything takes so much longer; what comes before stays as it is. */
  changeLatency(change: LatencyChange): void;
}

interface Mark extends MergeState {
  startNs: number;
}

export interface ScheduleSettings extends MergeSettings {
  timeoutNs: number | null;
  /** Events between two marks, at first. */
  markEvents?: number;
}

export function createSchedule(recorded: Recorded, given: ScheduleSettings): Schedule {
  let settings = given;
  let marks: Mark[] = [];
  let markEvents = given.markEvents ?? MARK_EVENTS;
  let markNumbers = 0;
  let surveying: Merge = createMerge(recorded, settings, START);
  /** Readers that come back for what follows; the last one that came is the last. */
  let readers: Merge[] = [];
  let survey: Survey | null = null;
  let timeout: { index: number; recorded: number } | undefined;

  function mark(state: MergeState, startNs: number): void {
    marks.push({ ...state, startNs });
    markNumbers += state.lanes.length + LANE_FIELDS;
    while (markNumbers > MARK_NUMBERS_MAX && marks.length > 1) {
      markEvents *= 2;
      marks = marks.filter(({ index }) => index % markEvents === 0);
      markNumbers = marks.reduce((sum, { lanes }) => sum + lanes.length + LANE_FIELDS, 0);
    }
  }

  function advance(events: number): void {
    for (let left = events; left > 0 && !survey; ) {
      const state = surveying.index % markEvents === 0 ? surveying.state() : undefined;
      const page = surveying.next(Math.min(left, markEvents - (surveying.index % markEvents), STRIDE_EVENTS));
      if (page.count === 0) {
        finish();
        return;
      }
      if (state) mark(state, page.startNs[0]!);
      if (!timeout) timeout = timeoutIn(page, settings.timeoutNs);
      left -= page.count;
    }
  }

  function finish(): void {
    survey = {
      eventCount: surveying.index,
      durationNs: surveying.ownEndNs,
      endNs: surveying.endNs,
      recordedDurationNs: surveying.recordedOwnEndNs,
      timeoutIndex: timeout?.index ?? null,
      timeoutRecorded: timeout?.recorded ?? null,
    };
  }

  /** The last mark for which `isBefore`, which holds for all before it. */
  function markBefore(isBefore: (mark: Mark) => boolean): MergeState {
    const behind = lowerBound(marks.length, (at) => !isBefore(marks[at]!));
    return marks[behind - 1] ?? START;
  }

  function mergeFrom(index: number): Merge {
    const merge = createMerge(
      recorded,
      settings,
      markBefore((mark) => mark.index <= index),
    );
    while (merge.index < index) if (merge.next(Math.min(index - merge.index, STRIDE_EVENTS)).count === 0) break;
    return merge;
  }

  /** Goes on from a state; gives the first event for which `isFound`. */
  function search(from: MergeState, isFound: (page: ProjectedPage, at: number) => boolean): number {
    const merge = createMerge(recorded, settings, from);
    for (;;) {
      const page = merge.next(STRIDE_EVENTS);
      for (let at = 0; at < page.count; at++) if (isFound(page, at)) return page.first + at;
      if (page.count < STRIDE_EVENTS) return merge.index;
    }
  }

  return {
    get surveyed() {
      return surveying.index;
    },
    get survey() {
      return survey;
    },
    advance,
    page(index, limit) {
      const reader = readers.find((merge) => merge.index === index) ?? mergeFrom(index);
      readers = [...readers.filter((other) => other !== reader), reader].slice(-READERS_MAX);
      return reader.next(limit);
    },
    indexAtPosition(positionNs) {
      const from = markBefore((mark) => mark.startNs < positionNs);
      return search(from, ({ startNs }, at) => startNs[at]! >= positionNs);
    },
    indexOfRecorded(wanted) {
      const thread = threadOf(recorded, wanted);
      const from = markBefore((mark) => !isGiven(mark, thread, wanted));
      return search(from, (page, at) => page.recorded[at] === wanted);
    },
    changeLatency(change) {
      const before = settings.latency.filter(({ fromIndex }) => fromIndex < change.fromIndex);
      settings = { ...settings, latency: [...before, change] };
      marks = marks.filter(({ index }) => index <= change.fromIndex);
      markNumbers = marks.reduce((sum, { lanes }) => sum + lanes.length + LANE_FIELDS, 0);
      const from = marks.at(-1) ?? START;
      // The last mark is made again with what comes next.
      marks.pop();
      markNumbers -= from.lanes.length + LANE_FIELDS;
      surveying = createMerge(recorded, settings, from);
      readers = [];
      survey = null;
      if (timeout && timeout.index >= from.index) timeout = undefined;
    },
  };
}

function threadOf(recorded: Recorded, index: number): number {
  const { first, thread } = recorded.page(Math.floor(index / recorded.pageEvents))!;
  return thread[index - first]!;
}

/** Whether a thread's event comes before the mark. */
function isGiven({ front, lanes }: Mark, thread: number, recorded: number): boolean {
  for (let at = 0; at < lanes.length; at += LANE_FIELDS) {
    if (lanes[at] !== thread) continue;
    const next = lanes[at + 1]!;
    return next >= 0 ? recorded < next : recorded < front;
  }
  return recorded < front;
}

function timeoutIn(page: ProjectedPage, timeoutNs: number | null): { index: number; recorded: number } | undefined {
  if (timeoutNs === null) return undefined;
  for (let at = 0; at < page.count; at++)
    if (page.isOwn[at] === 1 && page.startNs[at]! + page.durationNs[at]! > timeoutNs)
      return { index: page.first + at, recorded: page.recorded[at]! };
  return undefined;
}
