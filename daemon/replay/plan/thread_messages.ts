/** The messages between the daemon's main thread and the planner's thread. */
import type { ThreadFailure } from '../../base/thread_failure.ts';
import type { SeekTarget } from '../target.ts';
import type { Curve } from './curve.ts';
import type { CurvesRequest } from './curves.ts';
import type { LayoutChange } from './merge.ts';
import type { SeekResult } from './places.ts';
import type { Outline, PlanPage, PlanRequest } from './plan.ts';
import type { WhatIf, WhatIfRequest } from './what_if.ts';

/** The main thread numbers the plans. */
export type PlanQuestion = { plan: number } & (
  | { kind: 'open'; request: PlanRequest }
  | { kind: 'page'; index: number; limit: number; memory: ArrayBuffer | undefined }
  | { kind: 'place'; target: SeekTarget }
  | { kind: 'change_latency'; fromIndex: number; change: LayoutChange }
  | { kind: 'change_timeout'; timeoutNs: number | null }
  | { kind: 'end_with'; change: Partial<LayoutChange> }
  | { kind: 'close' }
);

export type Question =
  | PlanQuestion
  | { kind: 'has'; transactionId: string }
  | { kind: 'what_if'; request: WhatIfRequest }
  | { kind: 'curves'; request: CurvesRequest };

export type PlannerAnswer = PlanPage | SeekResult | WhatIf | (Curve | null)[] | number | boolean | null;

/** Each question has one answer, also one that the main thread abandons. */
export type ToPlanner = { id: number; question: Question } | { abandoned: number };

export type FromPlanner =
  | { kind: 'outline'; plan: number; outline: Outline }
  | { kind: 'answer'; id: number; answer: PlannerAnswer }
  | { kind: 'failed'; id: number; failure: ThreadFailure };
