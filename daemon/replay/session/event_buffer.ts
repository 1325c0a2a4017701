/**
 * The loaded events of a session: the page at the session's position, and later pages requested ahead of time.
 *
 *   plan     . . . . . . [ page ][ page ][ asked for ] . . . .
 *   session                  ^ next event
 */

import type { PlanPage } from '../plan/plan.ts';
import type { ReplayPlan } from '../plan/planner.ts';

/** Target duration of a page, so that a slow session holds few events and a fast session sends few requests. */
const PAGE_NS = 50e6;
const PAGE_EVENTS_MIN = 64;
/** Maximum number of events in a page: a larger page would take too long to arrive. */
const PAGE_EVENTS_MAX = 1024;
/** Number of events in the first page, which is requested before the event rate is known. */
const PAGE_EVENTS_FIRST = 256;
/** Number of pages requested at once, so that the planner need not wait for this thread. */
const ASKED_MAX = 2;
/** Target duration of the loaded events. They must last for as long as the planner's thread may wait for a CPU. */
const AHEAD_NS = 1e9;
/** Maximum number of loaded events: about 25 MB. */
const AHEAD_EVENTS_MAX = 49_152;
/** Duration of the events that are loaded before the clock starts, and the maximum number of these events. */
const START_NS = 100e6;
const START_EVENTS_MAX = 16_384;

export interface EventBuffer {
  /** Returns the event's offset from the first event's start; undefined if the event is not loaded. */
  startNs(index: number): number | undefined;
  /** Returns the page that has the event; undefined if the event is not loaded. */
  page(index: number): PlanPage | undefined;
  /** Whether all events are before this index; false until that is known. */
  isEnd(index: number): boolean;
  /** The index after the last loaded event. */
  readonly end: number;
  /** Sets the position: drops pages before it and requests events after it. */
  moveTo(index: number): void;
  /** Resolves when the event and some later events are loaded, or are known not to exist. */
  waitUntilReady(index: number): Promise<void>;
  /** Drops the events from this index on, because the plan has changed. */
  forget(fromIndex: number): void;
}

export interface EventBufferOptions {
  plan: Pick<ReplayPlan, 'readPage'>;
  /** The current speed; 2 is twice as fast as recorded. */
  speedFactor: () => number;
  /** Called when a page has been loaded. */
  onPage: (page: PlanPage) => void;
  /** Called when reading a page fails. */
  onFailure: (error: unknown) => void;
}

export function createEventBuffer({ plan, speedFactor, onPage, onFailure }: EventBufferOptions): EventBuffer {
  let pages: PlanPage[] = [];
  /** Memory of a dropped page, which the next page may use. */
  let spare: ArrayBuffer | undefined;
  let place = 0;
  /** A page requested in an earlier epoch belongs to another plan or position, and is ignored. */
  let epoch = 0;
  /** The last requested page, and the number of requested pages that have not arrived. */
  let asked: Promise<void> | undefined;
  let askedCount = 0;
  /** Index after the last requested event. */
  let askedEnd: number | undefined;
  let failure: unknown;

  const end = () => (pages.length === 0 ? place : pages.at(-1)!.first + pages.at(-1)!.count);
  const isWhole = () => pages.at(-1)?.isLast ?? false;

  function findPage(index: number): PlanPage | undefined {
    // Hot path: pages.find() would allocate a closure per event.
    for (const page of pages) if (index >= page.first && index < page.first + page.count) return page;
    return undefined;
  }

  /** Estimates how many events fill a duration at the event rate of the last page. */
  function estimateEventCount(durationNs: number): number {
    const last = pages.at(-1);
    if (!last || last.count < 2) return PAGE_EVENTS_FIRST;
    const spanNs = (last.startNs[last.count - 1]! - last.startNs[0]!) / speedFactor();
    return Math.ceil((durationNs * last.count) / spanNs);
  }

  function ask(): void {
    // The event rate is unknown until the first page has arrived.
    const most = pages.length === 0 ? 1 : ASKED_MAX;
    while (askedCount < most && !failure && !isWhole()) {
      const limit = clamp(PAGE_EVENTS_MIN, estimateEventCount(PAGE_NS), PAGE_EVENTS_MAX);
      const from = askedEnd ?? end();
      if (pages.length > 0 && from - place > clamp(limit, estimateEventCount(AHEAD_NS), AHEAD_EVENTS_MAX)) return;
      askFor(from, limit);
    }
  }

  function askFor(from: number, limit: number): void {
    const mine = epoch;
    const memory = spare;
    spare = undefined;
    askedCount++;
    // Only the last page has fewer events than were requested.
    askedEnd = from + limit;
    asked = plan.readPage(from, limit, memory).then(
      (page) => {
        if (mine !== epoch) return;
        if (--askedCount === 0) asked = undefined;
        if (isWhole()) return;
        pages.push(page);
        ask();
        if (page.count > 0) onPage(page);
      },
      (error) => {
        if (mine !== epoch) return;
        renew();
        failure = error;
        onFailure(error);
      },
    );
  }

  function renew(): void {
    epoch++;
    asked = askedEnd = failure = undefined;
    askedCount = 0;
  }

  return {
    startNs(index) {
      const page = findPage(index);
      return page && page.startNs[index - page.first]!;
    },
    page: findPage,
    isEnd: (index) => isWhole() && index >= end(),
    get end() {
      return end();
    },
    moveTo(index) {
      const isNear = index >= (pages[0]?.first ?? place) && index <= end();
      if (!isNear) {
        pages = [];
        renew();
      }
      place = index;
      while (pages.length > 1 && pages[0]!.first + pages[0]!.count <= index)
        spare = pages.shift()!.bytes.buffer as ArrayBuffer;
      ask();
    },
    async waitUntilReady(index) {
      failure = undefined;
      while (
        !isWhole() &&
        (!findPage(index) || end() - index < Math.min(estimateEventCount(START_NS), START_EVENTS_MAX))
      ) {
        ask();
        if (!asked) throw failure;
        await asked;
      }
    },
    forget(fromIndex) {
      renew();
      const kept = pages.filter(({ first }) => first < fromIndex);
      const last = kept.at(-1);
      if (last) kept[kept.length - 1] = { ...last, isLast: false, count: Math.min(last.count, fromIndex - last.first) };
      pages = kept;
    },
  };
}

function clamp(min: number, value: number, max: number): number {
  return Math.min(Math.max(value, min), max);
}

function getJsonStart({ ends }: PlanPage, at: number): number {
  return at === 0 ? 0 : ends[at - 1]!;
}

/** Returns the size of an event of a page as JSON, in bytes. */
export function computeEventBytes(page: PlanPage, at: number): number {
  return page.ends[at]! - getJsonStart(page, at);
}

/** Returns an event of a page as JSON without its closing brace, so that fields can follow. */
export function openJson(page: PlanPage, at: number): string {
  return page.bytes.toString('utf8', getJsonStart(page, at), page.ends[at]! - 1);
}
