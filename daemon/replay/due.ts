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

/** From an index on, as far as they are at hand, up to another. */
export function dueEvents(
  window: Window,
  clock: ReplayClock,
  [next, end]: readonly [number, number],
  nowNs: bigint,
): DueEvent[] {
  const events: DueEvent[] = [];
  for (let index = next; index < end && events.length < BURST_EVENTS_MAX; index++) {
    const entry = window.at(index);
    if (!entry) break;
    const dueNs = clock.dueAt(BigInt(entry.startNs));
    if (dueNs > nowNs) break;
    events.push({ entry, dueNs, json: window.openJson(index) });
  }
  return events;
}

/** Events that are sent now, as JSON: one by itself, several as a list. `onTold` is called with how late each is. */
export function toldNow(
  due: readonly DueEvent[],
  first: number,
  sentNs: bigint,
  timeoutNs: bigint | null,
  onTold: (latenessNs: bigint) => void,
): Piece[] {
  const pieces: Piece[] = [];
  for (const [at, { entry, dueNs, json }] of due.entries()) {
    const latenessNs = sentNs - dueNs;
    onTold(latenessNs);
    if (at > 0) pieces.push(',');
    pieces.push(json, replayText({ index: first + at, ...entry, dueNs, latenessNs }, timeoutNs));
  }
  return due.length === 1 ? pieces : ['[', ...pieces, ']'];
}

/** A change of latency holds for events that are due later than this: those before are on their way. */
const CHANGE_AHEAD_NS = 20_000_000n;

/** The first event from an index on that a change of latency moves: any that is to come, unless the clock is running. */
export function firstToMove(window: Window, clock: ReplayClock, next: number, nowNs: bigint): number {
  let index = next;
  if (!clock.running) return index;
  for (let entry = window.at(index); entry; entry = window.at(++index))
    if (clock.dueAt(BigInt(entry.startNs)) > nowNs + CHANGE_AHEAD_NS) break;
  return index;
}
