/** The addon native/clock, which plays frames at their time: native/clock/player.h says how. */
import { createRequire } from 'node:module';

declare const PLAYER: unique symbol;
/** Memory of the addon, until the player is closed. */
export interface NativePlayer {
  readonly [PLAYER]: never;
}

/** What a viewer's socket got: frames up to this one, but for the bytes of `rest`. */
export interface Left {
  through: number;
  /** Number of bytes that its socket took. */
  sent: number;
  rest: Buffer;
}

/** Columns of events as JSON: see the PlanPage of a plan. */
interface EventColumns {
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
    page: EventColumns,
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
