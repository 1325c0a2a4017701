/**
 * The events that a session has at hand: some behind its place and those that come next, asked for ahead of their time.
 *
 *   plan     . . . . . . [ page ][ page ][ asked for ] . . . .
 *   session                  ^ next event
 */

import type { PlanPage } from '../plan/plan.ts';
import type { ReplayPlan } from '../plan/planner.ts';

/** A page should last so long: a slow session holds little, a fast one asks seldom. */
const PAGE_NS = 50e6;
const PAGE_EVENTS_MIN = 64;
/** A larger one would be long in coming. */
const PAGE_EVENTS_MAX = 512;
/** Of the first page, before it is known how far apart events are. */
const PAGE_EVENTS_FIRST = 256;
/** What is at hand should last so long, while the thread that reads waits for a CPU. */
const AHEAD_NS = 400e6;
/** 2 MB. */
const AHEAD_EVENTS_MAX = 4096;

export interface EventBuffer {
  /** From the first event's start; undefined when it is not at hand. */
  startNs(index: number): number | undefined;
  /** With what was added. Only of an event at hand, like all that follows. */
  durationNs(index: number): number;
  isOwn(index: number): boolean;
  /** How long the event is as JSON, without the brace at its end. */
  jsonBytes(index: number): number;
  /** The event as JSON, without the brace at its end, for more fields to follow. Gives where it ends. */
  writeJson(index: number, to: Buffer, at: number): number;
  /** Nothing comes at this index or behind it; false while that is not known. */
  isEnd(index: number): boolean;
  /** Where the events at hand end. */
  readonly end: number;
  /** Tells of the place: what is behind it goes, what comes after it is asked for. */
  moveTo(index: number): void;
  /** Resolves when the event is at hand, or known not to be there. */
  ready(index: number): Promise<void>;
  /** Forgets what is at this index and behind it: the plan has changed. */
  forget(fromIndex: number): void;
}

export interface EventBufferOptions {
  plan: Pick<ReplayPlan, 'page'>;
  /** 2 is twice as fast as it was. */
  speedFactor: () => number;
  /** More is at hand. */
  onPage: () => void;
  /** It cannot be read. */
  onFailure: (error: unknown) => void;
}

export function createEventBuffer({ plan, speedFactor, onPage, onFailure }: EventBufferOptions): EventBuffer {
  let pages: PlanPage[] = [];
  let place = 0;
  /** What was asked for before belongs to another plan, or to another place. */
  let epoch = 0;
  let asked: Promise<void> | undefined;
  let failure: unknown;

  const end = () => (pages.length === 0 ? place : pages.at(-1)!.first + pages.at(-1)!.count);
  const isWhole = () => pages.at(-1)?.isLast ?? false;

  function pageOf(index: number): PlanPage | undefined {
    // A closure for each event would be work for the garbage collector.
    for (const page of pages) if (index >= page.first && index < page.first + page.count) return page;
    return undefined;
  }

  /** How many last for so long, as far apart as those of the last page are. */
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

/** How long an event of a page is as JSON, without the brace at its end. */
export function jsonBytes(page: PlanPage, at: number): number {
  return page.ends[at]! - 1 - jsonStart(page, at);
}

/** An event of a page as JSON, without the brace at its end. Gives where it ends. */
export function writeJson(page: PlanPage, at: number, to: Buffer, toAt: number): number {
  return toAt + page.bytes.copy(to, toAt, jsonStart(page, at), page.ends[at]! - 1);
}

export function openJson(page: PlanPage, at: number): string {
  return page.bytes.toString('utf8', jsonStart(page, at), page.ends[at]! - 1);
}
