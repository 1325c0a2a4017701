/** A session as the API gives it. */
import type { LatenessSummary } from './lateness.ts';
import { type ClockOffsets, type ClockView, clockView } from './plan/clock_offsets.ts';
import type { Outline } from './plan/plan.ts';
import type { State } from './transitions.ts';

export interface SessionView {
  session_id: string;
  transaction_id: string;
  speed_factor: number;
  extra_latency_ns: bigint;
  timeout_ns: bigint | null;
  max_gap_ns: bigint | null;
  /** Of each node. */
  clock: ClockView[];
  loop: boolean;
  state: State;
  position_ns: bigint;
  duration_ns: bigint;
  /** Null until all events have been gone through. */
  replay_duration_ns: bigint | null;
  /** Of the next event; the event count when none is left. */
  event_index: number;
  event_count: number;
  /** Null until it is known. */
  times_out: boolean | null;
  timeout_event_id: string | null;
  /** How often it came to its end and began again. */
  rounds: number;
  lateness: LatenessSummary;
  /** How often an event was due before it had been read. */
  starvations: number;
  /** Why the daemon stopped it by itself. */
  failure: string | null;
  /** Of the newest frame of its stream before this. */
  last_event_id: number;
  created_at: string;
  updated_at: string;
}

/** What can be set when it is made, and read back to make it again. */
export interface SessionSettings {
  transactionId: string;
  speedFactor: number;
  extraLatencyNs: number;
  timeoutNs: bigint | null;
  maxGapNs: number | null;
  clockOffsetsNs: ClockOffsets;
  loop: boolean;
}

/** What a view is made of. */
export interface SessionFacts {
  sessionId: string;
  settings: SessionSettings;
  outline: Outline;
  state: State;
  positionNs: number;
  /** Projected index of the next event. */
  next: number;
  rounds: number;
  lateness: LatenessSummary;
  starvations: number;
  failure: string | null;
  lastEventId: number;
  createdAt: string;
  updatedAt: string;
}

export function viewOf(facts: SessionFacts): SessionView {
  const { transactionId, speedFactor, extraLatencyNs, timeoutNs, maxGapNs, loop } = facts.settings;
  const { eventCount, recordedDurationNs, survey, clocks } = facts.outline;
  return {
    session_id: facts.sessionId,
    transaction_id: transactionId,
    speed_factor: speedFactor,
    extra_latency_ns: BigInt(extraLatencyNs),
    timeout_ns: timeoutNs,
    max_gap_ns: maxGapNs === null ? null : BigInt(maxGapNs),
    clock: clocks.map(clockView),
    loop,
    state: facts.state,
    position_ns: BigInt(facts.positionNs),
    duration_ns: BigInt(recordedDurationNs),
    replay_duration_ns: survey && BigInt(survey.durationNs),
    event_index: facts.next,
    event_count: eventCount,
    times_out: survey ? survey.timeoutEventId !== null : timeoutNs === null ? false : null,
    timeout_event_id: survey?.timeoutEventId ?? null,
    rounds: facts.rounds,
    lateness: facts.lateness,
    starvations: facts.starvations,
    failure: facts.failure,
    last_event_id: facts.lastEventId,
    created_at: facts.createdAt,
    updated_at: facts.updatedAt,
  };
}
