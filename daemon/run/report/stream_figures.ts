/** Figures of the calls on each path. Paths are as the helper merges them: `/data/wal/seg-#.log`. */
import type { RunnerStatus } from '../control_lines.ts';
import { NONE } from '../format/report_file.ts';
import type { DelayPlan } from '../plan/compile.ts';
import { isHeld, isMatched, MATCH_KIND_OF, type MatchKindCounts, noMatches } from './match_kinds.ts';
import { plannedOfStreams, streamOfEvent } from './planned_streams.ts';
import type { CallReport } from './read_report.ts';

export interface StreamFigures {
  op_class: string;
  path: string;
  role: string;
  recorded_events: number;
  /** Null when no call shows which recorded paths it stands for. */
  planned_ns: number | null;
  calls: number;
  how: MatchKindCounts;
  missing_events: number;
  injected_ns: number;
  /** How long its calls took, as far as that is known. */
  took_ns: number;
  longest_unmatched: { calls: number; from_ns: number } | null;
}

interface Gathered extends StreamFigures {
  events: Set<number>;
  /** Streams of the plan that its calls are matched with. */
  streams: Set<number>;
  unmatched: number;
  unmatchedFromNs: number;
}

export function streamFigures(plan: DelayPlan, calls: CallReport, said: RunnerStatus): StreamFigures[] {
  const gathered = new Map<number, Gathered>();
  for (const [number, { op_class, path, role, recorded_events }] of said.streams)
    gathered.set(number, {
      ...{ op_class, path, role, recorded_events, planned_ns: null, calls: 0, how: noMatches(), missing_events: 0 },
      ...{ injected_ns: 0, took_ns: 0, longest_unmatched: null },
      ...{ events: new Set(), streams: new Set(), unmatched: 0, unmatchedFromNs: 0 },
    });
  for (let at = 0; at < calls.count; at++) {
    const figures = gathered.get(calls.stream[at]!);
    if (figures) gather(figures, plan, calls, at);
  }
  const planned = plannedOfStreams(plan);
  return [...gathered.values()]
    .map(({ events, streams, unmatched: _unmatched, unmatchedFromNs: _from, ...figures }) => ({
      ...figures,
      planned_ns: streams.size > 0 ? [...streams].reduce((sum, stream) => sum + planned[stream]!, 0) : null,
      missing_events: Math.max(figures.recorded_events - events.size, 0),
    }))
    .sort((one, other) => other.injected_ns - one.injected_ns || other.calls - one.calls);
}

function gather(figures: Gathered, plan: DelayPlan, calls: CallReport, at: number): void {
  const [how, event] = [calls.how[at]!, calls.event[at]!];
  figures.calls++;
  figures.how[MATCH_KIND_OF.get(how)!]++;
  figures.took_ns += calls.heldNs[at]! + calls.nativeNs[at]!;
  if (isHeld(calls, at)) figures.injected_ns += calls.heldNs[at]!;
  // An unmatched call may have got its target from another path.
  if (event !== NONE && isMatched(how)) {
    figures.streams.add(streamOfEvent(plan, event));
    figures.events.add(event);
  }
  if (figures.unmatched === 0) figures.unmatchedFromNs = calls.receivedNs[at]!;
  figures.unmatched = isMatched(how) ? 0 : figures.unmatched + 1;
  if (figures.unmatched > (figures.longest_unmatched?.calls ?? 0))
    figures.longest_unmatched = { calls: figures.unmatched, from_ns: figures.unmatchedFromNs };
}
