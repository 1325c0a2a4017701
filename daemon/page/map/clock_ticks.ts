/** Marks of a map's time axis, at round times of day (UTC). */
import { stepAtLeast } from '../draw/ticks.ts';
import { formatWallClock } from '../numbers/wall_clock.ts';

export interface ClockTick {
  ns: bigint;
  label: string;
}

const SECOND_NS = 1_000_000_000n;
const MINUTE_NS = 60n * SECOND_NS;
const DAY_NS = 86_400n * SECOND_NS;
/** Distances between ticks, in seconds, at which ticks have round times of day. */
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/** Computes at most `countMax` ticks, at `fromNs` or later and before `toNs`. */
export function computeClockTicks(fromNs: bigint, toNs: bigint, countMax: number): ClockTick[] {
  const most = BigInt(Math.max(countMax, 1));
  const stepNs = chooseStepNs((toNs - fromNs + most - 1n) / most);
  const ticks: ClockTick[] = [];
  for (let ns = ((fromNs + stepNs - 1n) / stepNs) * stepNs; ns < toNs; ns += stepNs)
    ticks.push({ ns, label: timeText(ns, stepNs) });
  return ticks;
}

function chooseStepNs(leastNs: bigint): bigint {
  if (leastNs < SECOND_NS) return BigInt(stepAtLeast(Number(leastNs)));
  const seconds = SECONDS.find((step) => BigInt(step) * SECOND_NS >= leastNs);
  return seconds === undefined ? ((leastNs + DAY_NS - 1n) / DAY_NS) * DAY_NS : BigInt(seconds) * SECOND_NS;
}

/**
 * Formats a time with just enough digits to distinguish times that are `stepNs` apart: `01-31`, `01:32`, `01:32:05`,
 * `01:32:05.250`.
 */
export function timeText(ns: bigint, stepNs: bigint): string {
  const text = formatWallClock(ns);
  // A time outside the calendar has no date, so its text is shown in full.
  if (text.endsWith('epoch')) return text;
  if (stepNs >= DAY_NS) return text.slice(5, 10);
  if (stepNs >= MINUTE_NS) return text.slice(11, 16);
  if (stepNs >= SECOND_NS) return text.slice(11, 19);
  return text.slice(11, 20 + Math.min(Math.max(9 - String(stepNs).length + 1, 1), 9));
}
