/** What a replay says of an event, and the JSON of both. */

import type { PlanPage } from '../plan/plan.ts';
import { DIGITS_MAX, writeBigDigits, writeDigits } from './digits.ts';
import { jsonBytes, openJson, writeJson } from './event_buffer.ts';

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
  isOwn: boolean;
  dueNs: bigint;
  sentNs: bigint;
}

/** What follows the event's own fields, as far as it is always the same. */
const NAMES = {
  index: Buffer.from(',"replay":{"index":'),
  offset: Buffer.from(',"offset_ns":'),
  due: Buffer.from(',"due_ns":'),
  lateness: Buffer.from(',"lateness_ns":'),
  duration: Buffer.from(',"duration_ns":'),
  inTime: Buffer.from(',"after_timeout":false}}'),
  afterTimeout: Buffer.from(',"after_timeout":true}}'),
} as const satisfies Record<string, Buffer>;

/** More than what follows the event's own fields ever takes. */
export const REPLAY_BYTES_MAX = Object.values(NAMES).reduce((sum, name) => sum + name.length + DIGITS_MAX, 0);

/** What follows the event's own fields, to the brace at its end. Gives where that is. */
export function writeReplay(to: Buffer, at: number, replayed: Replayed, timeoutNs: bigint | null): number {
  const { index, startNs, durationNs, isOwn, dueNs, sentNs } = replayed;
  let end = writeDigits(to, writeName(to, at, NAMES.index), index);
  end = writeDigits(to, writeName(to, end, NAMES.offset), startNs);
  end = writeBigDigits(to, writeName(to, end, NAMES.due), dueNs);
  end = writeDigits(to, writeName(to, end, NAMES.lateness), Number(sentNs - dueNs));
  end = writeDigits(to, writeName(to, end, NAMES.duration), durationNs);
  return writeName(
    to,
    end,
    isOwn && isAfterTimeout(startNs + durationNs, timeoutNs) ? NAMES.afterTimeout : NAMES.inTime,
  );
}

function writeName(to: Buffer, at: number, name: Buffer): number {
  to.set(name, at);
  return at + name.length;
}

/** Events that are stepped over, each as JSON: due when they are asked for. */
export function steppedJson(page: PlanPage, nowNs: bigint, timeoutNs: bigint | null): string[] {
  return Array.from({ length: page.count }, (_, at) => {
    const json = Buffer.allocUnsafe(jsonBytes(page, at) + REPLAY_BYTES_MAX);
    const times = { startNs: page.startNs[at]!, durationNs: page.durationNs[at]!, dueNs: nowNs, sentNs: nowNs };
    const replayed = { index: page.first + at, isOwn: page.isOwn[at] === 1, ...times };
    const end = writeReplay(json, writeJson(page, at, json, 0), replayed, timeoutNs);
    return json.toString('utf8', 0, end);
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
      after_timeout: page.isOwn[at] === 1 && isAfterTimeout(startNs + durationNs, timeoutNs),
    };
    return `${openJson(page, at)},${JSON.stringify(scheduled).slice(1)}`;
  });
}

function isAfterTimeout(endNs: number, timeoutNs: bigint | null): boolean {
  return timeoutNs !== null && endNs > timeoutNs;
}
