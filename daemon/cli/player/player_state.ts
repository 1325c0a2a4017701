/** The state of the player, from which alone the screen is drawn. */
import { createLateness } from '../../replay/clock/lateness.ts';
import type { ExactPlayedEvent, ReplaySession } from './remote_session.ts';
import { buildMark, type CallMark, createThreads, type PlayedThreads } from './time_line.ts';

/** Number of events that are kept for the list and the lanes; older events are available only in the recording. */
export const RECENT_MAX = 1000;

export interface MarkedEvent {
  event: ExactPlayedEvent;
  mark: CallMark;
}

export interface PlayerState {
  session: ReplaySession;
  /** Duration of the events that the caller waited for. The last value is kept while the daemon recomputes it. */
  durationNs: bigint;
  /** End of the whole replay, including later write-back. The last value is kept while the daemon recomputes it. */
  endNs: bigint;
  services: readonly string[];
  nodes: readonly string[];
  /** Wall-clock start of the recorded transaction, in nanoseconds since the epoch. */
  firstTimestampNs: bigint;
  threads: PlayedThreads;
  /** Marks of all events that have been read, from the first event on, whether played or not. */
  ahead: CallMark[];
  /** The most recently played events, the latest at the end. */
  recent: MarkedEvent[];
  /** Lateness, which is counted here while the session plays, because the daemon reports it only on changes. */
  readonly lateness: ReplaySession['lateness'];
  /** Id of the newest frame that was shown. */
  lastFrameId: number;
  /** Message to the user; empty if there is none. */
  message: string;
  helpShown: boolean;
  /** Number of times the time line is halved in addition to the automatic zoom. */
  zoom: number;
  /** Position of the replay at a given time of the player's clock. */
  reference: { positionNs: number; atMs: number };
}

export interface ShownPlayer {
  readonly state: PlayerState;
  showSession(session: ReplaySession, nowMs: number): void;
  /** Shows the session as a command's answer contains it, unless newer frames have been shown. */
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
    // The daemon resets its own lateness counts at the same transition.
    if (state.session.state === 'finished' && next.state === 'playing') lateness.reset();
    state.session = next;
    state.durationNs = BigInt(next.replay_duration_ns ?? state.durationNs);
    state.endNs = BigInt(next.replay_end_ns ?? state.endNs);
    state.reference = { positionNs: Number(next.position_ns), atMs: nowMs };
    // After a move back, events that were played before will be played again.
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
      // Replaces a mark that may have been read when the time line was different.
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

/**
 * Returns the position on the replay's own time line. Between frames, the position advances with the player's clock.
 */
export function computePositionNs({ session, endNs, reference }: PlayerState, nowMs: number): number {
  if (session.state !== 'playing') return reference.positionNs;
  const passedNs = (nowMs - reference.atMs) * 1e6 * session.speed_factor;
  return Math.min(reference.positionNs + passedNs, Math.max(Number(endNs), reference.positionNs));
}
