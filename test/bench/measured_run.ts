/** Defines the measurements of run_cost, each round by itself. */
import type { InterceptorName } from './interceptors.ts';
import type { PlanCost } from './plan_process.ts';
import type { Calls, Waits } from './run_load.ts';

export const THREADS = [1, 8, 64] as const;

export interface CallCost {
  /** Cost of writes by number of threads. */
  writes: Record<(typeof THREADS)[number], Calls>;
  /** Each write is to another file than the one before, so that caching per file does not help. */
  writesElsewhere: Calls;
  unplanned: Calls;
}

/** Number of planned calls, and of those that were matched to their own event. */
export interface Faithfulness {
  planned: number;
  matched: number;
}

/** Nanoseconds until the command has started. */
export interface Starts {
  bare: number[];
  one_event: number[];
  many_events: number[];
  /** Includes making the plan. */
  kreplay_run: number[];
}

/** `in_turn`: a short wait follows a long one, in which the CPUs have gone idle. */
export type WaitOrder = 'by_length' | 'in_turn';

export interface RunCost {
  calls: Record<InterceptorName, CallCost[]>;
  waits: Record<WaitOrder, Waits[]>;
  faithfulness: Faithfulness;
  plannedEvents: number;
  starts: Starts;
  plans: PlanCost[];
}
