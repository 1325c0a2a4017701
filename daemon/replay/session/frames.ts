/**
 * The log of a session's server-sent events. Frames are numbered, and the latest are kept for viewers that lost their
 * connection or read slowly. The numbers are the play sequence; they only ever grow.
 */
import { formatFrame } from '../../base/sse.ts';
import { FRAME } from '../clock/native_player.ts';
import { eventBytes } from './event_buffer.ts';
import { type DueEvents, REPLAY_BYTES_MAX, writeEvents } from './replayed_event.ts';

export type FrameKind = 'event' | 'state' | 'end';

/** Limits of the frames kept for one session. */
export const KEPT_FRAMES_MAX = 16_384;
export const KEPT_BYTES_MAX = 16 * 1024 * 1024;
/** Limit for all sessions together; the session that exceeds it drops its own oldest frames. */
export const KEPT_BYTES_TOTAL_MAX = 256 * 1024 * 1024;

export interface KeptTotal {
  bytes: number;
}

export interface FrameLog {
  /** The id of the newest frame; `idBase` before the first. */
  readonly lastId: number;
  /** The id of the oldest kept frame; `lastId + 1` when none is kept. */
  readonly firstId: number;
  /** `events` is the number of events in the frame. */
  append(kind: FrameKind, json: string, events?: number): void;
  /**
   * Writes the frames of events, as many as fit into one run of bytes, and returns how many. They are not in the log until
   * they are committed, and nothing may be appended until then; their bytes stay until they are dropped or discarded.
   */
  prepare(events: DueEvents): { bytes: Buffer; count: number };
  /** Takes the oldest prepared frames into the log. */
  commit(count: number): void;
  /** Forgets the prepared frames. */
  discard(): void;
  /**
   * It returns the last id of a run of frames that starts at `id` and has `bytesMax` bytes or a little more: at least
   * one frame. `id` must be from `firstId` to `lastId`.
   */
  lastOf(id: number, bytesMax: number): number;
  /** The length in bytes of a run of frames that `lastOf` has found. */
  bytesOf(id: number, lastId: number): number;
  /** Copies such a run into a buffer. */
  copy(id: number, lastId: number, to: Buffer, at: number): void;
  /** The number of events in all frames up to this one; `id` must be from `firstId - 1` to `lastId`. */
  eventsThrough(id: number): number;
  clear(): void;
}

/** Frames share slabs: a buffer per frame would be 10 000 objects a second that live long enough to be promoted. */
const SLAB_BYTES = 256 * 1024;
const SLAB_FRAMES = 1024;
/** The first slab is small, because most sessions send few frames. */
const FIRST_SLAB_BYTES = 16 * 1024;
const FIRST_SLAB_FRAMES = 64;

/** A contiguous run of frames. */
interface Slab {
  firstId: number;
  count: number;
  bytes: Buffer;
  /** The end offset of each frame. */
  ends: Uint32Array;
  /** The number of events in all frames up to and including each. */
  eventsThrough: Float64Array;
}

