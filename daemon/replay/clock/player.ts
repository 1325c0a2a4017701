/**
 * Plays the frames of sessions when they are due. The addon does this in its own thread, which neither requests nor
 * garbage collection delay. Tests play frames without the thread, with a simulated clock.
 */

import { createRequire } from 'node:module';
import type { SteadyNow } from './clock.ts';
import type { Scheduler } from './scheduler.ts';

export interface Track {
  /** Number of played frames that `reportPlayed` has reported. */
  readonly playedCount: number;
  /** Plays frames of `bytes` when they are due; no frame may be due before an earlier one. */
  feed(bytes: Uint8Array, frames: BigInt64Array): void;
  /** Takes back the frames that were not played; `reportPlayed` reports the played ones. */
  takeBack(): void;
  /** Reports the lateness of each frame played since the last report; returns the number of these frames. */
  reportPlayed(record: (latenessNs: number) => void): number;
  setWakes(wakes: boolean): void;
  /**
   * Adds a viewer's socket, to which all frames reported by `reportPlayed` were already written; the player writes all
   * later frames. Returns the viewer's number; undefined if the process has no more descriptors.
   */
  attach(fd: number, isChunked: boolean): number | undefined;
  /**
   * Returns for each viewer's number how many bytes the viewer's socket accepted. A viewer whose socket was full gets
   * no more frames and is left out.
   */
  readSentBytes(): Map<number, number>;
  /** Removes a viewer; returns undefined if the player or the track is already closed. */
  detach(viewer: number): Left | undefined;
  close(): void;
}

export interface Player {
  /** Adds a track. `onWake` is called after the player has played frames that viewers wait for; see `setWakes`. */
  track(onWake: () => void): Track;
  close(): void;
}

const LATENESSES = 1024;
const WOKEN_MAX = 1024;
/** Maximum number of a track's viewers whose bytes are reported. */
const SENT_MAX = 1024;

export function createThreadPlayer(): Player {
  const native = nativeClock.createPlayer(() => made.wake(), true);
  const made = wrapNativePlayer(native, () => {});
  return made.player;
}

/** Creates a player without a thread: it reads the time with `now`, and plays when the scheduler's alarm rings. */
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

/**
 * Wraps a native player. The returned `wake` calls `onWake` of each track that has woken JavaScript, and may be called
 * even after the player was closed.
 */
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

/* The addon native/clock, which plays frames when they are due, as described in native/clock/player.h. */

declare const PLAYER: unique symbol;
/** Handle of a player's memory in the addon, valid until the player is closed. */
interface NativePlayer {
  readonly [PLAYER]: never;
}

/** The frames that a viewer's socket got: all frames up to number `through`, except the bytes of `rest`. */
interface Left {
  through: number;
  /** Number of bytes that the socket accepted. */
  sent: number;
  rest: Buffer;
}

/** Columns of events as JSON, as in `PlanPage`. */
interface PlanPageColumns {
  first: number;
  startNs: Float64Array;
  durationNs: Float64Array;
  isOwn: Uint8Array;
  bytes: Uint8Array;
  ends: Uint32Array;
}

/** The functions of the addon. A track is a sequence of frames with its viewers, and is identified by a number. */
interface NativeClock {
  /** `onWake` is called when frames were played, see `setWakes`. Without a thread, frames are played only by `run`. */
  createPlayer(onWake: () => void, hasThread: boolean): NativePlayer;
  /** Ends the player's thread; the player must not be used afterwards. */
  closePlayer(player: NativePlayer): void;
  addTrack(player: NativePlayer): number;
  removeTrack(player: NativePlayer, track: number): void;
  /**
   * Plays frames when they are due. Each frame consists of four numbers, whose offsets FRAME names. No frame may be due
   * before an earlier one, and `bytes` must stay until the frames were played or taken back.
   */
  feed(player: NativePlayer, track: number, bytes: Uint8Array, frames: BigInt64Array): void;
  /** Takes back the frames that were not played. */
  takeBack(player: NativePlayer, track: number): void;
  /**
   * Stores in `to` the lateness of each frame played since the last call, until `to` is full; returns the number of
   * stored values.
   */
  takeLateness(player: NativePlayer, track: number, to: Float64Array): number;
  /** Sets whether every played frame wakes JavaScript. A full socket always wakes JavaScript. */
  setWakes(player: NativePlayer, track: number, wakes: boolean): void;
  /** Returns the tracks that woke JavaScript. */
  takeWoken(player: NativePlayer, to: Uint32Array): number;
  /**
   * Writes frames to a socket when they are played; played frames that `takeLateness` has not reported yet are written
   * at once. Returns the viewer's number; undefined if the process has no more descriptors.
   */
  attach(player: NativePlayer, track: number, fd: number, isChunked: boolean): number | undefined;
  /**
   * Stores the numbers of viewers and how many bytes their sockets accepted; returns the number of viewers stored. A
   * viewer whose socket was full gets no more frames and is left out.
   */
  sentBytes(player: NativePlayer, track: number, viewers: Uint32Array, bytes: Float64Array): number;
  detach(player: NativePlayer, track: number, viewer: number): Left | undefined;
  /** Measures how many nanoseconds it takes to send and receive a frame; undefined if the process gets no socket. */
  measureSending(frame: Uint8Array): number | undefined;
  /**
   * Writes the events of a page from row `at` on into `to`, from offset `start` on: one event with its replay fields
   * for each frame in `frames`, which contains the event's deadline. Events become server-sent events with ids from
   * `firstId` on, or plain JSON if `firstId` is null. Stores the start and size of each event and the offset of its
   * lateness in `frames`, and returns how many events fit.
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
  /** Plays the frames that are due at `nowNs`; returns when the next frame is due. */
  run(player: NativePlayer, nowNs: bigint): bigint | undefined;
}

/**
 * The offsets of a frame's numbers in `feed`. The number at `latenessAt` is itself an offset from the start of the
 * frame's bytes.
 */
export const FRAME = { due: 0, start: 1, size: 2, latenessAt: 3, length: 4 } as const;

export const nativeClock: NativeClock = createRequire(import.meta.url)('#clock');
