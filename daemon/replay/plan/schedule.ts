/**
 * Computes when each event of a transaction is played. The survey, one pass over all events in slices, computes the
 * duration and saves marks at intervals. A mark is the state of the computation before an event, so that the events
 * after it can be computed again.
 */
import { findFirstPlace } from '../../base/binary_search.ts';
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
import type { RecordedEvents } from './recorded.ts';

/** Initial number of events between two marks. */
const MARK_EVENTS = 4096;
/** Maximum count of numbers in the lanes of all marks: 16 MB. Above this limit, every other mark is dropped. */
const MARK_NUMBERS_MAX = 2_000_000;
/** Number of events that are merged at once on the way from a mark to a later event. */
const STRIDE_EVENTS = 1024;

/** Number of readers kept: for the session that plays, for a client that lists the timeline, and spare ones. */
const READERS_MAX = 4;

/** The results of the survey of all events. */
export interface Survey {
  eventCount: number;
  /** The span from the first start to the last end of the own events, which the transaction's caller waited for. */
  durationNs: number;
  /** The end of the event that ends last, counted from the start of the first event. */
  endNs: number;
  /** `durationNs` as recorded: without extra latency and with unshortened gaps. */
  recordedDurationNs: number;
  /** Index of the first own event that ends after the timeout; null if no own event does. */
  timeoutIndex: number | null;
  /** Recorded index of the same event; null if `timeoutIndex` is null. */
  timeoutRecorded: number | null;
}

export interface Schedule {
  /** Number of events surveyed so far. */
  readonly surveyed: number;
  /** Result of the survey; null until all events are surveyed. */
  readonly survey: Survey | null;
  /** Surveys this many more events. */
  advance(events: number): void;
  /**
   * Returns a page of the schedule, even if its events are not surveyed yet. Reading consecutive pages is the fastest.
   */
  projectPage(index: number, limit: number): ProjectedPage;
  /**
   * Finds the first event that starts at or after a position; returns the event count if there is none. Needs the
   * survey.
   */
  indexAtPosition(positionNs: number): number;
  /** Finds the projected index of an event by its recorded index. Needs the survey. */
  indexOfRecorded(recorded: number): number;
  /** Changes the latency or the gaps from the event with this index on; earlier events stay as they are. */
  changeLatency(change: LatencyChange): void;
  /** Changes the deadline. No event moves, but all events are surveyed again. */
  changeTimeout(timeoutNs: number | null): void;
}

interface ScheduleMark extends MergeState {
  startNs: number;
}

export interface ScheduleSettings extends MergeSettings {
  timeoutNs: number | null;
  /** Initial number of events between two marks. */
  markEvents?: number;
}

export function createSchedule(recorded: RecordedEvents, given: ScheduleSettings): Schedule {
  let settings = given;
  let marks: ScheduleMark[] = [];
  let markEvents = given.markEvents ?? MARK_EVENTS;
  let markNumbers = 0;
  let surveying: Merge = createMerge(recorded, settings, START);
  /** Merges that served earlier pages and can continue with the next page; the most recently used one is the last. */
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
      const page = surveying.mergePage(Math.min(left, markEvents - (surveying.index % markEvents), STRIDE_EVENTS));
      if (page.count === 0) {
        finish();
        return;
      }
      if (state) mark(state, page.startNs[0]!);
      if (!timeout) timeout = findTimeout(page, settings.timeoutNs);
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

  /** Finds the last mark for which `isBefore` holds. `isBefore` must also hold for all earlier marks. */
  function markBefore(isBefore: (mark: ScheduleMark) => boolean): MergeState {
    const behind = findFirstPlace(0, marks.length, (at) => !isBefore(marks[at]!));
    return marks[behind - 1] ?? START;
  }

  function mergeFrom(index: number): Merge {
    const merge = createMerge(
      recorded,
      settings,
      markBefore((mark) => mark.index <= index),
    );
    while (merge.index < index) if (merge.mergePage(Math.min(index - merge.index, STRIDE_EVENTS)).count === 0) break;
    return merge;
  }

  /** Resumes a merge from a state, and returns the index of the first event for which `isFound` holds. */
  function search(from: MergeState, isFound: (page: ProjectedPage, at: number) => boolean): number {
    const merge = createMerge(recorded, settings, from);
    for (;;) {
      const page = merge.mergePage(STRIDE_EVENTS);
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
    projectPage(index, limit) {
      const reader = readers.find((merge) => merge.index === index) ?? mergeFrom(index);
      readers = [...readers.filter((other) => other !== reader), reader].slice(-READERS_MAX);
      return reader.mergePage(limit);
    },
    indexAtPosition(positionNs) {
      const from = markBefore((mark) => mark.startNs < positionNs);
      return search(from, ({ startNs }, at) => startNs[at]! >= positionNs);
    },
    indexOfRecorded(wanted) {
      const thread = readThreadNumber(recorded, wanted);
      const from = markBefore((mark) => !isGiven(mark, thread, wanted));
      return search(from, (page, at) => page.recorded[at] === wanted);
    },
    changeLatency(change) {
      const before = settings.latency.filter(({ fromIndex }) => fromIndex < change.fromIndex);
      settings = { ...settings, latency: [...before, change] };
      marks = marks.filter(({ index }) => index <= change.fromIndex);
      markNumbers = marks.reduce((sum, { lanes }) => sum + lanes.length + LANE_FIELDS, 0);
      const from = marks.at(-1) ?? START;
      // The survey resumes at the last mark and will save that mark again.
      marks.pop();
      markNumbers -= from.lanes.length + LANE_FIELDS;
      surveying = createMerge(recorded, settings, from);
      readers = [];
      survey = null;
      if (timeout && timeout.index >= from.index) timeout = undefined;
    },
    changeTimeout(timeoutNs) {
      settings = { ...settings, timeoutNs };
      [marks, markNumbers] = [[], 0];
      surveying = createMerge(recorded, settings, START);
      survey = null;
      timeout = undefined;
    },
  };
}

function readThreadNumber(recorded: RecordedEvents, index: number): number {
  const { first, thread } = recorded.readPage(Math.floor(index / recorded.pageEvents))!;
  return thread[index - first]!;
}

/** Whether a thread's event comes before the mark in projected order. */
function isGiven({ front, lanes }: ScheduleMark, thread: number, recorded: number): boolean {
  for (let at = 0; at < lanes.length; at += LANE_FIELDS) {
    if (lanes[at] !== thread) continue;
    const next = lanes[at + 1]!;
    return next >= 0 ? recorded < next : recorded < front;
  }
  return recorded < front;
}

function findTimeout(page: ProjectedPage, timeoutNs: number | null): { index: number; recorded: number } | undefined {
  if (timeoutNs === null) return undefined;
  for (let at = 0; at < page.count; at++)
    if (page.isOwn[at] === 1 && page.startNs[at]! + page.durationNs[at]! > timeoutNs)
      return { index: page.first + at, recorded: page.recorded[at]! };
  return undefined;
}
