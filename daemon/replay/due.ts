/** The events of a session that are to be sent now. */
import type { ReplayClock } from './clock.ts';
import type { Piece, Slice } from './frames.ts';
import { replayText } from './replayed_event.ts';
import type { EntryAtHand, Window } from './window.ts';

/** Emitted in one turn of the event loop; then sockets and other sessions have theirs. */
export const BURST_EVENTS_MAX = 256;
export interface DueEvent {
  entry: EntryAtHand;
  dueNs: bigint;
  /** Without the brace at its end. */
  json: Slice;
}

/** From an index on, as far as they are at hand. */
export function dueEvents(window: Window, clock: ReplayClock, next: number, nowNs: bigint): DueEvent[] {
  const events: DueEvent[] = [];
  for (let index = next; events.length < BURST_EVENTS_MAX; index++) {
    const entry = window.at(index);
    if (!entry) break;
    const dueNs = clock.dueAt(BigInt(entry.startNs));
    if (dueNs > nowNs) break;
    events.push({ entry, dueNs, json: window.openJson(index) });
  }
  return events;
}

/** Events that are sent now, as JSON: one by itself, several as a list. */
export function toldNow(due: readonly DueEvent[], first: number, sentNs: bigint, timeoutNs: bigint | null): Piece[] {
  const pieces: Piece[] = [];
  for (const [at, { entry, dueNs, json }] of due.entries()) {
    if (at > 0) pieces.push(',');
    pieces.push(json, replayText({ index: first + at, ...entry, dueNs, latenessNs: sentNs - dueNs }, timeoutNs));
  }
  return due.length === 1 ? pieces : ['[', ...pieces, ']'];
}

/** The first event from an index on that is due later than a moment, or the first that is not at hand. */
export function laterThan(window: Window, clock: ReplayClock, next: number, momentNs: bigint): number {
  let index = next;
  for (let entry = window.at(index); entry; entry = window.at(++index))
    if (clock.dueAt(BigInt(entry.startNs)) > momentNs) break;
  return index;
}
