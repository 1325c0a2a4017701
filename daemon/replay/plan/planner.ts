/**
 * Plans of all sessions. Each is gone through once in the background, a slice at a time, in turn; what a session asks
 * for comes in between.
 */
import { setImmediate as breathe } from 'node:timers/promises';
import { Problem } from '../../problem.ts';
import type { Store } from '../../store/store.ts';
import type { SeekTarget } from '../target.ts';
import type { Chunk } from './bodies.ts';
import { createPageCache } from './page_cache.ts';
import type { SeekResult } from './places.ts';
import { type Outline, openPlan, type PlanCaches, type PlanPage, type PlanRequest, type PlanWork } from './plan.ts';
import type { RecordedPage } from './recorded.ts';
import { type WhatIf, type WhatIfRequest, whatIf } from './what_if.ts';

/** 17 MB. */
const RECORDED_PAGES_MAX = 128;
/** Some 64 MB. Sessions beyond read their chunks again for each page. */
const BODY_CHUNKS_MAX = 128;
/** A plan of no more is gone through before it is given: that takes a few milliseconds. */
const WHOLE_AT_ONCE_EVENTS = 65_536;

export interface ReplayPlan {
  /** The newest. */
  readonly outline: Outline;
  page(index: number, limit: number): Promise<PlanPage>;
  /** Null: past the end. Lays all events out anew, with the latency that was set last. */
  place(target: SeekTarget): Promise<SeekResult | null>;
  /** From an event on; what comes before keeps its place. */
  changeLatency(fromIndex: number, extraLatencyNs: number): Promise<void>;
  close(): void;
}

export interface Planner {
  /** `onOutline`: more is known. Rejects with a Problem when the transaction cannot be played. */
  open(request: PlanRequest, onOutline: () => void): Promise<ReplayPlan>;
  /** Whether any event of a transaction is recorded. */
  has(transactionId: string): Promise<boolean>;
  /** Rejects with a Problem when no event of the transaction is recorded. */
  whatIf(request: WhatIfRequest): Promise<WhatIf>;
  close(): Promise<void>;
}

/** In this thread. */
export function createPlanner(store: Store): Planner {
  const caches: PlanCaches = {
    recorded: createPageCache<RecordedPage>(RECORDED_PAGES_MAX),
    bodies: createPageCache<Chunk>(BODY_CHUNKS_MAX),
  };
  const plans = new Set<Planned>();
  let isAdvancing = false;

  async function advanceAll(): Promise<void> {
    if (isAdvancing) return;
    isAdvancing = true;
    try {
      for (;;) {
        const unfinished = [...plans].filter((plan) => plan.isAtWork);
        if (unfinished.length === 0) return;
        for (const plan of unfinished) {
          plan.advance();
          await breathe();
        }
      }
    } finally {
      isAdvancing = false;
    }
  }

  return {
    async open(request, onOutline) {
      const plan = newPlanned(openPlan(store, request, caches), {
        onOutline,
        onWork: advanceAll,
        onClose: () => plans.delete(plan),
      });
      plans.add(plan);
      void advanceAll();
      if (plan.outline.eventCount > WHOLE_AT_ONCE_EVENTS) return plan;
      try {
        await plan.whole();
        return plan;
      } catch (error) {
        plan.close();
        throw error;
      }
    },
    async has(transactionId) {
      return store.transaction(transactionId) !== undefined;
    },
    async whatIf(request) {
      const looking = whatIf(store, request);
      for (;;) {
        const { done, value } = looking.next();
        if (done) return value;
        await breathe();
      }
    },
    async close() {
      for (const plan of plans) plan.close();
    },
  };
}

interface Planned extends ReplayPlan {
  /** Some of its events are still to be gone through. */
  readonly isAtWork: boolean;
  advance(): void;
  /** Resolves when all events have been gone through. */
  whole(): Promise<void>;
}

interface Watched {
  onOutline: () => void;
  /** There is something to go through. */
  onWork: () => void;
  onClose: () => void;
}

function newPlanned(work: PlanWork, { onOutline, onWork, onClose }: Watched): Planned {
  let outline = work.outline();
  let gone = newPromise();
  let isAtWork = true;

  function goThroughAgain(): void {
    if (!isAtWork) gone = newPromise();
    isAtWork = true;
    onWork();
  }

  function end(error?: unknown): void {
    isAtWork = false;
    if (error) gone.reject(error);
    else gone.resolve();
  }

  return {
    get outline() {
      return outline;
    },
    whole: () => gone.promise,
    get isAtWork() {
      return isAtWork;
    },
    advance() {
      if (!isAtWork) return;
      try {
        if (work.advance()) return;
        outline = work.outline();
        end();
        onOutline();
      } catch (error) {
        end(error);
      }
    },
    async page(index, limit) {
      return work.page(index, limit);
    },
    async place(target) {
      if (work.layOutAnew()) goThroughAgain();
      await gone.promise;
      const place = work.place(target);
      outline = work.outline();
      return place;
    },
    async changeLatency(fromIndex, extraLatencyNs) {
      work.changeLatency(fromIndex, extraLatencyNs);
      outline = work.outline();
      goThroughAgain();
    },
    close() {
      onClose();
      work.close();
      end(new Problem('session_not_found', 'the session has ended'));
    },
  };
}

function newPromise(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>();
  // It may be that nobody waits for it.
  made.promise.catch(() => {});
  return made;
}
