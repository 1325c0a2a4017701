/** What run_cost measured, each round by itself. */
import type { InterceptorName } from './interceptors.ts';
import type { PlanCost } from './plan_process.ts';
import type { Calls, Waits } from './run_load.ts';

export const THREADS = [1, 8, 64] as const;

export interface CallCost {
  /** By number of threads. */
  writes: Record<(typeof THREADS)[number], Calls>;
  /** Each to another file than the one before: what is known of the file helps none. */
  writesElsewhere: Calls;
  unplanned: Calls;
}

/** Of all planned calls: those that took what their own event says. */
export interface Faithfulness {
  planned: number;
  matched: number;
}

/** Nanoseconds until the command is there. */
export interface Starts {
  bare: number[];
  one_event: number[];
  many_events: number[];
  /** With making the plan. */
  kreplay_run: number[];
}

/** In turn: a short wait comes after a long one, in which the CPUs have fallen asleep. */
export type WaitOrder = 'by_length' | 'in_turn';

export interface RunCost {
  calls: Record<InterceptorName, CallCost[]>;
  waits: Record<WaitOrder, Waits[]>;
  faithfulness: Faithfulness;
  plannedEvents: number;
  starts: Starts;
  plans: PlanCost[];
}
