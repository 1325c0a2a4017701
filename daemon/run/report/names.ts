/**
 * Measures the uncertainty of file names. A file whose name is not in the incident is treated as some file of the
 * incident. If the run later writes a file with exactly that recorded name, the earlier calls turn out to belong to
 * another file.
 */
import type { RunnerStatus } from '../control_lines.ts';
import { CALL_FLAGS, MATCH_KINDS, NONE } from '../format/report_file.ts';
import { isMatched } from './match_kinds.ts';
import type { CallReport } from './read_report.ts';

/** Matches the generated parts of names: a UUID, a long hexadecimal number or a decimal number. */
const DRAWN =
  /(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])|(?<![0-9a-f])(?=[a-f]*\d)[0-9a-f]{8,}|\d+/gi;

/** Returns the pattern of a name, in which each generated part is replaced by `#`. */
export const buildNamePattern = (name: string): string => name.replaceAll(DRAWN, '#');

/** Returns the role of a thread: its name with each number replaced by `#`. */
export const buildRolePattern = buildNamePattern;

export interface NameFigures {
  /** Number of calls that were assigned to a recorded file before the run wrote a file with exactly that name. */
  given_back: number;
  /**
   * Number of files that share events with another file, because the run has more files with similar names than the
   * incident.
   */
  shared: number;
  /** Number of files whose recorded names cannot be distinguished from another file's name. */
  unclear: number;
}

/** Marks the calls that count as `given_back` with 1, because their events belong to other calls. */
export function markGivenBack(calls: CallReport, { streams }: RunnerStatus): Uint8Array {
  const standsIn = (at: number) => (calls.flags[at]! & CALL_FLAGS.stands_in) !== 0;
  const getStreamPath = (at: number) => streams.get(calls.stream[at]!)?.path;
  const named = new Set<string>();
  for (let at = 0; at < calls.count; at++) {
    const file = standsIn(at) ? undefined : getStreamPath(at);
    if (file !== undefined) named.add(file);
  }
  return Uint8Array.from(calls.flags, (_, at) => (standsIn(at) && named.has(getStreamPath(at) ?? '') ? 1 : 0));
}

/** Returns a copy of the calls in which the chosen calls have no event. */
export function removeEvents(calls: CallReport, chosen: Uint8Array): CallReport {
  if (!chosen.includes(1)) return calls;
  const toOtherMatch = (how: number) =>
    isMatched(how) && how !== MATCH_KINDS.error_injected ? MATCH_KINDS.extra : how;
  return {
    ...calls,
    how: calls.how.map((how, at) => (chosen[at] ? toOtherMatch(how) : how)),
    event: calls.event.map((event, at) => (chosen[at] ? NONE : event)),
  };
}

export function nameFigures(chosen: Uint8Array, { uncovered }: RunnerStatus): NameFigures {
  return {
    given_back: chosen.reduce((sum, one) => sum + one, 0),
    shared: uncovered.get('shared_name') ?? 0,
    unclear: uncovered.get('unclear_name') ?? 0,
  };
}

/** Lists the reasons why file names make it uncertain that the run is a replay. */
export function nameReasons({ given_back, shared, unclear }: NameFigures): string[] {
  const reasons: string[] = [];
  if (given_back > 0)
    reasons.push(`${given_back} calls were taken for those of files that were written by their own names only later`);
  if (shared > 0)
    reasons.push(
      `${shared} files share what the incident has of another: there are more of such names than in the incident`,
    );
  if (unclear > 0)
    reasons.push(
      `the recording cannot distinguish the names of ${unclear} files from others: not UTF-8, or in too many folders`,
    );
  return reasons;
}
