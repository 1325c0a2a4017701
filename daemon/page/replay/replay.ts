/** One replay session as the page sees it: its state, its commands and its events. */
import { newLayoutWatch } from '../../cli/player/layout_changes.ts';
import { type Command, type State, TRANSITIONS } from '../../replay/transitions.ts';
import type { PlayedEvent, Session } from '../feed/answers.ts';
import type { Daemon } from '../feed/daemon.ts';
import { asFailure, type Failure } from '../feed/failure.ts';
import { shown, takeSlot, whileShown } from '../feed/stream_slot.ts';
import { createPlayhead, type Playhead } from './playhead.ts';
import { type Frame, follow } from './stream.ts';

const SESSIONS = '/api/replay/sessions';
/** Time between two questions of a tab that has no stream. */
const POLL_MS = 1000;

export type SeekTarget = { position_ns: bigint } | { event_index: number } | { event_id: string };
export type Change = { speed_factor?: number; extra_latency_ns?: bigint; loop?: boolean };

export interface Replay {
  readonly playhead: Playhead;
  /** Null until it was read. */
  readonly session: Session | null;
  /** The newest event that was played. */
  readonly last: PlayedEvent | null;
  /** Why the last command failed, or the stream is cut. */
  readonly failure: Failure | null;
  /** Whether frames arrive. */
  readonly isConnected: boolean;
  /** Events that this page missed because it read too slowly, or that it cannot know of. */
  readonly missed: number;
  can(command: Command): boolean;
  send(command: 'play' | 'pause' | 'stop'): Promise<void>;
  seek(target: SeekTarget): Promise<void>;
  /** A negative count moves back. */
  step(count: number): Promise<void>;
  change(change: Change): Promise<void>;
  /** Stops following; the session goes on. */
  close(): void;
}

export interface ReplayOptions {
  daemon: Daemon;
  sessionId: string;
  /** Called after every change of what this object shows. */
  onChange: () => void;
  onEvent: (played: PlayedEvent) => void;
  /** Called when the events' places on the time line are no longer those that were read. */
  onLayout?: () => void;
  nowMs?: () => number;
}

/** Makes a session; the caller deletes it. */
export function createSession(daemon: Daemon, transactionId: string): Promise<Session> {
  return daemon.askJson<Session>(SESSIONS, { method: 'POST', body: { transaction_id: transactionId } });
}

/** Deletes a session, also while the page is being closed. */
export async function deleteSession(daemon: Daemon, sessionId: string): Promise<void> {
  await daemon.ask(`${SESSIONS}/${sessionId}`, { method: 'DELETE', keepalive: true }).catch(() => {});
}

export function openReplay(options: ReplayOptions): Replay {
  const { daemon, sessionId, onChange, onEvent, onLayout = () => {}, nowMs = () => performance.now() } = options;
  const path = `${SESSIONS}/${sessionId}`;
  const closing = new AbortController();
  const playhead = createPlayhead();
  let session: Session | null = null;
  let last: PlayedEvent | null = null;
  let failure: Failure | null = null;
  let [isConnected, missed] = [false, 0];
  /** The newest frame that this page has. */
  let newestId = 0;
  let isNewLayout: ReturnType<typeof newLayoutWatch> | undefined;

  /** Takes a state, unless a newer one is known. */
  function take(state: Session): void {
    if (session && state.last_event_id < session.last_event_id) return;
    session = state;
    const positionNs = Number(state.position_ns);
    if (state.state !== 'playing') playhead.stop(positionNs);
    else {
      playhead.run(state.speed_factor, endOf(state));
      playhead.set(positionNs, nowMs());
    }
  }

  function takeEvent(played: PlayedEvent): void {
    last = played;
    if (session) session = { ...session, event_index: played.replay.index + 1 };
    if (session?.state === 'playing') {
      const { offset_ns, lateness_ns } = played.replay;
      playhead.set(offset_ns + lateness_ns * session.speed_factor, nowMs());
    }
    onEvent(played);
  }

  function taken(frame: Frame): void {
    isConnected = frame.kind !== 'lost';
    if (frame.kind === 'lost') failure = frame.failure;
    else if (failure?.status === 0) failure = null;
    if ('id' in frame) newestId = frame.id;
    if (frame.kind === 'state') take({ ...frame.session, last_event_id: frame.id });
    if (frame.kind === 'event') takeEvent(frame.played);
    if (frame.kind === 'gap') missed += frame.missed ?? 0;
    if (isNewLayout?.(frame)) onLayout();
    onChange();
  }

  async function command(at: string, method: 'POST' | 'PATCH', body: object): Promise<void> {
    try {
      const answer = await daemon.askJson<Session | { session: Session }>(path + at, {
        ...{ method, body, signal: closing.signal },
      });
      // A step answers with its events, too.
      take('session' in answer ? answer.session : answer);
      failure = null;
    } catch (error) {
      if (closing.signal.aborted) return;
      failure = asFailure(error);
      // Another client may have moved it meanwhile: show what it is now.
      if (failure.code === 'invalid_transition') await daemon.askJson<Session>(path).then(take, () => {});
    }
    onChange();
  }

  async function begin(): Promise<void> {
    try {
      const read = await daemon.askJson<Session>(path, { signal: closing.signal });
      isNewLayout = newLayoutWatch(read);
      take(read);
      newestId = read.last_event_id;
      onChange();
      while (!closing.signal.aborted && !(await followWhileShown()));
    } catch (error) {
      if (closing.signal.aborted) return;
      failure = asFailure(error);
    }
    isConnected = false;
    if (!closing.signal.aborted) onChange();
  }

  /** A hidden tab follows nothing: what was sent meanwhile comes when it is shown. Resolves to whether it is over. */
  async function followWhileShown(): Promise<boolean> {
    await shown(closing.signal);
    const release = await takeSlot();
    if (!release) return poll();
    const signal = whileShown(closing.signal);
    failure = await follow(daemon, sessionId, newestId, taken, signal).finally(release);
    return !signal.aborted;
  }

  /** Other tabs have all streams. */
  async function poll(): Promise<boolean> {
    const state = await daemon.askJson<Session>(path, { signal: closing.signal });
    isConnected = true;
    newestId = state.last_event_id;
    take(state);
    onChange();
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    return false;
  }

  void begin();
  return {
    playhead,
    get session() {
      return session;
    },
    get last() {
      return last;
    },
    get failure() {
      return failure;
    },
    get isConnected() {
      return isConnected;
    },
    get missed() {
      return missed;
    },
    can: (name) => session !== null && TRANSITIONS[name][session.state as State] !== null,
    send: (name) => command(`/${name}`, 'POST', {}),
    seek: (target) => command('/seek', 'POST', target),
    step: (count) => command('/step', 'POST', { count }),
    change: (changed) => command('', 'PATCH', changed),
    close: () => closing.abort(),
  };
}

function endOf({ replay_end_ns, replay_duration_ns }: Session): number {
  return Number(replay_end_ns ?? replay_duration_ns ?? Number.MAX_SAFE_INTEGER);
}
