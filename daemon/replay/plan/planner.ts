/**
 * The plans of all sessions. Each plan is processed once, in the background. Plans are processed in turn, one slice at
 * a time, and requests of sessions are served in between.
 */
import { setImmediate as breathe } from 'node:timers/promises';
import { Problem } from '../../base/problem.ts';
import type { SeekTarget } from '../../contract/target.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import { type Curve, type CurvesRequest, computeCurves } from './curves.ts';
import type { LayoutChange } from './merge.ts';
import {
  type Chunk,
  computeChunkEvents,
  type Outline,
  openPlan,
  type PlanCaches,
  type PlanPage,
  type PlanRequest,
  type PlanWork,
  type SeekResult,
} from './plan.ts';
import { createPageCache, type RecordedPage } from './recorded.ts';
import { computeWhatIf, type WhatIf, type WhatIfRequest } from './what_if.ts';

/** Maximum number of cached pages of recorded events: 20 MB. */
const RECORDED_PAGES_MAX = 128;
/** Maximum number of events in cached chunks: some 128 MB, enough for a thousand sessions with one chunk each. */
const BODY_EVENTS_MAX = 262_144;
/** A plan of at most this many events is processed before `open` resolves, which takes a few milliseconds. */
const WHOLE_AT_ONCE_EVENTS = 65_536;

export interface ReplayPlan {
  /** The latest outline. */
  readonly outline: Outline;
  /** Reads a page, into `memory` if the page fits there; `memory` belonged to a page that is not needed any more. */
  readPage(index: number, limit: number, memory?: ArrayBuffer): Promise<PlanPage>;
  /** Lays all events out again with the latest latency and finds the target; null for a target past the end. */
  place(target: SeekTarget): Promise<SeekResult | null>;
  /** Changes the latency or the gaps from an event on; earlier events stay as they are. */
  changeLatency(fromIndex: number, change: LayoutChange): Promise<void>;
  /** Changes the deadline; no event moves. */
  changeTimeout(timeoutNs: number | null): Promise<void>;
  /**
   * Computes when the last event would end if all events were laid out with the latest settings and this change.
   * Rejects soon after `signal` aborts.
   */
  endWith(change: Partial<LayoutChange>, signal: AbortSignal): Promise<number>;
  close(): void;
}

export interface Planner {
  /** Calls `onOutline` when the outline changes. Rejects with a Problem if the transaction is not playable. */
  open(request: PlanRequest, onOutline: () => void): Promise<ReplayPlan>;
  /** Whether any event of a transaction is recorded. */
  has(transactionId: string): Promise<boolean>;
  /** Rejects with a Problem if no event of the transaction is recorded. Also rejects soon after `signal` aborts. */
  whatIf(request: WhatIfRequest, signal?: AbortSignal): Promise<WhatIf>;
  /**
   * Computes the curve of each transaction; null for a transaction that is no longer recorded. Rejects soon after
   * `signal` aborts.
   */
  curves(request: CurvesRequest, signal: AbortSignal): Promise<(Curve | null)[]>;
  close(): Promise<void>;
}

/** Creates a planner that works in the calling thread. */
export function createPlanner(recordings: Recordings): Planner {
  const caches: PlanCaches = {
    recorded: createPageCache<RecordedPage>(RECORDED_PAGES_MAX),
    bodies: createPageCache<Chunk>(BODY_EVENTS_MAX, ({ ends }) => ends.length),
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
      const plan = createPlanned(
        openPlan(recordings, request, caches, { chunkEvents: computeChunkEvents(plans.size) }),
        {
          onOutline,
          onWork: advanceAll,
          onClose: () => plans.delete(plan),
        },
      );
      plans.add(plan);
      void advanceAll();
      if (plan.outline.eventCount > WHOLE_AT_ONCE_EVENTS) return plan;
      try {
        await plan.waitUntilWhole();
        return plan;
      } catch (error) {
        plan.close();
        throw error;
      }
    },
    async has(transactionId) {
      return recordings.findTransaction(transactionId) !== undefined;
    },
    whatIf: (request, signal) => runInSteps(computeWhatIf(recordings, request), signal),
    curves: (request, signal) => runInSteps(computeCurves(recordings, request), signal),
    async close() {
      for (const plan of plans) plan.close();
    },
  };
}

/** Runs work in steps, between which other work can run. */
async function runInSteps<Result>(steps: Generator<void, Result>, signal?: AbortSignal): Promise<Result> {
  try {
    for (;;) {
      signal?.throwIfAborted();
      const { done, value } = steps.next();
      if (done) return value;
      await breathe();
    }
  } finally {
    steps.return(undefined as never);
  }
}

interface Planned extends ReplayPlan {
  /** Whether some events have not been processed yet. */
  readonly isAtWork: boolean;
  advance(): void;
  /** Resolves when all events have been processed. */
  waitUntilWhole(): Promise<void>;
}

interface Watched {
  onOutline: () => void;
  /** Called when there are events to process. */
  onWork: () => void;
  onClose: () => void;
}

function createPlanned(work: PlanWork, { onOutline, onWork, onClose }: Watched): Planned {
  let outline = work.outline();
  let gone = createPromise();
  const closed = new AbortController();
  let isAtWork = true;

  function goThroughAgain(): void {
    if (!isAtWork) gone = createPromise();
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
    waitUntilWhole: () => gone.promise,
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
    async readPage(index, limit, memory) {
      return work.readPage(index, limit, memory);
    },
    async place(target) {
      if (work.layOutAnew()) goThroughAgain();
      await gone.promise;
      try {
        return work.place(target);
      } catch (error) {
        if (work.keepLayout()) goThroughAgain();
        throw error;
      } finally {
        outline = work.outline();
      }
    },
    async changeLatency(fromIndex, change) {
      work.changeLatency(fromIndex, change);
      outline = work.outline();
      goThroughAgain();
    },
    async changeTimeout(timeoutNs) {
      work.changeTimeout(timeoutNs);
      outline = work.outline();
      goThroughAgain();
    },
    endWith: (change, signal) => runInSteps(work.endWith(change), AbortSignal.any([closed.signal, signal])),
    close() {
      const ended = new Problem('session_not_found', 'the session has ended');
      onClose();
      closed.abort(ended);
      work.close();
      end(ended);
    },
  };
}

function createPromise(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>();
  // A rejection must not count as unhandled when no caller waits for it.
  made.promise.catch(() => {});
  return made;
}
