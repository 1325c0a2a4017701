/**
 * Server-sent events: what a session has to tell, numbered, and the last of it kept for those who lost their connection
 * or read slowly. The numbers are the play sequence; they only ever grow. A frame is made bytes of once, however many
 * read it.
 */
import { formatFrame } from '../event_stream.ts';

/** `events`: several that fell due together, as a list. */
export type FrameKind = 'event' | 'events' | 'state' | 'gap' | 'end';

/** Frames kept of one session. */
export const KEPT_FRAMES_MAX = 16_384;
export const KEPT_BYTES_MAX = 16 * 1024 * 1024;
/** Of all sessions together; a session that goes beyond drops its own oldest. */
export const KEPT_BYTES_TOTAL_MAX = 256 * 1024 * 1024;

export interface KeptTotal {
  bytes: number;
}

export interface FrameLog {
  /** The base of the ids before the first. */
  readonly lastId: number;
  /** The oldest that is kept; `lastId + 1` when none is. */
  readonly firstId: number;
  /** `events`: how many it tells of. */
  append(kind: FrameKind, json: string, events?: number): void;
  /** Only for ids from `firstId` to `lastId`. */
  bytes(id: number): Buffer;
  /** Events that were told of up to a frame; only for ids from `firstId - 1` to `lastId`. */
  eventsThrough(id: number): number;
  clear(): void;
}

interface Kept {
  bytes: Buffer;
  /** With those of all frames before it. */
  eventsThrough: number;
}

/** `idBase`: ids begin behind it. */
export function createFrameLog(total: KeptTotal, idBase = 0): FrameLog {
  const kept = new Map<number, Kept>();
  let firstId = idBase + 1;
  let lastId = idBase;
  let keptBytes = 0;
  let eventsDropped = 0;
  let eventsAppended = 0;

  function dropOldest(): void {
    const { bytes, eventsThrough } = kept.get(firstId)!;
    kept.delete(firstId++);
    eventsDropped = eventsThrough;
    keptBytes -= bytes.length;
    total.bytes -= bytes.length;
  }

  function tooMuch(): boolean {
    return kept.size > KEPT_FRAMES_MAX || keptBytes > KEPT_BYTES_MAX || total.bytes > KEPT_BYTES_TOTAL_MAX;
  }

  return {
    get lastId() {
      return lastId;
    },
    get firstId() {
      return firstId;
    },
    append(kind, json, events = 0) {
      const bytes = Buffer.from(formatFrame(kind, json, ++lastId));
      eventsAppended += events;
      kept.set(lastId, { bytes, eventsThrough: eventsAppended });
      keptBytes += bytes.length;
      total.bytes += bytes.length;
      // The newest stays: it has not been sent to anybody yet.
      while (kept.size > 1 && tooMuch()) dropOldest();
    },
    bytes: (id) => kept.get(id)!.bytes,
    eventsThrough: (id) => kept.get(id)?.eventsThrough ?? eventsDropped,
    clear() {
      while (kept.size > 0) dropOldest();
    },
  };
}
