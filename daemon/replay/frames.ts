/**
 * Server-sent events: what a session has to tell, numbered, and the last of it kept for those who lost their connection
 * or read slowly. The numbers are the play sequence; they only ever grow.
 */
import { formatFrame } from '../event_stream.ts';

export type FrameKind = 'event' | 'state' | 'gap' | 'end';

/** Frames kept of one session. */
export const KEPT_FRAMES_MAX = 16_384;
export const KEPT_CHARACTERS_MAX = 16 * 1024 * 1024;
/** Of all sessions together; a session that goes beyond drops its own oldest. */
export const KEPT_CHARACTERS_TOTAL_MAX = 256 * 1024 * 1024;

export interface KeptTotal {
  characters: number;
}

export interface FrameLog {
  /** 0 before the first. */
  readonly lastId: number;
  /** The oldest that is kept; `lastId + 1` when none is. */
  readonly firstId: number;
  append(kind: FrameKind, json: string): void;
  /** Only for ids from `firstId` to `lastId`. */
  text(id: number): string;
  clear(): void;
}

export function createFrameLog(total: KeptTotal): FrameLog {
  const kept = new Map<number, string>();
  let firstId = 1;
  let lastId = 0;
  let characters = 0;

  function dropOldest(): void {
    const { length } = kept.get(firstId)!;
    kept.delete(firstId++);
    characters -= length;
    total.characters -= length;
  }

  function tooMuch(): boolean {
    return (
      kept.size > KEPT_FRAMES_MAX || characters > KEPT_CHARACTERS_MAX || total.characters > KEPT_CHARACTERS_TOTAL_MAX
    );
  }

  return {
    get lastId() {
      return lastId;
    },
    get firstId() {
      return firstId;
    },
    append(kind, json) {
      const text = formatFrame(kind, json, ++lastId);
      kept.set(lastId, text);
      characters += text.length;
      total.characters += text.length;
      // The newest stays: it has not been sent to anybody yet.
      while (kept.size > 1 && tooMuch()) dropOldest();
    },
    text: (id) => kept.get(id)!,
    clear() {
      while (kept.size > 0) dropOldest();
    },
  };
}
