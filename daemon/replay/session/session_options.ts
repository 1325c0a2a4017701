/** What a session is made with, and what can be changed of it. */
import { Problem } from '../../problem.ts';
import { takingTurns } from '../../turns.ts';
import type { SteadyNow } from '../clock/clock.ts';
import type { Scheduler } from '../clock/scheduler.ts';
import type { LatencyChange } from '../plan/merge.ts';
import type { PlanRequest } from '../plan/plan.ts';
import type { KeptTotal } from './frames.ts';
import type { SessionSettings } from './session_view.ts';
import type { EndReason } from './stream.ts';

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
  /** What is kept of it is another now, or more is known of it. Its place while it plays is not told. */
  onChange?: (() => void) | undefined;
  /** Throws a Problem when it would play more, once it is changed so, than there is room for beside the others. */
  admit?: ((change?: SessionChange) => void) | undefined;
  /** How often it was opened before. */
  life?: number;
}

export function planRequestOf(settings: SessionSettings, latency: readonly LatencyChange[]): PlanRequest {
  const { transactionId, timeoutNs, maxGapNs, clockOffsetsNs } = settings;
  return { transactionId, latency, maxGapNs, clockOffsetsNs, timeoutNs: timeoutNs === null ? null : Number(timeoutNs) };
}

/** Why a session that is closed takes no commands. With the daemon it ends for now only: the next one has it again. */
export function closedProblem(reason: EndReason): Problem {
  return reason === 'shutdown'
    ? new Problem('shutting_down', 'the daemon is shutting down')
    : new Problem('session_not_found', 'the session has ended');
}

/** Work of a session, one piece after the other. What fails after it was closed fails for that. */
export function turnsUntilClosed(closed: () => EndReason | null): ReturnType<typeof takingTurns> {
  const inTurn = takingTurns();
  return async (work) => {
    try {
      return await inTurn(work);
    } catch (error) {
      const reason = closed();
      throw reason ? closedProblem(reason) : error;
    }
  };
}
