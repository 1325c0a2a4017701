/** The events of a session that are to be sent now. At 10 000 of them a second, nothing here is made that needs not be. */
import type { ReplayClock } from '../clock/clock.ts';
import type { Outline } from '../plan/plan.ts';
import type { EventBuffer } from './event_buffer.ts';
import type { WrittenText } from './frames.ts';
import { REPLAY_BYTES_MAX, writeReplay } from './replayed_event.ts';

/** Emitted in one turn of the event loop; then sockets and other sessions have theirs. */
export const BURST_EVENTS_MAX = 256;

/** Where those end that are due, from an index on, as far as they are at hand, up to another. */
export function dueUntil(window: EventBuffer, clock: ReplayClock, next: number, end: number, nowNs: bigint): number {
  const last = Math.min(end, next + BURST_EVENTS_MAX);
  for (let index = next; index < last; index++) {
    const startNs = window.startNs(index);
    if (startNs === undefined || clock.dueAt(startNs) > nowNs) return index;
  }
  return last;
}

/** Events from an index up to another that are sent now, as JSON: one by itself, several as a list. */
export function toldNow(
  window: EventBuffer,
  clock: ReplayClock,
  [first, end]: readonly [number, number],
  sentNs: bigint,
  timeoutNs: bigint | null,
): WrittenText {
  const isList = end - first > 1;
  let bytesMax = LIST_BYTES;
  for (let index = first; index < end; index++) bytesMax += window.jsonBytes(index) + REPLAY_BYTES_MAX;
  return {
    bytesMax,
    write(to, start) {
      let at = start;
      if (isList) to[at++] = OPENING_BRACKET;
      for (let index = first; index < end; index++) {
        if (index > first) to[at++] = COMMA;
        at = window.writeJson(index, to, at);
        const [startNs, durationNs] = [window.startNs(index)!, window.durationNs(index)];
        const isOwn = window.isOwn(index);
        at = writeReplay(to, at, { index, startNs, durationNs, isOwn, dueNs: clock.dueAt(startNs), sentNs }, timeoutNs);
      }
      if (isList) to[at++] = CLOSING_BRACKET;
      return at;
    },
  };
}

const [OPENING_BRACKET, CLOSING_BRACKET, COMMA] = Buffer.from('[],') as unknown as [number, number, number];
/** The brackets; the commas are counted with the events. */
const LIST_BYTES = 2;

/** A change of latency holds for events that are due later than this: those before are on their way. */
const CHANGE_AHEAD_NS = 20_000_000n;

/** The first event from an index on that a change of latency moves: any that is to come, unless the clock is running. */
export function firstToMove(window: EventBuffer, clock: ReplayClock, next: number, nowNs: bigint): number {
  let index = next;
  if (!clock.running) return index;
  for (let startNs = window.startNs(index); startNs !== undefined; startNs = window.startNs(++index))
    if (clock.dueAt(startNs) > nowNs + CHANGE_AHEAD_NS) break;
  return index;
}

/** Nothing is left to be emitted from an index on. */
export function isPlayedOut(window: EventBuffer, { survey, eventCount }: Outline, next: number): boolean {
  return window.isEnd(next) || (survey !== null && next >= eventCount);
}

/** Where the next event starts, or all is over; undefined while that is not known. */
export function boundOf(window: EventBuffer, outline: Outline, next: number): number | undefined {
  const endNs = () => (isPlayedOut(window, outline, next) ? outline.survey?.endNs : undefined);
  return window.startNs(next) ?? endNs();
}
