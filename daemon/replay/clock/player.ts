/**
 * Plays the frames of sessions at their time, in a thread of the addon that nothing else delays: no request, no garbage
 * collection. Tests play them themselves, by a simulated clock.
 */

import { createRequire } from 'node:module';
import type { SteadyNow } from './clock.ts';
import type { Scheduler } from './scheduler.ts';

export interface Track {
  /** Number of frames played so far, as far as `reportPlayed` has reported them. */
  readonly playedCount: number;
  /** Plays frames of `bytes`, each no earlier than those before it. */
  feed(bytes: Uint8Array, frames: BigInt64Array): void;
  /** Takes back the frames that were not played; `reportPlayed` reports the others. */
  takeBack(): void;
  /** Reports the lateness of each frame that was played since; returns how many. */
  reportPlayed(record: (latenessNs: number) => void): number;
  setWakes(wakes: boolean): void;
  /**
   * The socket has the frames that `reportPlayed` has reported, and gets all others; undefined if the process has no more
   * descriptors.
   */
  attach(fd: number, isChunked: boolean): number | undefined;
  /** Bytes that the socket of each viewer took; those that were full, and get no more frames, are left out. */
  readSentBytes(): Map<number, number>;
  /** Undefined when the player or the track was closed before. */
  detach(viewer: number): Left | undefined;
  close(): void;
}

export interface Player {
  /** `onWake` is called after frames were played that somebody waits for; see `setWakes`. */
  track(onWake: () => void): Track;
  close(): void;
}

const LATENESSES = 1024;
const WOKEN_MAX = 1024;
/** The most viewers of a track whose bytes are reported. */
const SENT_MAX = 1024;

export function createThreadPlayer(): Player {
  const native = nativeClock.createPlayer(() => made.wake(), true);
  const made = wrapNativePlayer(native, () => {});
  return made.player;
}

/** A player whose time is that of `now`: it plays when the scheduler rings. */
export function createScheduledPlayer(now: SteadyNow, scheduler: Scheduler): Player {
  const native = nativeClock.createPlayer(() => {}, false);
  const alarm = scheduler.createAlarm(() => {
    const nextNs = nativeClock.run(native, now());
    made.wake();
    if (nextNs !== undefined) alarm.set(nextNs);
  });
  const made = wrapNativePlayer(native, () => alarm.set(now()));
  return made.player;
}

/** `wake` reports to the tracks that have woken JavaScript, which may be after the player was closed. */
function wrapNativePlayer(native: NativePlayer, onFed: () => void): { player: Player; wake: () => void } {
  const tracks = new Map<number, () => void>();
  const woken = new Uint32Array(WOKEN_MAX);
  const latenesses = new Float64Array(LATENESSES);
  const names = new Uint32Array(SENT_MAX);
  const sent = new Float64Array(SENT_MAX);
  let isClosed = false;

  function wake(): void {
    for (let count = WOKEN_MAX; count === WOKEN_MAX && !isClosed; ) {
      count = nativeClock.takeWoken(native, woken);
      for (let i = 0; i < count; i++) tracks.get(woken[i]!)?.();
    }
  }

  function track(onWake: () => void): Track {
    const id = nativeClock.addTrack(native);
    tracks.set(id, onWake);
    let playedCount = 0;
    let isGone = false;
    let isWaking = false;
    const isOver = () => isGone || isClosed;

    return {
      get playedCount() {
        return playedCount;
      },
      feed(bytes, frames) {
        if (isOver()) return;
        nativeClock.feed(native, id, bytes, frames);
        onFed();
      },
      takeBack() {
        if (!isOver()) nativeClock.takeBack(native, id);
      },
      reportPlayed(record) {
        let total = 0;
        if (isOver()) return 0;
        for (let count = LATENESSES; count === LATENESSES; ) {
          count = nativeClock.takeLateness(native, id, latenesses);
          for (let i = 0; i < count; i++) record(latenesses[i]!);
          total += count;
        }
        playedCount += total;
        return total;
      },
      setWakes(wakes) {
        if (wakes !== isWaking && !isOver()) nativeClock.setWakes(native, id, wakes);
        isWaking = wakes;
      },
      attach: (fd, isChunked) => (isOver() ? undefined : nativeClock.attach(native, id, fd, isChunked)),
      readSentBytes() {
        const count = isOver() ? 0 : nativeClock.sentBytes(native, id, names, sent);
        const bytes = new Map<number, number>();
        for (let i = 0; i < count; i++) bytes.set(names[i]!, sent[i]!);
        return bytes;
      },
      detach: (viewer) => (isOver() ? undefined : nativeClock.detach(native, id, viewer)),
      close() {
        tracks.delete(id);
        if (!isOver()) nativeClock.removeTrack(native, id);
        isGone = true;
      },
    };
  }

  const player: Player = {
    track,
    close() {
      if (isClosed) return;
      isClosed = true;
      tracks.clear();
      nativeClock.closePlayer(native);
    },
  };
  return { player, wake };
}

