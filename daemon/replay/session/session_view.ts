/** A session as the API returns it, whether the session is open or only saved. */

import { Problem } from '../../base/problem.ts';
import type { Until } from '../../contract/replay_requests.ts';
import type { SessionState } from '../../contract/transitions.ts';
import type { SteadyNow } from '../clock/clock.ts';
import type { LatenessSummary } from '../clock/lateness.ts';
import type { Player } from '../clock/player.ts';
import type { Scheduler } from '../clock/scheduler.ts';
import type { KeptSession } from '../persistence/kept_session.ts';
import { buildClockView, type ClockView } from '../plan/clock_offsets.ts';
import type { LatencyChange } from '../plan/merge.ts';
import type { PlanRequest } from '../plan/plan.ts';
import { isSameOnly, type OnlyFilter } from '../plan/recorded.ts';
import type { EndReason, KeptTotal } from './stream.ts';

/** The settings of a session, which are also kept to restore it. */
export type SessionSettings = KeptSession['settings'];

export interface SessionView {
  session_id: string;
  transaction_id: string;
  speed_factor: number;
  extra_latency_ns: bigint;
  timeout_ns: bigint | null;
  max_gap_ns: bigint | null;
  /** Filters that select the events that get the latency. */
  only: { event_type?: readonly string[]; service?: readonly string[]; node?: readonly string[] };
  /** The clock of each node. */
  clock: ClockView[];
  loop: boolean;
  state: SessionState;
  position_ns: bigint;
  duration_ns: bigint;
  /** Duration of the replay; null until all events have been processed. */
  replay_duration_ns: bigint | null;
  /** The end of the last event, including write-back events; null until all events have been processed. */
  replay_end_ns: bigint | null;
  /** Index of the next event; the event count if no event is left. */
  event_index: number;
  event_count: number;
  /** Whether an own event ends after the timeout; null until that is known. */
  times_out: boolean | null;
  timeout_event_id: string | null;
  /** How often the replay has started again after its end. */
  rounds: number;
  /**
   * Where the session will pause by itself; null if the session is not playing, or if no pause before its end is
   * known.
   */
  until: Until | null;
  /** When the clock was or will be started, as a time of the steady clock; null while the clock is stopped. */
  starts_at_ns: bigint | null;
  lateness: LatenessSummary;
  /** How often an event was due before it was loaded. */
  starvations: number;
  /** Why the daemon stopped the session, or is unable to reopen it. */
  failure: string | null;
  /** Id of the stream's newest frame before this view. */
  last_event_id: number;
  created_at: string;
  updated_at: string;
}

/** Facts about the playback since the daemon started. */
export interface PlaybackFacts {
  until: Until | null;
  startsAtNs: bigint | null;
  lateness: LatenessSummary;
  starvations: number;
  /** Id of the stream's newest frame. */
  lastEventId: number;
}

export const NOT_PLAYED: PlaybackFacts = {
  until: null,
  startsAtNs: null,
  lateness: { p50_ns: 0, p99_ns: 0, max_ns: 0n, late_events: 0 },
  starvations: 0,
  lastEventId: 0,
};

export function buildSessionView(session: KeptSession, played: PlaybackFacts): SessionView {
  const { until, startsAtNs, lateness, starvations, lastEventId } = played;
  const { transactionId, speedFactor, extraLatencyNs, timeoutNs, maxGapNs, only, loop } = session.settings;
  const { eventCount, recordedDurationNs, survey, clocks } = session.outline;
  return {
    session_id: session.sessionId,
    transaction_id: transactionId,
    speed_factor: speedFactor,
    extra_latency_ns: BigInt(extraLatencyNs),
    timeout_ns: timeoutNs,
    max_gap_ns: maxGapNs === null ? null : BigInt(maxGapNs),
    only: {
      ...(only.eventTypes && { event_type: only.eventTypes }),
      ...(only.services && { service: only.services }),
      ...(only.nodes && { node: only.nodes }),
    },
    clock: clocks.map(buildClockView),
    loop,
    state: session.state,
    position_ns: BigInt(session.positionNs),
    duration_ns: BigInt(recordedDurationNs),
    replay_duration_ns: survey && BigInt(survey.durationNs),
    replay_end_ns: survey && BigInt(survey.endNs),
    event_index: session.eventIndex,
    event_count: eventCount,
    times_out: survey ? survey.timeoutEventId !== null : timeoutNs === null ? false : null,
    timeout_event_id: survey?.timeoutEventId ?? null,
    rounds: session.rounds,
    until,
    starts_at_ns: startsAtNs,
    lateness,
    starvations,
    failure: session.failure,
    last_event_id: lastEventId,
    created_at: session.createdAt,
    updated_at: session.updatedAt,
  };
}

/* The options that a session is created with, and the changes that can be made to it. */

/** The fields that a PATCH changes. */
export interface SessionChange {
  speedFactor?: number | undefined;
  extraLatencyNs?: number | undefined;
  loop?: boolean | undefined;
  timeoutNs?: bigint | null | undefined;
  maxGapNs?: number | null | undefined;
  only?: OnlyFilter | undefined;
}

/** A requested change. */
export interface ComingChange extends SessionChange {
  /** End of the last event with this change, if it was computed. */
  endNs?: number | undefined;
}

/** Returns the layout settings after a change; undefined if the change moves no event. */
export function findLayoutChange(
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
  /** Returns the wall-clock time in RFC 3339 format. */
  wallTime: () => string;
  scheduler: Scheduler;
  player: Player;
  keptTotal: KeptTotal;
  onPlayed?: ((latenessNs: number) => void) | undefined;
  /** Time from a command to the start of the clock, so that the first frames are ready by then; none by default. */
  leadNs?: bigint | undefined;
  /** Called when the session's data to save has changed, except for the moving position of a playing session. */
  onChange?: (() => void) | undefined;
  /** Throws a Problem if the session, after this change, would need more capacity than the other sessions leave. */
  admit?: ((change?: ComingChange) => void) | undefined;
  /** How often the session was opened before. */
  life?: number;
}

export function buildPlanRequest(settings: SessionSettings, latency: readonly LatencyChange[]): PlanRequest {
  const { transactionId, maxGapNs, clockOffsetsNs, clockUncertaintiesNs } = settings;
  const timeoutNs = settings.timeoutNs === null ? null : Number(settings.timeoutNs);
  return { transactionId, latency, maxGapNs, clockOffsetsNs, clockUncertaintiesNs, timeoutNs };
}

/**
 * Creates the Problem with which a closed session refuses commands. After a shutdown, the next daemon serves the
 * session again.
 */
export function createClosedProblem(reason: EndReason): Problem {
  return reason === 'shutdown'
    ? new Problem('shutting_down', 'the daemon is shutting down')
    : new Problem('session_not_found', 'the session has ended');
}

/**
 * Runs the tasks of a session one at a time. A task that fails after the session was closed rejects with the Problem of
 * a closed session.
 */
export function createClosableQueue(closed: () => EndReason | null): ReturnType<typeof createTaskQueue> {
  const runInTurn = createTaskQueue();
  return async (work) => {
    try {
      return await runInTurn(work);
    } catch (error) {
      const reason = closed();
      throw reason ? createClosedProblem(reason) : error;
    }
  };
}

/** Returns a function that runs asynchronous tasks one after another, in the order of the calls. */
function createTaskQueue(): <Result>(work: () => Promise<Result>) => Promise<Result> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    last = result.catch(() => {});
    return result;
  };
}
