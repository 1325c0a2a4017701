/**
 * The events that a session has loaded: some before its position and those that follow, requested ahead of time.
 *
 *   plan     . . . . . . [ page ][ page ][ asked for ] . . . .
 *   session                  ^ next event
 */

import type { PlanPage } from '../plan/plan.ts';
import type { ReplayPlan } from '../plan/planner.ts';

/** Target duration of a page: a slow session holds few events, a fast one sends few requests. */
const PAGE_NS = 50e6;
const PAGE_EVENTS_MIN = 64;
/** A larger page would take too long to arrive. */
const PAGE_EVENTS_MAX = 512;
/** Size of the first page, before the event rate is known. */
const PAGE_EVENTS_FIRST = 256;
/** Target duration of the loaded events, which must last while the planner's thread waits for a CPU. */
const AHEAD_NS = 400e6;
/** Limit of the loaded events: 2 MB. */
const AHEAD_EVENTS_MAX = 4096;

export interface EventBuffer {
  /** Offset from the first event's start; undefined when the event is not loaded. */
  startNs(index: number): number | undefined;
  /** Duration including the extra latency. This and the following methods require that the event is loaded. */
  durationNs(index: number): number;
  isOwn(index: number): boolean;
  /** Length in bytes of the event as JSON, without its closing brace. */
  jsonBytes(index: number): number;
  /** Writes the event as JSON without its closing brace, so that fields can follow. Returns the offset of the end. */
  writeJson(index: number, to: Buffer, at: number): number;
  /** Whether there is no event at this index or after it; false while that is not known. */
  isEnd(index: number): boolean;
  /** The index after the last loaded event. */
  readonly end: number;
  /** Sets the position: drops pages before it and requests events after it. */
  moveTo(index: number): void;
  /** Resolves when the event is loaded, or known not to exist. */
  ready(index: number): Promise<void>;
  /** Drops the events from this index on, because the plan has changed. */
  forget(fromIndex: number): void;
}

export interface EventBufferOptions {
  plan: Pick<ReplayPlan, 'page'>;
  /** The current speed; 2 is twice as fast as recorded. */
  speedFactor: () => number;
  /** Called when a page has been loaded. */
  onPage: () => void;
  /** Called when a page cannot be read. */
  onFailure: (error: unknown) => void;
}

export function createEventBuffer({ plan, speedFactor, onPage, onFailure }: EventBufferOptions): EventBuffer {
  let pages: PlanPage[] = [];
  let place = 0;
  /** A page requested in an earlier epoch belongs to another plan or position, and is ignored. */
  let epoch = 0;
  let asked: Promise<void> | undefined;
  let failure: unknown;

  const end = () => (pages.length === 0 ? place : pages.at(-1)!.first + pages.at(-1)!.count);
  const isWhole = () => pages.at(-1)?.isLast ?? false;

  function pageOf(index: number): PlanPage | undefined {
    // Hot path: pages.find() would allocate a closure per event.
    for (const page of pages) if (index >= page.first && index < page.first + page.count) return page;
    return undefined;
  }

  /** How many events fill a duration at the event rate of the last page. */
  function eventsIn(durationNs: number): number {
    const last = pages.at(-1);
    if (!last || last.count < 2) return PAGE_EVENTS_FIRST;
    const spanNs = (last.startNs[last.count - 1]! - last.startNs[0]!) / speedFactor();
    return Math.ceil((durationNs * last.count) / spanNs);
  }

  function ask(): void {
    if (asked || failure || isWhole()) return;
    const limit = within(PAGE_EVENTS_MIN, eventsIn(PAGE_NS), PAGE_EVENTS_MAX);
    if (pages.length > 0 && end() - place > within(limit, eventsIn(AHEAD_NS), AHEAD_EVENTS_MAX)) return;
    const from = end();
    const mine = epoch;
    asked = plan.page(from, limit).then(
      (page) => {
        if (mine !== epoch) return;
        asked = undefined;
        pages.push(page);
        ask();
        onPage();
      },
      (error) => {
        if (mine !== epoch) return;
        asked = undefined;
        failure = error;
        onFailure(error);
      },
    );
  }

  function renew(): void {
    epoch++;
    asked = undefined;
    failure = undefined;
  }

  return {
    startNs(index) {
      const page = pageOf(index);
      return page && page.startNs[index - page.first]!;
    },
    durationNs(index) {
      const page = pageOf(index)!;
      return page.durationNs[index - page.first]!;
    },
    isOwn(index) {
      const page = pageOf(index)!;
      return page.isOwn[index - page.first] === 1;
    },
    jsonBytes(index) {
      const page = pageOf(index)!;
      return jsonBytes(page, index - page.first);
    },
    writeJson(index, to, at) {
      const page = pageOf(index)!;
      return writeJson(page, index - page.first, to, at);
    },
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
      while (pages.length > 1 && pages[0]!.first + pages[0]!.count <= index) pages.shift();
      ask();
    },
    async ready(index) {
      failure = undefined;
      while (!pageOf(index) && !(isWhole() && index >= end())) {
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

function within(min: number, value: number, max: number): number {
  return Math.min(Math.max(value, min), max);
}

function jsonStart({ ends }: PlanPage, at: number): number {
  return at === 0 ? 0 : ends[at - 1]!;
}

/** Length in bytes of an event of a page as JSON, without its closing brace. */
export function jsonBytes(page: PlanPage, at: number): number {
  return page.ends[at]! - 1 - jsonStart(page, at);
}

/** Writes an event of a page as JSON without its closing brace; returns the offset of the end. */
export function writeJson(page: PlanPage, at: number, to: Buffer, toAt: number): number {
  return toAt + page.bytes.copy(to, toAt, jsonStart(page, at), page.ends[at]! - 1);
}

export function openJson(page: PlanPage, at: number): string {
  return page.bytes.toString('utf8', jsonStart(page, at), page.ends[at]! - 1);
}
