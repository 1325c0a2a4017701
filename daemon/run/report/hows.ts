/** Counts how calls got their targets. */
import { HOWS, type How } from '../format/report_file.ts';
import type { CallReport } from './read_report.ts';

export type HowCounts = Record<How, number>;

export const HOW_OF: ReadonlyMap<number, How> = new Map(
  Object.entries(HOWS).map(([name, number]) => [number, name as How]),
);

const MATCHED: ReadonlySet<number> = new Set([HOWS.exact, HOWS.size, HOWS.window, HOWS.error_injected]);

/** Whether a call got an event of its own; a call below the threshold is matched, but not made to wait. */
export function isMatched(how: number): boolean {
  return MATCHED.has(how) || how === HOWS.below_threshold;
}

/** Whether a call was made to wait. */
export function isHeld(calls: CallReport, at: number): boolean {
  const how = calls.how[at];
  return calls.targetNs[at]! > 0 && how !== HOWS.no_stream && how !== HOWS.below_threshold;
}

export function noHows(): HowCounts {
  return Object.fromEntries(Object.keys(HOWS).map((how) => [how, 0])) as HowCounts;
}

export function howsOf(calls: CallReport): HowCounts {
  const counts = noHows();
  for (let at = 0; at < calls.count; at++) counts[HOW_OF.get(calls.how[at]!)!]++;
  return counts;
}
