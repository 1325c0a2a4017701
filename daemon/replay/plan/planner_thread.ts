/** The main thread's interface to a planner that works in its own thread. */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { Problem } from '../../base/problem.ts';
import { type ThreadFailure, toError } from '../../base/thread_failure.ts';
import type { SeekTarget } from '../../contract/target.ts';
import type { ServedPaths } from '../../store/embedded/served_files.ts';
import type { Curve, CurvesRequest } from './curves.ts';
import type { LayoutChange } from './merge.ts';
import type { Outline, PlanPage, PlanRequest, SeekResult } from './plan.ts';
import type { Planner, ReplayPlan } from './planner.ts';
import type { WhatIf, WhatIfRequest } from './what_if.ts';

interface OpenPlan {
  outline: Outline | undefined;
  onOutline: () => void;
}

interface PendingAnswer {
  resolve(answer: PlannerAnswer): void;
  reject(error: unknown): void;
}

interface PlannerWorker {
  worker: Worker;
  /** The error that ended the thread. */
  ended: unknown;
  opened: Map<number, OpenPlan>;
  asked: Map<number, PendingAnswer>;
}

/** The compiled file has another extension. */
const WORKER = new URL(`./planner_worker${extname(import.meta.filename)}`, import.meta.url);

/** `places` locates the transactions for the worker; the default worker reads recordings. */
export function createPlannerThread<Places = ServedPaths>(places: Places, workerFile = WORKER): Planner {
  // The thread starts at once, so that the first session need not wait until its code is loaded.
  let thread: PlannerWorker | undefined = begin();
  let lastId = 0;
  let lastPlan = 0;

  function begin(): PlannerWorker {
    const worker = new Worker(workerFile, { workerData: places });
    const begun: PlannerWorker = { worker, ended: undefined, opened: new Map(), asked: new Map() };
    begun.worker.on('message', (message: FromPlanner) => receiveMessage(begun, message));
    begun.worker.on('error', (error) => end(begun, error));
    begun.worker.on('exit', () => end(begun, new Error('the thread that plans replays has ended')));
    return begun;
  }

  function ensureThread(): PlannerWorker {
    thread ??= begin();
    return thread;
  }

  function end(ended: PlannerWorker, error: unknown): void {
    if (thread === ended) thread = undefined;
    ended.ended ??= error;
    for (const { reject } of ended.asked.values()) reject(error);
    ended.asked.clear();
  }

  async function ask(
    of: PlannerWorker,
    question: PlannerQuestion,
    memory?: ArrayBuffer,
    signal?: AbortSignal,
  ): Promise<PlannerAnswer> {
    const id = ++lastId;
    signal?.throwIfAborted();
    signal?.addEventListener('abort', () => of.worker.postMessage({ abandoned: id } satisfies ToPlanner));
    return new Promise((resolve, reject) => {
      if (of.ended) throw of.ended;
      of.asked.set(id, { resolve, reject });
      of.worker.postMessage({ id, question } satisfies ToPlanner, memory ? [memory] : []);
    });
  }

  return {
    async open(request, onOutline) {
      const of = ensureThread();
      const plan = ++lastPlan;
      const opened: OpenPlan = { outline: undefined, onOutline };
      of.opened.set(plan, opened);
      try {
        await ask(of, { plan, kind: 'open', request });
      } catch (error) {
        of.opened.delete(plan);
        throw error;
      }
      return createPlanProxy(of, plan, opened, ask);
    },
    has: (transactionId) => ask(ensureThread(), { kind: 'has', transactionId }) as Promise<boolean>,
    whatIf: (request, signal) =>
      ask(ensureThread(), { kind: 'what_if', request }, undefined, signal) as Promise<WhatIf>,
    curves: (request, signal) =>
      ask(ensureThread(), { kind: 'curves', request }, undefined, signal) as Promise<(Curve | null)[]>,
    async close() {
      const of = thread;
      if (!of) return;
      end(of, new Problem('shutting_down', 'the daemon is shutting down'));
      await of.worker.terminate();
    },
  };
}

function receiveMessage({ opened, asked }: PlannerWorker, message: FromPlanner): void {
  if (message.kind === 'outline') {
    const plan = opened.get(message.plan);
    if (!plan) return;
    plan.outline = message.outline;
    plan.onOutline();
    return;
  }
  const waiting = asked.get(message.id);
  asked.delete(message.id);
  if (message.kind === 'answer') waiting?.resolve(message.answer);
  else waiting?.reject(toError(message.failure));
}

/** `memory` is transferred to the thread together with the question. */
type Ask = (
  of: PlannerWorker,
  question: PlannerQuestion,
  memory?: ArrayBuffer,
  signal?: AbortSignal,
) => Promise<PlannerAnswer>;

function createPlanProxy(of: PlannerWorker, plan: number, opened: OpenPlan, ask: Ask): ReplayPlan {
  return {
    get outline() {
      return opened.outline!;
    },
    async readPage(index, limit, memory) {
      const page = (await ask(of, { plan, kind: 'page', index, limit, memory }, memory)) as PlanPage;
      // A Buffer arrives as a plain Uint8Array.
      const { buffer, byteOffset, byteLength } = page.bytes;
      return { ...page, bytes: Buffer.from(buffer, byteOffset, byteLength) };
    },
    place: (target) => ask(of, { plan, kind: 'place', target }) as Promise<SeekResult | null>,
    async changeLatency(fromIndex, change) {
      await ask(of, { plan, kind: 'change_latency', fromIndex, change });
    },
    async changeTimeout(timeoutNs) {
      await ask(of, { plan, kind: 'change_timeout', timeoutNs });
    },
    endWith: (change, signal) => ask(of, { plan, kind: 'end_with', change }, undefined, signal) as Promise<number>,
    close() {
      of.opened.delete(plan);
      // No caller waits for the answer, so a failure is ignored.
      ask(of, { plan, kind: 'close' }).catch(() => {});
    },
  };
}

/* The messages between the daemon's main thread and the planner's thread. */

/** A question about a plan, with the number that the main thread gave to the plan. */
type PlanQuestion = { plan: number } & (
  | { kind: 'open'; request: PlanRequest }
  | { kind: 'page'; index: number; limit: number; memory: ArrayBuffer | undefined }
  | { kind: 'place'; target: SeekTarget }
  | { kind: 'change_latency'; fromIndex: number; change: LayoutChange }
  | { kind: 'change_timeout'; timeoutNs: number | null }
  | { kind: 'end_with'; change: Partial<LayoutChange> }
  | { kind: 'close' }
);

export type PlannerQuestion =
  | PlanQuestion
  | { kind: 'has'; transactionId: string }
  | { kind: 'what_if'; request: WhatIfRequest }
  | { kind: 'curves'; request: CurvesRequest };

export type PlannerAnswer = PlanPage | SeekResult | WhatIf | (Curve | null)[] | number | boolean | null;

/** Each question has one answer, even if the main thread abandons the question. */
export type ToPlanner = { id: number; question: PlannerQuestion } | { abandoned: number };

export type FromPlanner =
  | { kind: 'outline'; plan: number; outline: Outline }
  | { kind: 'answer'; id: number; answer: PlannerAnswer }
  | { kind: 'failed'; id: number; failure: ThreadFailure };
