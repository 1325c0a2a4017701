/** Describes a map and its box in words, for people who do not see the picture. */
import { formatShortDuration, groupDigits } from '../../model/wording/exact_times.ts';
import { describeLosses } from '../losses/wording.ts';
import type { LinkBox } from './box.ts';
import { timeText } from './clock_ticks.ts';
import type { LatencyMap, Selection } from './questions.ts';
import { computeColumnStartNs } from './scale.ts';

const KEYS = 'Arrows move the box, Shift and arrows change its size, Escape clears it, V shows a table.';
const SECOND_NS = 1_000_000_000n;

/**
 * Formats a box as `55.0 ms to 440.0 ms, 01:36:20 to 01:38:10`. A side without a limit shows the map's time; without a
 * longest duration, the text says `or more`.
 */
export function formatBox({ scale, answer: { from, total } }: LatencyMap, box: LinkBox): string {
  const stepNs = scale.columnNs < SECOND_NS ? scale.columnNs : SECOND_NS;
  const formatClock = (ns: bigint) => timeText(ns, stepNs);
  const least = box.box_min ?? 0n;
  const durations =
    box.box_max === null
      ? `${formatShortDuration(least)} or more`
      : `${formatShortDuration(least)} to ${formatShortDuration(box.box_max)}`;
  const until = box.box_to ?? computeColumnStartNs(scale, scale.columnCount);
  const isEmpty = total.count === 0;
  return isEmpty ? durations : `${durations}, ${formatClock(box.box_from ?? BigInt(from))} to ${formatClock(until)}`;
}

export function mapSummary(map: LatencyMap, selection: Selection | null): string {
  const { answer, of } = map;
  const atLeast = answer.coverage.complete ? '' : 'at least ';
  const max = answer.total.duration_ns.max;
  const upTo = max === null ? '' : `, up to ${formatShortDuration(max)}`;
  const parts = [
    `Map of ${atLeast}${groupDigits(answer.total.count)} ${of} by start and duration${upTo}`,
    ...(answer.total.failed > 0 ? [`${groupDigits(answer.total.failed)} failed`] : []),
    ...(answer.coverage.complete ? [] : [`${describeLosses(answer.coverage)}, hatched`]),
    ...(selection === null ? [] : [formatSelection(map, selection)]),
  ];
  return `${parts.join('; ')}. ${KEYS}`;
}

function formatSelection(map: LatencyMap, { kind, box, isFailed }: Selection): string {
  if (kind === 'failed') return 'those that failed are selected';
  return `the box has ${isFailed ? 'failed ones of ' : ''}${formatBox(map, box)}`;
}
