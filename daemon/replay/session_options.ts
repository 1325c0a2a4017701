/** What a session is made with, and what can be changed of it. */
import type { SteadyNow } from './clock.ts';
import type { KeptTotal } from './frames.ts';
import type { PlanRequest } from './plan/plan.ts';
import type { Scheduler } from './scheduler.ts';
import type { SessionSettings } from './session_view.ts';

/** What a PATCH changes. */
export interface SessionChange {
  speedFactor?: number | undefined;
  extraLatencyNs?: number | undefined;
  loop?: boolean | undefined;
}

export interface SessionOptions {
  sessionId: string;
  settings: SessionSettings;
  now: SteadyNow;
  /** RFC 3339. */
  wallTime: () => string;
  scheduler: Scheduler;
  keptTotal: KeptTotal;
  onPlayed?: ((latenessNs: bigint) => void) | undefined;
}

export function planRequestOf(settings: SessionSettings): PlanRequest {
  const { transactionId, extraLatencyNs, timeoutNs, maxGapNs, clockOffsetsNs } = settings;
  const timeout = timeoutNs === null ? null : Number(timeoutNs);
  return { transactionId, extraLatencyNs, maxGapNs, clockOffsetsNs, timeoutNs: timeout };
}
