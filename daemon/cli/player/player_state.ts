/** What the player knows; the screen is drawn from it, and from nothing else. */
import { createLateness } from '../../replay/clock/lateness.ts';
import type { PlayedEvent, ReplaySession } from './remote_session.ts';
import { type Mark, markOf, newThreads, type Threads } from './time_line.ts';

/** Events kept for the list and the lanes; the rest is the recording's. */
export const RECENT_MAX = 1000;

export interface Played {
  event: PlayedEvent;
  mark: Mark;
}

export interface PlayerState {
  session: ReplaySession;
  /** What its caller waited for. While the daemon finds it out again, it is as it was before. */
  durationNs: bigint;
  /** The end of the whole replay, with what was written back later; likewise. */
  endNs: bigint;
  services: readonly string[];
  nodes: readonly string[];
  /** Start of the recorded transaction, since the epoch. */
  firstTimestampNs: bigint;
  threads: Threads;
  /** From the first event on, played or not, as far as they have been read. */
  ahead: Mark[];
  /** Played last, the latest at the end. */
  recent: Played[];
  /** Counted here while it plays: the daemon tells it only at changes. */
  readonly lateness: ReplaySession['lateness'];
  /** Of the newest frame that was shown. */
  lastFrameId: number;
  /** A word to the user; empty for none. */
  message: string;
  helpShown: boolean;
  /** How many times the time line is halved beyond what the screen would choose. */
  zoom: number;
  /** Where the replay was at a moment of the player's clock. */
  reference: { positionNs: number; atMs: number };
}

export interface Player {
  readonly state: PlayerState;
  showSession(session: ReplaySession, nowMs: number): void;
  /** The same of a command's answer, unless frames that are newer have been shown. */
  showAnswer(session: ReplaySession, nowMs: number): void;
  showEvent(event: PlayedEvent, nowMs: number): void;
}

export function newPlayer(session: ReplaySession, nowMs: number): Player {
  const lateness = createLateness();
  const state: PlayerState = {
    session,
    durationNs: BigInt(session.replay_duration_ns ?? session.duration_ns),
    endNs: BigInt(session.replay_end_ns ?? session.duration_ns),
    services: [],
    nodes: [],
    firstTimestampNs: 0n,
    threads: newThreads(),
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
    // As the daemon does when it plays again.
    if (state.session.state === 'finished' && next.state === 'playing') lateness.reset();
    state.session = next;
    state.durationNs = BigInt(next.replay_duration_ns ?? state.durationNs);
    state.endNs = BigInt(next.replay_end_ns ?? state.endNs);
    state.reference = { positionNs: Number(next.position_ns), atMs: nowMs };
    // After a way back, what was played before is still to come.
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
      const mark = markOf(state.threads, event);
      state.recent.push({ event, mark });
      // It may have been read for a time line that holds no more.
      if (index < state.ahead.length) state.ahead[index] = mark;
      if (state.recent.length > RECENT_MAX) state.recent.shift();
      state.session = { ...state.session, event_index: index + 1 };
      if (state.session.state !== 'playing') return;
      const latenessNs = BigInt(lateness_ns);
      lateness.record(latenessNs);
      const positionNs = Number(offset_ns) + Number(latenessNs) * state.session.speed_factor;
      state.reference = { positionNs, atMs: nowMs };
    },
  };
}

/** On the replay's own time line. Between two words from the daemon it goes by the player's own clock. */
export function positionNs({ session, endNs, reference }: PlayerState, nowMs: number): number {
  if (session.state !== 'playing') return reference.positionNs;
  const passedNs = (nowMs - reference.atMs) * 1e6 * session.speed_factor;
  return Math.min(reference.positionNs + passedNs, Math.max(Number(endNs), reference.positionNs));
}
