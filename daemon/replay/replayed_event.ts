/** What a replay says of an event, and the JSON of both. */
import type { PlanPage } from './plan/plan.ts';
import { openJson } from './window.ts';

/** As the API gives it, beside the event's own fields. */
export interface ReplayedEvent {
  index: number;
  /** On the replay's own time line. */
  offset_ns: number;
  /** On the daemon's steady clock (CLOCK_MONOTONIC). */
  due_ns: bigint;
  lateness_ns: bigint;
  /** With what was added to it. */
  duration_ns: number;
  after_timeout: boolean;
}

export interface Replayed {
  index: number;
  startNs: number;
  durationNs: number;
  dueNs: bigint;
  latenessNs: bigint;
}

/** What follows the event's own fields, to the brace at its end. */
export function replayText(replayed: Replayed, timeoutNs: bigint | null): string {
  const { index, startNs, durationNs, dueNs, latenessNs } = replayed;
  const times = `"offset_ns":${startNs},"due_ns":${dueNs},"lateness_ns":${latenessNs},"duration_ns":${durationNs}`;
  const isAfter = isAfterTimeout(startNs + durationNs, timeoutNs);
  return `,"replay":{"index":${index},${times},"after_timeout":${isAfter}}}`;
}

/** Events that are stepped over, each as JSON: due when they are asked for. */
export function steppedJson(page: PlanPage, dueNs: bigint, timeoutNs: bigint | null): string[] {
  return Array.from({ length: page.count }, (_, at) => {
    const times = { startNs: page.startNs[at]!, durationNs: page.durationNs[at]!, dueNs, latenessNs: 0n };
    return openJson(page, at) + replayText({ index: page.first + at, ...times }, timeoutNs);
  });
}

/** A page of the schedule, each event as JSON. */
export function scheduledJson(page: PlanPage, timeoutNs: bigint | null): string[] {
  return Array.from({ length: page.count }, (_, at) => {
    const [startNs, durationNs] = [page.startNs[at]!, page.durationNs[at]!];
    const scheduled = {
      replay_index: page.first + at,
      replay_offset_ns: startNs,
      replay_duration_ns: durationNs,
      after_timeout: isAfterTimeout(startNs + durationNs, timeoutNs),
    };
    return `${openJson(page, at)},${JSON.stringify(scheduled).slice(1)}`;
  });
}

function isAfterTimeout(endNs: number, timeoutNs: bigint | null): boolean {
  return timeoutNs !== null && endNs > timeoutNs;
}
