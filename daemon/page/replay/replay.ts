/** One replay session as the page sees it: its state, its commands and its events. */

import type { Only, PlayedEvent, ReceivedSession } from '../../contract/received.ts';
import type { SentSeekTarget } from '../../contract/target.ts';
import { type Command, type SessionState, TRANSITIONS } from '../../contract/transitions.ts';
import { createLayoutWatch } from '../../model/layout_changes.ts';
import type { Daemon } from '../api/daemon.ts';
import { type Failure, toFailure } from '../api/failure.ts';
import { startFollowing } from './following.ts';
import type { NewSessionSettings } from './settings_in_link.ts';
import type { Frame, PlayedPosition } from './stream.ts';

const SESSIONS = '/api/replay/sessions';

export interface Change {
  speed_factor?: number;
  extra_latency_ns?: bigint;
  timeout_ns?: bigint | null;
  max_gap_ns?: bigint | null;
  only?: Only;
  loop?: boolean;
}

/** The newest event that was played, and the event's start on the session's time line. */
export interface NewestEvent {
  eventId: string;
  offsetNs: number;
}

export interface Replay {
  readonly sessionId: string;
  readonly playhead: Playhead;
  /** State of the session; null until it has been read. */
  readonly session: ReceivedSession | null;
  /** Reason why the last command failed or the stream was interrupted. */
  readonly failure: Failure | null;
  /** Whether the page is connected to the session. */
  readonly isConnected: boolean;
  /** Number of events that this page missed because it read too slowly; null if the number is not known. */
  readonly missed: number | null;
  /** Whether the session plays so many events per second that frames contain positions instead of events. */
  readonly isFast: boolean;
  /** Whether the session is paused at the end of its caller's wait. */
  readonly isAtOwnEnd: boolean;
  /** Delay with which this page handles frames, in milliseconds. */
  delayMs(): number;
  can(command: Command): boolean;
  send(command: 'play' | 'pause' | 'stop'): Promise<void>;
  seek(target: SentSeekTarget): Promise<void>;
  /** Steps by a number of events; a negative count moves back. Resolves after `onPlayed` was called with the event. */
  step(count: number): Promise<void>;
  change(change: Change): Promise<void>;
  /** Stops following the session, which goes on in the daemon. */
  close(): void;
}

export interface ReplayOptions {
  daemon: Daemon;
  sessionId: string;
  /** The transaction that the session must play. */
  transactionId: string;
  /** Called after every change of the state that this object shows. */
  onChange: () => void;
  /** Called with the newest event that was played; null before the first event. */
  onPlayed: (played: NewestEvent | null) => void;
  nowMs?: () => number;
}

/** Creates a session, which the caller must delete. */
export function createSession(
  daemon: Daemon,
  transactionId: string,
  settings: NewSessionSettings,
): Promise<ReceivedSession> {
  return daemon.askJson<ReceivedSession>(SESSIONS, {
    method: 'POST',
    body: { transaction_id: transactionId, ...settings },
  });
}

/** Deletes a session, even while the page is being closed. */
export async function deleteSession(daemon: Daemon, sessionId: string): Promise<void> {
  await daemon.ask(`${SESSIONS}/${sessionId}`, { method: 'DELETE', keepalive: true }).catch(() => {});
}

type ReplayState = { -readonly [Name in keyof Replay]: Replay[Name] };

