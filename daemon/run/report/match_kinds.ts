/** Classifies and counts the ways in which calls got their targets. */
import { MATCH_KINDS, type MatchKind } from '../format/report_file.ts';
import type { CallReport } from './read_report.ts';

export type MatchKindCounts = Record<MatchKind, number>;

export const MATCH_KIND_OF: ReadonlyMap<number, MatchKind> = new Map(
  Object.entries(MATCH_KINDS).map(([name, number]) => [number, name as MatchKind]),
);

const MATCHED: ReadonlySet<number> = new Set([
  MATCH_KINDS.exact,
  MATCH_KINDS.size,
  MATCH_KINDS.window,
  MATCH_KINDS.error_injected,
  MATCH_KINDS.below_threshold,
]);

/** Returns whether a call got an event of its own. */
export function isMatched(how: number): boolean {
  return MATCHED.has(how);
}

/** Returns whether a call was delayed. */
export function isHeld(calls: CallReport, at: number): boolean {
  const how = calls.how[at];
  return calls.targetNs[at]! > 0 && how !== MATCH_KINDS.no_stream && how !== MATCH_KINDS.below_threshold;
}

export function createMatchCounts(): MatchKindCounts {
  return Object.fromEntries(Object.keys(MATCH_KINDS).map((how) => [how, 0])) as MatchKindCounts;
}

export function countMatchKinds(calls: CallReport): MatchKindCounts {
  const counts = createMatchCounts();
  for (let at = 0; at < calls.count; at++) counts[MATCH_KIND_OF.get(calls.how[at]!)!]++;
  return counts;
}
