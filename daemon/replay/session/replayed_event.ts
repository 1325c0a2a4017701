/** Writes the JSON of an event together with its replay fields. */

import type { PlanPage } from '../plan/plan.ts';
import { DIGITS_MAX, writeBigDigits, writeDigits } from './digits.ts';
import { jsonBytes, openJson, writeJson } from './event_buffer.ts';

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

export interface Replayed {
  index: number;
  startNs: number;
  durationNs: number;
  isOwn: boolean;
  dueNs: bigint;
  sentNs: bigint;
}

/** The constant parts of the replay fields. */
const NAMES = {
  index: Buffer.from(',"replay":{"index":'),
  offset: Buffer.from(',"offset_ns":'),
  due: Buffer.from(',"due_ns":'),
  lateness: Buffer.from(',"lateness_ns":'),
  duration: Buffer.from(',"duration_ns":'),
  inTime: Buffer.from(',"after_timeout":false}}'),
  afterTimeout: Buffer.from(',"after_timeout":true}}'),
} as const satisfies Record<string, Buffer>;

/** An upper bound of the length of the replay fields. */
export const REPLAY_BYTES_MAX = Object.values(NAMES).reduce((sum, name) => sum + name.length + DIGITS_MAX, 0);

/** Writes the replay fields and the event's closing brace; returns the offset of the end. */
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

/** The events of a step, each as JSON. Their deadline is the time of the request. */
export function steppedJson(page: PlanPage, nowNs: bigint, timeoutNs: bigint | null): string[] {
  return Array.from({ length: page.count }, (_, at) => {
    const json = Buffer.allocUnsafe(jsonBytes(page, at) + REPLAY_BYTES_MAX);
    const times = { startNs: page.startNs[at]!, durationNs: page.durationNs[at]!, dueNs: nowNs, sentNs: nowNs };
    const replayed = { index: page.first + at, isOwn: page.isOwn[at] === 1, ...times };
    const end = writeReplay(json, writeJson(page, at, json, 0), replayed, timeoutNs);
    return json.toString('utf8', 0, end);
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
