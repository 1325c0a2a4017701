/** Follows the daemon's live events for this page, and tracks the state of their stream. */
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import type { Daemon } from '../api/daemon.ts';
import { delay, followStream } from '../api/event_stream.ts';
import type { Failure } from '../api/failure.ts';
import type { EventSourceMessage } from '../api/messages.ts';
import { createShownSignal, takeSlot, waitUntilShown } from '../api/stream_slot.ts';
import { createKept, type Kept } from './kept.ts';
import type { Minute } from './minute.ts';

export type TailState =
  | 'connecting'
  | 'following'
  /** Other tabs use all streams, so this tab connects only for a part of each second. */
  | 'in_turns'
  | 'cut'
  | 'paused'
  /** The daemon refused the stream, and another attempt would not help. */
  | 'refused';

export interface LiveTail {
  readonly kept: Kept;
  readonly state: TailState;
  readonly failure: Failure | null;
  /** Whether arriving events are shown; otherwise the shown events do not change. */
  readonly isFollowing: boolean;
  /** Returns how late the newest shown events are, in milliseconds. */
  computeBehindMs(nowMs: number): number;
  /**
   * Returns the time up to which arrivals are known: `nowMs` while the page follows the stream, otherwise the time at
   * which following stopped.
   */
  readMs(nowMs: number): number;
  pause(): void;
  /** Connects again, and continues without a gap where the stream stopped. */
  resume(): void;
  /** Skips the events that have not been read yet. */
  jump(): void;
  close(): void;
}

/** In each second, a tab without a slot reads for READING_MS and rests for REST_MS. */
const READING_MS = 300;
const REST_MS = 700;
const FINAL: ReadonlySet<string> = new Set(['unauthorized', 'forbidden', 'forbidden_host', 'invalid_parameter']);

export interface LiveTailOptions {
  daemon: Daemon;
  filters: URLSearchParams;
  /** Called after every change of the properties of the `LiveTail`. */
  onChange: () => void;
}

export function openTail({ daemon, filters, onChange }: LiveTailOptions): LiveTail {
  const closing = new AbortController();
  const kept = createKept();
  const place = createPlace(filters);
  let state: TailState = 'connecting';
  let failure: Failure | null = null;
  /** Time at which following stopped; null while the stream is followed. */
  let stoppedMs: number | null = 0;
  /** Ends the present connection, or the wait for the next connection. */
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
    const limit = release ? [] : [AbortSignal.timeout(READING_MS)];
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
    const signal = createShownSignal(AbortSignal.any([round.signal, ...limit]));
    const refused = await followStream(daemon, stream, signal).finally(() => release?.());
    if (refused) become('refused', refused);
    // A hidden tab reads no events, so its state must not stay `following`.
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
      // The abort removes the listeners of this round.
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

/** Moves the end of the minute to the time up to which events were read. Returns null until the daemon has answered. */
export function advanceMinute({ kept: { minute, arrivals }, readMs }: LiveTail): Minute | null {
  if (!minute || !arrivals) return null;
  const endMs = readMs(performance.now());
  minute.advance(arrivals.computeClockNs(endMs) - BigInt(Math.round(arrivals.computeLagMs(endMs) * 1e6)));
  return minute;
}

/**
 * Keeps the point at which the stream continues: after the last frame, or at the stream's start if no frame has come.
 */
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
    /**
     * Takes the answer that opens a connection. Returns the daemon's clock at that time, in milliseconds since the
     * epoch.
     */
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
