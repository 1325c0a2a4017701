/** The state of the player. The screen is drawn only from this state. */
import { createLateness } from '../../replay/clock/lateness.ts';
import type { ExactPlayedEvent, ReplaySession } from './remote_session.ts';
import { buildMark, type CallMark, createThreads, type PlayedThreads } from './time_line.ts';

/** Maximum number of played events that are kept for the list and the lanes. */
export const RECENT_MAX = 1000;

export interface MarkedEvent {
  event: ExactPlayedEvent;
  mark: CallMark;
}

export interface PlayerState {
  session: ReplaySession;
  /** Duration of the events for which the caller waited. While the daemon recomputes it, the last value is kept. */
  durationNs: bigint;
  /** End of the whole replay, including later write-back. While the daemon recomputes it, the last value is kept. */
  endNs: bigint;
  services: readonly string[];
  nodes: readonly string[];
  /** Wall-clock start of the recorded transaction, in nanoseconds since the epoch. */
  firstTimestampNs: bigint;
  threads: PlayedThreads;
  /** Marks of the events that were read ahead, from the first event on. Some of them may have been played already. */
  ahead: CallMark[];
  /** The most recently played events, in the order in which they were played. */
  recent: MarkedEvent[];
  /**
   * Lateness of the played events. The player computes it, because the daemon reports it only when the session's state
   * changes.
   */
  readonly lateness: ReplaySession['lateness'];
  /** Id of the newest frame that was shown. */
  lastFrameId: number;
  /** Message to the user; empty if there is none. */
  message: string;
  helpShown: boolean;
  /** Number of halvings of the visible time, in addition to the automatic zoom. */
  zoom: number;
  /** A position of the replay, and the time of the player's clock at which the replay was there. */
  reference: { positionNs: number; atMs: number };
}

export interface ShownPlayer {
  readonly state: PlayerState;
  showSession(session: ReplaySession, nowMs: number): void;
  /** Shows the session from the answer to a command, except when newer frames have already been shown. */
  showAnswer(session: ReplaySession, nowMs: number): void;
  showEvent(event: ExactPlayedEvent, nowMs: number): void;
}

export function createPlayer(session: ReplaySession, nowMs: number): ShownPlayer {
  const lateness = createLateness();
  const state: PlayerState = {
    session,
    durationNs: BigInt(session.replay_duration_ns ?? session.duration_ns),
    endNs: BigInt(session.replay_end_ns ?? session.duration_ns),
    services: [],
    nodes: [],
    firstTimestampNs: 0n,
    threads: createThreads(),
    ahead: [],
    recent: [],
    get lateness() {
      return state.session.state === 'playing' ? lateness.summary() : state.session.lateness;
    },
    lastFrameId: 0,
    message: '',
    helpShown: false,
    zoom: 0,
    reference: { positionNs: Number(session.position_ns), atMs: nowMs },
  };

  function showSession(next: ReplaySession, nowMs: number): void {
    // The daemon resets its lateness at the same transition.
    if (state.session.state === 'finished' && next.state === 'playing') lateness.reset();
    state.session = next;
    state.durationNs = BigInt(next.replay_duration_ns ?? state.durationNs);
    state.endNs = BigInt(next.replay_end_ns ?? state.endNs);
    state.reference = { positionNs: Number(next.position_ns), atMs: nowMs };
    // After a backward move, the events after the new position have not been played yet.
    while ((state.recent.at(-1)?.event.replay.index ?? -1) >= next.event_index) state.recent.pop();
  }

  return {
    state,
    showSession,
    showAnswer(next, nowMs) {
      if (next.last_event_id >= state.lastFrameId) showSession(next, nowMs);
    },
    showEvent(event, nowMs) {
      const { index, offset_ns, lateness_ns } = event.replay;
      const mark = buildMark(state.threads, event);
      state.recent.push({ event, mark });
      // Replaces the event's mark, which may come from an earlier time line.
      if (index < state.ahead.length) state.ahead[index] = mark;
      if (state.recent.length > RECENT_MAX) state.recent.shift();
      state.session = { ...state.session, event_index: index + 1 };
      if (state.session.state !== 'playing') return;
      const latenessNs = Number(lateness_ns);
      lateness.record(latenessNs);
      const positionNs = Number(offset_ns) + latenessNs * state.session.speed_factor;
      state.reference = { positionNs, atMs: nowMs };
    },
  };
}

/** Returns the current position on the replay's time line. Between frames, it advances with the player's clock. */
export function computePositionNs({ session, endNs, reference }: PlayerState, nowMs: number): number {
  if (session.state !== 'playing') return reference.positionNs;
  const passedNs = (nowMs - reference.atMs) * 1e6 * session.speed_factor;
  return Math.min(reference.positionNs + passedNs, Math.max(Number(endNs), reference.positionNs));
}