export function openReplay(options: ReplayOptions): Replay {
  const { daemon, sessionId, onChange, onPlayed, nowMs = () => performance.now() } = options;
  const path = `${SESSIONS}/${sessionId}`;
  const closing = new AbortController();
  const playhead = createPlayhead();
  const delay = createDelayMeter();
  /** Index after the newest event with which `onPlayed` was called. */
  let playedIndex = 0;
  let locating = Promise.resolve();
  /** Whether `failure` is a failure of the connection. */
  let isLost = false;
  /**
   * Resolves when the session's transaction is known. Commands wait for this, so that they never change the session of
   * another transaction.
   */
  const known = Promise.withResolvers<void>();
  let isNewLayout: ReturnType<typeof createLayoutWatch> | undefined;
  const shown: ReplayState = {
    sessionId,
    playhead,
    session: null,
    failure: null,
    missed: 0,
    isConnected: false,
    isFast: false,
    isAtOwnEnd: false,
    delayMs: () => delay.getDelayMs(nowMs()),
    can: (name) => shown.session !== null && TRANSITIONS[name][shown.session.state as SessionState] !== null,
    ...createCommands(sendCommand, () => locating),
    close() {
      closing.abort();
      known.resolve();
    },
  };

  /** Stores a state; a state older than the stored one is ignored. */
  function take(state: ReceivedSession): void {
    if (shown.session && state.last_event_id < shown.session.last_event_id) return;
    shown.session = state;
    const positionNs = Number(state.position_ns);
    delay.reset(state.speed_factor);
    if (state.state !== 'playing') {
      playhead.stop(positionNs);
      locating = locate();
    } else {
      playhead.run(state.speed_factor, computeStopNs(state));
      playhead.set(positionNs, nowMs());
    }
    shown.isAtOwnEnd = isAtOwnEnd(state);
    shown.isFast = computeExpectedRate(state) > RATE_MAX;
    following.want(shown.isFast ? 'positions' : 'events');
  }

  /** Stores the clock position of a playing session. */
  function takePosition(positionNs: number): void {
    playhead.set(positionNs, nowMs());
    delay.take(positionNs, nowMs());
  }

  function takeEvent({ event_id, replay }: PlayedEvent): void {
    if (shown.session) shown.session = { ...shown.session, event_index: replay.index + 1 };
    const [offsetNs, latenessNs] = [replay.offset_ns, replay.lateness_ns].map(Number) as [number, number];
    reportPlayed({ eventId: event_id, offsetNs }, replay.index + 1);
    const { state, speed_factor } = shown.session ?? {};
    if (state === 'playing') takePosition(offsetNs + latenessNs * speed_factor!);
  }

  function reportPlayed(event: NewestEvent | null, index: number): void {
    playedIndex = index;
    onPlayed(event);
  }

  function takePositionFrame({ position_ns, event_index, lateness }: PlayedPosition): void {
    if (shown.session?.state !== 'playing') return;
    shown.session = { ...shown.session, event_index, lateness };
    takePosition(Number(position_ns));
  }

  /**
   * Requests the last played event of a session that does not play. A known event is requested again only if events
   * have new positions (`isMoved`).
   */
  async function locate(isMoved = false): Promise<void> {
    const index = shown.session!.event_index;
    if (index === playedIndex && !isMoved) return;
    if (index === 0) return reportPlayed(null, 0);
    const event = await askPrecedingEvent(daemon, path, index, closing.signal);
    if (!event || shown.session!.state === 'playing' || shown.session!.event_index !== index) return;
    reportPlayed({ eventId: event.event_id, offsetNs: event.replay_offset_ns }, index);
    onChange();
  }

  function takeConnection(failure: Failure | null): void {
    shown.isConnected = failure === null;
    if (failure || isLost) shown.failure = failure;
    isLost = failure !== null;
  }

  function takeFrame(frame: Frame): void {
    takeConnection(frame.kind === 'lost' ? frame.failure : null);
    if (frame.kind === 'state') take({ ...frame.session, last_event_id: frame.id });
    // Events that the answer to a command has already delivered are skipped.
    if (frame.kind === 'event' && frame.id > (shown.session?.last_event_id ?? 0)) takeEvent(frame.played);
    if (frame.kind === 'position') takePositionFrame(frame.position);
    if (frame.kind === 'gap')
      shown.missed = frame.missed === null || shown.missed === null ? null : shown.missed + frame.missed;
    // Events have new positions after a change of the settings, which another client may have made.
    if (isNewLayout?.(frame) && shown.session!.state !== 'playing') locating = locate(true);
    onChange();
  }

  async function sendCommand(at: string, method: 'POST' | 'PATCH', body: object): Promise<void> {
    await known.promise;
    if (closing.signal.aborted) return;
    try {
      const answer = await daemon.askJson<ReceivedSession | { session: ReceivedSession; events: PlayedEvent[] }>(
        path + at,
        {
          method,
          body,
          signal: closing.signal,
        },
      );
      const event = 'session' in answer ? answer.events.at(-1) : undefined;
      if (event)
        reportPlayed({ eventId: event.event_id, offsetNs: Number(event.replay.offset_ns) }, event.replay.index + 1);
      take('session' in answer ? answer.session : answer);
      shown.failure = null;
    } catch (error) {
      if (closing.signal.aborted) return;
      shown.failure = toFailure(error);
      // Another client may have changed the session meanwhile, so its present state is shown.
      if (shown.failure.code === 'invalid_transition') await daemon.askJson<ReceivedSession>(path).then(take, () => {});
    }
    onChange();
  }

  const following = startFollowing({
    daemon,
    sessionId,
    closing: closing.signal,
    onFrame: takeFrame,
    onRead(read) {
      if (read.transaction_id !== options.transactionId) {
        shown.failure = OTHER_TRANSACTION;
        shown.close();
        return onChange();
      }
      isNewLayout ??= createLayoutWatch(read);
      takeConnection(null);
      take(read);
      known.resolve();
      onChange();
    },
    onEnd(ended) {
      shown.failure = ended ?? shown.failure;
      shown.isConnected = false;
      known.resolve();
      onChange();
    },
  });
  return shown;
}