/* The addon native/clock, which plays frames at their time: native/clock/player.h says how. */

declare const PLAYER: unique symbol;
/** Memory of the addon, until the player is closed. */
interface NativePlayer {
  readonly [PLAYER]: never;
}

/** What a viewer's socket got: frames up to this one, but for the bytes of `rest`. */
interface Left {
  through: number;
  /** Number of bytes that its socket took. */
  sent: number;
  rest: Buffer;
}

/** Columns of events as JSON: see the PlanPage of a plan. */
interface PlanPageColumns {
  first: number;
  startNs: Float64Array;
  durationNs: Float64Array;
  isOwn: Uint8Array;
  bytes: Uint8Array;
  ends: Uint32Array;
}

/** A track is the number of a sequence of frames and of those that view it. */
interface NativeClock {
  /** `onWake` is called when frames were played, see `setWakes`. Without a thread, only `run` plays. */
  createPlayer(onWake: () => void, hasThread: boolean): NativePlayer;
  /** Ends its thread; it can do nothing more. */
  closePlayer(player: NativePlayer): void;
  addTrack(player: NativePlayer): number;
  removeTrack(player: NativePlayer, track: number): void;
  /**
   * Plays frames when they are due: four numbers each, FRAME says which. They must be due no earlier than those before
   * them, and `bytes` must stay until they were played or taken back.
   */
  feed(player: NativePlayer, track: number, bytes: Uint8Array, frames: BigInt64Array): void;
  /** Takes back the frames that were not played. */
  takeBack(player: NativePlayer, track: number): void;
  /** Returns how many frames were played since, and sets the lateness of each, at most as many as there is room for. */
  takeLateness(player: NativePlayer, track: number, to: Float64Array): number;
  /** Whether every frame that is played wakes JavaScript; a socket without room always does. */
  setWakes(player: NativePlayer, track: number, wakes: boolean): void;
  /** Returns the tracks that woke JavaScript. */
  takeWoken(player: NativePlayer, to: Uint32Array): number;
  /**
   * Writes frames to a socket as they are played, and at once those that `takeLateness` has not reported yet. Returns
   * undefined if the process has no more descriptors.
   */
  attach(player: NativePlayer, track: number, fd: number, isChunked: boolean): number | undefined;
  /**
   * Sets the names of viewers and the bytes that their sockets took, and returns how many: without those that had no
   * room, and get no more frames.
   */
  sentBytes(player: NativePlayer, track: number, viewers: Uint32Array, bytes: Float64Array): number;
  detach(player: NativePlayer, track: number, viewer: number): Left | undefined;
  /** Measures how many nanoseconds it takes to send a frame and to receive it; undefined if the process has no socket. */
  measureSending(frame: Uint8Array): number | undefined;
  /**
   * Writes the events of a page from `at` on with their replay fields, one for each of `frames`, which has the time when
   * it is due: as frames of server-sent events with ids from `firstId`, or as plain JSON if that is null. Sets where each
   * is in `to`, whose first one starts at `start`, and returns how many fit.
   */
  writeEvents(
    page: PlanPageColumns,
    at: number,
    frames: BigInt64Array,
    timeoutNs: number | null,
    firstId: number | null,
    to: Uint8Array,
    start: number,
  ): number;
  /** Plays what is due at this time; returns when the next frame is due. */
  run(player: NativePlayer, nowNs: bigint): bigint | undefined;
}

/** The numbers of a frame in `feed`; the last one is an offset from its start. */
export const FRAME = { due: 0, start: 1, size: 2, latenessAt: 3, length: 4 } as const;

export const nativeClock: NativeClock = createRequire(import.meta.url)('#clock');