/** The first id is `idBase` + 1. */
export function createFrameLog(total: KeptTotal, idBase = 0): FrameLog {
  const slabs: Slab[] = [];
  let spare: Slab | undefined;
  let firstId = idBase + 1;
  let lastId = idBase;
  /** The id of the newest prepared frame; `lastId` without any. */
  let preparedId = idBase;
  let keptBytes = 0;
  let eventsDropped = 0;
  let eventsAppended = 0;

  function slabOf(id: number): Slab {
    // The search starts at the newest slab, which nearly always has it.
    let at = slabs.length - 1;
    while (slabs[at]!.firstId > id) at--;
    return slabs[at]!;
  }

  /** The last slab if it has room, otherwise a new one. */
  function slabFor(bytesMax: number): Slab {
    const last = slabs.at(-1);
    if (last && last.count < last.ends.length && bytesMax <= last.bytes.length - endOf(last)) return last;
    const slab = newSlabFor(bytesMax);
    slab.firstId = preparedId + 1;
    slab.count = 0;
    slabs.push(slab);
    return slab;
  }

  function newSlabFor(bytesMax: number): Slab {
    if (bytesMax > SLAB_BYTES) return newSlab(bytesMax, 1);
    if (slabs.length === 0 && bytesMax <= FIRST_SLAB_BYTES) return newSlab(FIRST_SLAB_BYTES, FIRST_SLAB_FRAMES);
    const slab = spare ?? newSlab(SLAB_BYTES, SLAB_FRAMES);
    spare = undefined;
    return slab;
  }

  function add(bytes: number): void {
    keptBytes += bytes;
    total.bytes += bytes;
  }

  function dropOldest(): void {
    const slab = slabs[0]!;
    const at = firstId - slab.firstId;
    add(startOf(slab, at) - slab.ends[at]!);
    eventsDropped = slab.eventsThrough[at]!;
    firstId++;
    if (at + 1 < slab.count) return;
    slabs.shift();
    if (slab.bytes.length === SLAB_BYTES) spare = slab;
  }

  function tooMuch(): boolean {
    const frames = lastId + 1 - firstId;
    return frames > KEPT_FRAMES_MAX || keptBytes > KEPT_BYTES_MAX || total.bytes > KEPT_BYTES_TOTAL_MAX;
  }

  function append(kind: FrameKind, json: string, events = 0): void {
    const frame = formatFrame(kind, json, preparedId + 1);
    const slab = slabFor(Buffer.byteLength(frame));
    const start = endOf(slab);
    addFrame(slab, start + slab.bytes.write(frame, start), events);
    commit(1);
  }

  function addFrame(slab: Slab, end: number, events: number): void {
    eventsAppended += events;
    slab.ends[slab.count] = end;
    slab.eventsThrough[slab.count] = eventsAppended;
    slab.count++;
    preparedId++;
  }

  function prepare(due: DueEvents): { bytes: Buffer; count: number } {
    const slab = slabFor(eventBytes(due.page, due.at) + REPLAY_BYTES_MAX);
    const room = (slab.ends.length - slab.count) * FRAME.length;
    const frames = due.frames.length > room ? due.frames.subarray(0, room) : due.frames;
    const count = writeEvents({ ...due, frames }, preparedId + 1, slab.bytes, endOf(slab));
    for (let at = 0; at < count * FRAME.length; at += FRAME.length)
      addFrame(slab, Number(frames[at + FRAME.start]) + Number(frames[at + FRAME.size]), 1);
    return { bytes: slab.bytes, count };
  }

  function commit(count: number): void {
    for (let i = 0; i < count; i++) {
      lastId++;
      const slab = slabOf(lastId);
      const at = lastId - slab.firstId;
      add(slab.ends[at]! - startOf(slab, at));
      // The newest frame stays: it has not been sent to any viewer yet.
      while (firstId < lastId && tooMuch()) dropOldest();
    }
  }

  function discard(): void {
    for (let slab = slabs.at(-1); slab && slab.firstId + slab.count - 1 > lastId; slab = slabs.at(-1)) {
      slab.count = Math.max(lastId + 1 - slab.firstId, 0);
      if (slab.count > 0) break;
      slabs.pop();
      if (slab.bytes.length === SLAB_BYTES) spare = slab;
    }
    preparedId = lastId;
    eventsAppended = eventsThrough(lastId);
  }

  function eventsThrough(id: number): number {
    if (id < firstId) return eventsDropped;
    const slab = slabOf(id);
    return slab.eventsThrough[id - slab.firstId]!;
  }

  return {
    get lastId() {
      return lastId;
    },
    get firstId() {
      return firstId;
    },
    append,
    prepare,
    commit,
    discard,
    lastOf(id, bytesMax) {
      const slab = slabOf(id);
      let last = id - slab.firstId;
      const start = startOf(slab, last);
      const count = Math.min(slab.count, lastId + 1 - slab.firstId);
      while (last + 1 < count && slab.ends[last]! - start < bytesMax) last++;
      return slab.firstId + last;
    },
    bytesOf(id, last) {
      const slab = slabOf(id);
      return slab.ends[last - slab.firstId]! - startOf(slab, id - slab.firstId);
    },
    copy(id, last, to, at) {
      const slab = slabOf(id);
      slab.bytes.copy(to, at, startOf(slab, id - slab.firstId), slab.ends[last - slab.firstId]);
    },
    eventsThrough,
    clear() {
      while (firstId <= lastId) dropOldest();
      spare = undefined;
    },
  };
}

function newSlab(bytes: number, frames: number): Slab {
  return {
    ...{ firstId: 0, count: 0, bytes: Buffer.allocUnsafeSlow(bytes) },
    ends: new Uint32Array(frames),
    eventsThrough: new Float64Array(frames),
  };
}

function startOf({ ends }: Slab, at: number): number {
  return at === 0 ? 0 : ends[at - 1]!;
}

function endOf(slab: Slab): number {
  return startOf(slab, slab.count);
}