const OTHER_TRANSACTION: Failure = {
  code: 'session_not_found',
  status: 404,
  requestId: null,
  retryAfter_s: null,
  detail: 'the session of the link plays another transaction',
};

type Post = (at: string, method: 'POST' | 'PATCH', body: object) => Promise<void>;

function createCommands(
  command: Post,
  located: () => Promise<void>,
): Pick<Replay, 'send' | 'seek' | 'step' | 'change'> {
  return {
    // `play` pauses at the end of the caller's wait. The write-back after it may take half a minute, so it is played
    // only by a second `play`.
    send: (name) => command(`/${name}`, 'POST', name === 'play' ? { until: 'replay_duration_ns' } : {}),
    seek: (target) => command('/seek', 'POST', target),
    async step(count) {
      await command('/step', 'POST', { count });
      await located();
    },
    change: (changed) => command('', 'PATCH', changed),
  };
}

type ScheduledEvent = Pick<PlayedEvent, 'event_id'> & { replay_offset_ns: number };

/** Requests the event before an index of the time line; undefined if the request fails. */
async function askPrecedingEvent(daemon: Daemon, path: string, index: number, signal: AbortSignal) {
  try {
    const timeline = `${path}/timeline?event_index=${index - 1}&limit=1`;
    const { events } = await daemon.askJson<{ events: ScheduledEvent[] }>(timeline, { signal });
    return events[0];
  } catch {
    // The failure is ignored: the playhead does not need this event, and the stream reports a session that no longer
    // exists.
    return undefined;
  }
}

/**
 * Measures how late this page handles the frames of a session that plays. The fastest frame since the clock was set
 * relates the page's clock to the daemon's clock; a frame that took longer was delayed on its way or in this page.
 */
interface DelayMeter {
  /** Takes the clock position of a frame; returns the delay of the frame, in milliseconds. */
  take(positionNs: number, nowMs: number): number;
  /** Starts again after the clock was set or its speed changed. */
  reset(speedFactor: number): void;
  /** Returns the longest delay within the last second. */
  getDelayMs(nowMs: number): number;
}

const KEPT_MS = 1000;

export function createDelayMeter(): DelayMeter {
  let speed = 1;
  let leastMs = Number.POSITIVE_INFINITY;
  let [worstMs, worstAtMs] = [0, Number.NEGATIVE_INFINITY];
  return {
    take(positionNs, nowMs) {
      const differenceMs = nowMs - positionNs / 1e6 / speed;
      leastMs = Math.min(leastMs, differenceMs);
      const delayMs = differenceMs - leastMs;
      if (delayMs >= worstMs || nowMs - worstAtMs > KEPT_MS) [worstMs, worstAtMs] = [delayMs, nowMs];
      return delayMs;
    },
    reset(speedFactor) {
      speed = speedFactor;
      leastMs = Number.POSITIVE_INFINITY;
      worstMs = 0;
    },
    getDelayMs: (nowMs) => (nowMs - worstAtMs > KEPT_MS ? 0 : worstMs),
  };
}

/**
 * Estimates the position of a session's clock between two frames. Each frame contains the position of the daemon's
 * clock. From there, the playhead moves at the session's speed until the position at which the session will stop.
 */
