/** Finds the events of a session that are due next, and those that a change still moves. */
import type { ReplayClock } from '../clock/clock.ts';
import { FRAME } from '../clock/native_player.ts';
import type { Outline, PlanPage } from '../plan/plan.ts';
import type { EventBuffer } from './event_buffer.ts';

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

/**
 * A gap that was cut may end before the position at which that was asked for: the event after it, the first of the page,
 * was due then.
 */
export function stayBefore(clock: ReplayClock, askedAtNs: number, { startNs: [startNs] }: PlanPage): void {
  if (startNs === undefined || askedAtNs <= startNs) return;
  const atNs = clock.positionNs();
  // A pause meanwhile has brought the position to the event already.
  if (atNs > startNs) clock.jump(atNs - BigInt(askedAtNs - startNs));
}

/**
 * Sets when events of a page are due, from the one at `at` on: those that are due by a time and start by a position, as
 * many as there is room. At a high speed a later start may be due at the same nanosecond.
 */
export function setDue(
  frames: BigInt64Array,
  clock: ReplayClock,
  { page, at, untilNs, lastStartNs }: { page: PlanPage; at: number; untilNs: bigint; lastStartNs: number },
): number {
  const most = Math.min(page.count - at, frames.length / FRAME.length);
  for (let i = 0; i < most; i++) {
    const startNs = page.startNs[at + i]!;
    const dueNs = clock.dueAt(startNs);
    if (dueNs > untilNs || startNs > lastStartNs) return i;
    frames[i * FRAME.length + FRAME.due] = dueNs;
  }
  return most;
}
