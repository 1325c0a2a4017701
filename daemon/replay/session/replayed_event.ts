/** Writes the JSON of an event together with its replay fields. */
import { FRAME, nativeClock } from '../clock/native_player.ts';
import type { PlanPage } from '../plan/plan.ts';
import { openJson } from './event_buffer.ts';

/** The replay fields of an event in the API, which follow the event's own fields. */
export interface ReplayedEvent {
  index: number;
  /** Start on the replay's own time line. */
  offset_ns: number;
  /** Deadline on the daemon's steady clock (CLOCK_MONOTONIC). */
  due_ns: bigint;
  lateness_ns: bigint;
  /** Duration including the extra latency. */
  duration_ns: number;
  after_timeout: boolean;
}

/** Events of a page, from the one at `at` on, as many as are given a time when they are due. */
export interface DueEvents {
  page: PlanPage;
  at: number;
  /** Their times and, once they are written, their places: FRAME says which numbers. */
  frames: BigInt64Array;
  timeoutNs: bigint | null;
}

/** An upper bound of what is written for an event beside its own JSON. */
export const REPLAY_BYTES_MAX = 320;

/** Writes events into a buffer, as many as fit, and returns how many: as frames from `firstId` on, or as plain JSON. */
export function writeEvents(events: DueEvents, firstId: number | null, to: Buffer, start: number): number {
  const { page, at, frames, timeoutNs } = events;
  return nativeClock.writeEvents(page, at, frames, timeoutNs === null ? null : Number(timeoutNs), firstId, to, start);
}

/** The events of a step, each as JSON. Their deadline is the time of the request. */
export function steppedJson(page: PlanPage, nowNs: bigint, timeoutNs: bigint | null): string[] {
  const frames = new BigInt64Array(page.count * FRAME.length);
  for (let at = FRAME.due; at < frames.length; at += FRAME.length) frames[at] = nowNs;
  const to = Buffer.allocUnsafe(page.bytes.length + page.count * REPLAY_BYTES_MAX);
  writeEvents({ page, at: 0, frames, timeoutNs }, null, to, 0);
  return Array.from({ length: page.count }, (_, at) => {
    const [start, size] = [FRAME.start, FRAME.size].map((field) => Number(frames[at * FRAME.length + field]));
    return to.toString('utf8', start, start! + size!);
  });
}

/** The events of a page of the schedule, each as JSON. */
export function scheduledJson(page: PlanPage, timeoutNs: bigint | null): string[] {
  return Array.from({ length: page.count }, (_, at) => {
    const [startNs, durationNs] = [page.startNs[at]!, page.durationNs[at]!];
    const scheduled = {
      replay_index: page.first + at,
      replay_offset_ns: startNs,
      replay_duration_ns: durationNs,
      after_timeout: page.isOwn[at] === 1 && isAfterTimeout(startNs + durationNs, timeoutNs),
    };
    return `${openJson(page, at)},${JSON.stringify(scheduled).slice(1)}`;
  });
}

function isAfterTimeout(endNs: number, timeoutNs: bigint | null): boolean {
  return timeoutNs !== null && endNs > timeoutNs;
}