interface Playhead {
  /** Sets the position that a frame contains; `atMs` is a time of this page's clock. */
  set(positionNs: number, atMs: number): void;
  /** Stops the clock at a position. */
  stop(positionNs: number): void;
  /** Runs the clock at a speed, never beyond `limitNs`. */
  run(speedFactor: number, limitNs: number): void;
  /** Returns the position at a time of this page's clock, in nanoseconds from the start of the replay. */
  computePositionNs(nowMs: number): number;
  readonly isRunning: boolean;
}

/**
 * Maximum difference from the daemon's clock that the playhead corrects gradually: a jump back would look like an
 * error.
 */
const SLEW_NS_MAX = 30e6;
/** Share of the difference that is left after each screen frame. */
const SLEW_LEFT = 0.8;

export function createPlayhead(): Playhead {
  let [positionNs, atMs, speed, limitNs] = [0, 0, 0, Number.POSITIVE_INFINITY];
  let isRunning = false;
  /** The shown position minus the position of the daemon's clock. */
  let offsetNs = 0;
  const computeClockNs = (nowMs: number) =>
    isRunning ? Math.min(limitNs, positionNs + Math.max(0, nowMs - atMs) * 1e6 * speed) : positionNs;
  return {
    get isRunning() {
      return isRunning;
    },
    set(newNs, newMs) {
      const shownNs = computeClockNs(newMs) + offsetNs;
      [positionNs, atMs] = [newNs, newMs];
      const differenceNs = shownNs - newNs;
      offsetNs =
        isRunning && Math.abs(differenceNs) <= SLEW_NS_MAX * Math.max(speed, Number.EPSILON) ? differenceNs : 0;
    },
    stop(newNs) {
      [positionNs, isRunning, offsetNs, limitNs] = [newNs, false, 0, Number.POSITIVE_INFINITY];
    },
    run(speedFactor, newLimitNs) {
      [speed, limitNs, isRunning] = [speedFactor, newLimitNs, true];
    },
    computePositionNs(nowMs) {
      offsetNs *= SLEW_LEFT;
      return Math.min(limitNs, Math.max(0, computeClockNs(nowMs) + offsetNs));
    },
  };
}

/* Computes the effects of a session's settings on its time line. */

/** Maximum rate, in events per second, at which events are read one by one; above it, only positions are read. */
const RATE_MAX = 2000;

type Timed = Pick<
  ReceivedSession,
  'event_count' | 'speed_factor' | 'duration_ns' | 'replay_duration_ns' | 'replay_end_ns'
>;

/** Returns the end of the last event on the session's time line, or the recorded duration while that end is unknown. */
function chooseEndNs({ replay_end_ns, replay_duration_ns, duration_ns }: Omit<Timed, 'event_count'>): number {
  return Number(replay_end_ns ?? replay_duration_ns ?? duration_ns);
}

/** Returns the mean number of events per second that a session plays until the end of its caller's wait. */
export function computeExpectedRate(session: Timed): number {
  const ownNs = Number(session.replay_duration_ns ?? session.duration_ns);
  return (session.event_count / Math.max(1, ownNs || chooseEndNs(session))) * 1e9 * session.speed_factor;
}

/**
 * Returns the position at which the clock of a playing session will stop, in nanoseconds; a very large number if the
 * position is unknown.
 */
export function computeStopNs({
  until,
  replay_duration_ns,
  replay_end_ns,
}: Pick<ReceivedSession, 'until' | 'replay_duration_ns' | 'replay_end_ns'>): number {
  return Number((until && replay_duration_ns) ?? replay_end_ns ?? Number.MAX_SAFE_INTEGER);
}

/** Whether a session is paused exactly at the end of its caller's wait, with data still to be written back. */
export function isAtOwnEnd(
  session: Pick<ReceivedSession, 'state' | 'position_ns' | 'replay_duration_ns' | 'replay_end_ns'>,
) {
  const { state, position_ns, replay_duration_ns, replay_end_ns } = session;
  if (state !== 'paused' || !replay_duration_ns || replay_end_ns === null) return false;
  return Number(position_ns) === Number(replay_duration_ns) && Number(replay_duration_ns) < Number(replay_end_ns);
}
