/**
 * Selects and formats the events of a session that are due. Hot path at 10 000 events a second: it allocates little.
 */
import type { ReplayClock } from '../clock/clock.ts';
import type { Outline } from '../plan/plan.ts';
import type { EventBuffer } from './event_buffer.ts';
import type { WrittenText } from './frames.ts';
import { REPLAY_BYTES_MAX, writeReplay } from './replayed_event.ts';

/** Events emitted in one turn of the event loop, so that sockets and other sessions are served in between. */
export const BURST_EVENTS_MAX = 256;

/** It returns the end of the due events that start at `next`, limited by `end`, the burst and the loaded pages. */
export function countDue(window: EventBuffer, clock: ReplayClock, next: number, end: number, nowNs: bigint): number {
  const last = Math.min(end, next + BURST_EVENTS_MAX);
  for (let index = next; index < last; index++) {
    const startNs = window.startNs(index);
    if (startNs === undefined || clock.dueAt(startNs) > nowNs) return index;
  }
  return last;
}

/** The events of a range that are sent now, as JSON: a single one as an object, several as an array. */
export function encodeDueEvents(
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
/** The two brackets. A comma takes the place of the event's closing brace, so it is counted with the event. */
const LIST_BYTES = 2;

/** A change of latency applies to events that are due later than this from now; earlier ones keep their schedule. */
const CHANGE_AHEAD_NS = 20_000_000n;

/** The first event that a change of latency moves. With a stopped clock that is the next event itself. */
export function firstToMove(window: EventBuffer, clock: ReplayClock, next: number, nowNs: bigint): number {
  let index = next;
  if (!clock.running) return index;
  for (let startNs = window.startNs(index); startNs !== undefined; startNs = window.startNs(++index))
    if (clock.dueAt(startNs) > nowNs + CHANGE_AHEAD_NS) break;
  return index;
}

/** Whether no event is left to be emitted from an index on. */
export function isPlayedOut(window: EventBuffer, { survey, eventCount }: Outline, next: number): boolean {
  return window.isEnd(next) || (survey !== null && next >= eventCount);
}

/** The start of the next event or, after the last, the end of the replay; undefined while it is not known. */
export function boundOf(window: EventBuffer, outline: Outline, next: number): number | undefined {
  const endNs = () => (isPlayedOut(window, outline, next) ? outline.survey?.endNs : undefined);
  return window.startNs(next) ?? endNs();
}
