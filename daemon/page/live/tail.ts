/** The live events of this page: their stream, which may be paused, cut, refused, or left to other tabs. */
import type { EventSourceMessage } from 'eventsource-parser';
import type { Daemon } from '../api/daemon.ts';
import { delay, followStream } from '../api/event_stream.ts';
import type { Failure } from '../api/failure.ts';
import { createShownSignal, takeSlot, waitUntilShown } from '../api/stream_slot.ts';
import { formatShortDuration } from '../numbers/exact_times.ts';
import { createKept, type Kept } from './kept.ts';
import type { Minute } from './minute.ts';

export type TailState =
  | 'connecting'
  | 'following'
  /** Other tabs have all streams, so this tab reads in turns. */
  | 'in_turns'
  | 'cut'
  | 'paused'
  /** The daemon refused the stream, and asking again would not help. */
  | 'refused';

export interface Tail {
  readonly kept: Kept;
  readonly state: TailState;
  readonly failure: Failure | null;
  /** Whether arriving events are shown; if not, everything that is shown stands still. */
  readonly isFollowing: boolean;
  /** How far behind the shown events are, milliseconds. */
  computeBehindMs(nowMs: number): number;
  /** The time up to which arrivals are known: now while the stream is followed, else when it was last followed. */
  readMs(nowMs: number): number;
  pause(): void;
  /** Connects again, and goes on where the stream stopped, without a gap. */
  resume(): void;
  /** Skips the events that have not been read yet. */
  jump(): void;
  close(): void;
}

/** A tab without a stream of its own reads for this part of each second, and rests for the other. */
const TURN_MS = 300;
const REST_MS = 700;
const FINAL: ReadonlySet<string> = new Set(['unauthorized', 'forbidden', 'forbidden_host', 'invalid_parameter']);

export interface TailOptions {
  daemon: Daemon;
  filters: URLSearchParams;
  /** Called after every change of what this object shows. */
  onChange: () => void;
}

export function openTail({ daemon, filters, onChange }: TailOptions): Tail {
  const closing = new AbortController();
  const kept = createKept();
  const place = createPlace(filters);
  let state: TailState = 'connecting';
  let failure: Failure | null = null;
  /** Time at which following stopped; null while the stream is followed. */
  let stoppedMs: number | null = 0;
  /** Ends the present connection, or the wait for the next one. */
  let round = new AbortController();

  function become(next: TailState, why: Failure | null = null): void {
    [state, failure] = [next, why];
    stoppedMs = next === 'following' || next === 'in_turns' ? null : (stoppedMs ?? performance.now());
    onChange();
  }

  const readMs = (nowMs: number) => stoppedMs ?? nowMs;
  const computeBehindMs = (nowMs: number) => (kept.arrivals?.computeLagMs(readMs(nowMs)) ?? 0) + nowMs - readMs(nowMs);

  function takeMessage({ event, id, data }: EventSourceMessage) {
    if (id) place.pass(id);
    if (event === 'event') kept.takeEvent(data, performance.now());
    else if (event === 'lost') kept.takeLoss(data);
    onChange();
    return event === 'end' ? ('again' as const) : undefined;
  }

  async function follow(): Promise<void> {
    const release = await takeSlot();
    const turn = release ? [] : [AbortSignal.timeout(TURN_MS)];
    const stream = {
      path: place.path,
      lastId: place.lastId(),
      onMessage: takeMessage,
      final: FINAL,
      onOpen(response: Response) {
        kept.setClock(place.begin(response), performance.now());
        become(release ? 'following' : 'in_turns');
      },
      onLost: (why: Failure) => become('cut', why),
    };
    const signal = createShownSignal(AbortSignal.any([round.signal, ...turn]));
    const refused = await followStream(daemon, stream, signal).finally(() => release?.());
    if (refused) become('refused', refused);
    // A tab that is shown again has only what was read before, so it must not count as following.
    if (document.hidden && stoppedMs === null) become('connecting');
    if (!refused && !release) await delay(REST_MS, round.signal);
  }

  async function run(): Promise<void> {
    while (!closing.signal.aborted) {
      round = new AbortController();
      closing.signal.addEventListener('abort', () => round.abort(), { once: true, signal: round.signal });
      await waitUntilShown(round.signal);
      if (state === 'paused' || state === 'refused') await waitUntilAborted(round.signal);
      else if (!round.signal.aborted) await follow();
      // Frees the listeners that only wait for the end of this round.
      round.abort();
    }
  }

  function resume(): void {
    become('connecting');
    round.abort();
  }

  void run();
  return {
    kept,
    get state() {
      return state;
    },
    get failure() {
      return failure;
    },
    get isFollowing() {
      return stoppedMs === null;
    },
    computeBehindMs,
    readMs,
    pause() {
      become('paused');
      round.abort();
    },
    resume,
    jump() {
      const leftOutNs = Math.round(computeBehindMs(performance.now()) * 1e6);
      kept.newest.add('skipped', `${formatShortDuration(leftOutNs)} left out: jumped to now`);
      place.forget();
      resume();
    },
    close: () => closing.abort(),
  };
}

/** Moves the minute to the time up to which events were read; null until the daemon has answered. */
export function advanceMinute({ kept: { minute, arrivals }, readMs }: Tail): Minute | null {
  if (!minute || !arrivals) return null;
  const endMs = readMs(performance.now());
  minute.advance(arrivals.computeClockNs(endMs) - BigInt(Math.round(arrivals.computeLagMs(endMs) * 1e6)));
  return minute;
}

/** Remembers where the stream goes on: after the last frame, or where the stream began if none has come. */
function createPlace(filters: URLSearchParams) {
  let lastId: string | null = null;
  let began: string | null = null;
  return {
    lastId: () => lastId,
    path(): string {
      const asked = new URLSearchParams(filters);
      if (lastId === null && began !== null) asked.set('from', began);
      return `/api/events?${asked}`;
    },
    /** Returns the daemon's clock at an answer, milliseconds since the epoch. */
    begin({ headers }: Response): number {
      const daemonMs = Date.parse(headers.get('Date') ?? '');
      const nowMs = Number.isNaN(daemonMs) ? Date.now() : daemonMs;
      began ??= new Date(nowMs).toISOString();
      return nowMs;
    },
    pass(id: string): void {
      lastId = id;
    },
    forget(): void {
      [lastId, began] = [null, null];
    },
  };
}

function waitUntilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve());
  });
}
