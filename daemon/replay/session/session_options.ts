/** The options that a session is created with, and the changes that can be made to it. */
import { Problem } from '../../base/problem.ts';
import type { SteadyNow } from '../clock/clock.ts';
import type { Player } from '../clock/player.ts';
import type { Scheduler } from '../clock/scheduler.ts';
import type { LatencyChange } from '../plan/merge.ts';
import { isSameOnly, type Only } from '../plan/only.ts';
import type { PlanRequest } from '../plan/plan.ts';
import type { KeptTotal } from './frames.ts';
import type { SessionSettings } from './session_view.ts';
import type { EndReason } from './stream.ts';

/** The fields that a PATCH changes. */
export interface SessionChange {
  speedFactor?: number | undefined;
  extraLatencyNs?: number | undefined;
  loop?: boolean | undefined;
  timeoutNs?: bigint | null | undefined;
  maxGapNs?: number | null | undefined;
  only?: Only | undefined;
}

/** A change that is asked for. */
export interface ComingChange extends SessionChange {
  /** When the last event would end with it, if that was computed. */
  endNs?: number | undefined;
}

/** What of a change moves events; undefined if it moves none. */
export function layoutOf(
  { extraLatencyNs, maxGapNs, only }: SessionSettings,
  change: SessionChange,
): Pick<SessionSettings, 'extraLatencyNs' | 'maxGapNs' | 'only'> | undefined {
  const layout = {
    extraLatencyNs: change.extraLatencyNs ?? extraLatencyNs,
    maxGapNs: change.maxGapNs === undefined ? maxGapNs : change.maxGapNs,
    only: change.only ?? only,
  };
  const isSame =
    layout.extraLatencyNs === extraLatencyNs && layout.maxGapNs === maxGapNs && isSameOnly(layout.only, only);
  return isSame ? undefined : layout;
}

export interface SessionOptions {
  sessionId: string;
  settings: SessionSettings;
  now: SteadyNow;
  /** The wall clock in RFC 3339 format. */
  wallTime: () => string;
  scheduler: Scheduler;
  player: Player;
  keptTotal: KeptTotal;
  onPlayed?: ((latenessNs: number) => void) | undefined;
  /** Time from a command to the start of the clock, so that the first frames are ready by then; none by default. */
  leadNs?: bigint | undefined;
  /** Called when the session's kept state has changed. The moving position of a playing session is not reported. */
  onChange?: (() => void) | undefined;
  /** Throws a Problem when the session, after this change, would exceed the capacity that the other sessions leave. */
  admit?: ((change?: ComingChange) => void) | undefined;
  /** How often the session was opened before. */
  life?: number;
}

export function planRequestOf(settings: SessionSettings, latency: readonly LatencyChange[]): PlanRequest {
  const { transactionId, maxGapNs, clockOffsetsNs, clockUncertaintiesNs } = settings;
  const timeoutNs = settings.timeoutNs === null ? null : Number(settings.timeoutNs);
  return { transactionId, latency, maxGapNs, clockOffsetsNs, clockUncertaintiesNs, timeoutNs };
}

/** Why a closed session takes no commands. After a shutdown the next daemon has the session again. */
export function closedProblem(reason: EndReason): Problem {
  return reason === 'shutdown'
    ? new Problem('shutting_down', 'the daemon is shutting down')
    : new Problem('session_not_found', 'the session has ended');
}

/** Runs the work of a session one piece after the other. Work that fails after the session was closed reports that. */
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

/** Returns a function that runs pieces of asynchronous work one after another, in the order of the calls. */
function takingTurns(): <Result>(work: () => Promise<Result>) => Promise<Result> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    last = result.catch(() => {});
    return result;
  };
}
