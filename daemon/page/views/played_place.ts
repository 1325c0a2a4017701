/** Where the clock of a replay is in the picture of what was recorded, and what it has played. */
import { errorName, firstAtLeast, typeName, whatOf } from '../columns/event_columns.ts';
import { callName, type LanesModel } from '../lanes/model.ts';
import { shortDuration } from '../numbers/exact_times.ts';
import type { Schedule } from '../replay/schedule.ts';
import { shownName } from './names.ts';

export interface PlayedPlace {
  /** Row of the event that was played last; -1 before the first, or if the picture does not have it. */
  row: number;
  /** Its start on the replay's own time line, nanoseconds. */
  offsetNs: number;
}

export const NOTHING_PLAYED: PlayedPlace = { row: -1, offsetNs: 0 };

/** What is played at a position, where events do not come one by one. */
export function placeIn({ rows, starts }: Schedule, positionNs: number): PlayedPlace {
  // Offsets are whole nanoseconds, and an event at the position is played.
  const place = firstAtLeast(starts, Math.floor(positionNs) + 1) - 1;
  return place < 0 ? NOTHING_PLAYED : { row: rows[place]!, offsetNs: starts[place]! };
}

/**
 * Offset of the playhead on the model's time line. Extra latency and shortened gaps make the replay's time line another
 * one, so that it counts from the event that was played last, up to the next one. With aligned clocks rows are not in
 * order of start, and there is no next one.
 */
export function placeOf(
  { starts, firstNs }: Pick<LanesModel, 'starts' | 'firstNs'>,
  played: PlayedPlace,
  positionNs: number,
  isAligned: boolean,
): number {
  if (played.row < 0 || positionNs < played.offsetNs) return firstNs + positionNs;
  const startNs = starts[played.row]!;
  const next = isAligned ? starts.length : firstAtLeast(starts, startNs + 1);
  const limitNs = next < starts.length ? starts[next]! : Number.POSITIVE_INFINITY;
  return Math.min(startNs + positionNs - played.offsetNs, limitNs);
}

/** `sys_write pwrite64 of /srv/db/wal, 64.0 µs, starts +2.05 ms`: one sentence for a screen reader. */
export function playedSentence({ columns, starts, firstNs }: LanesModel, row: number): string {
  if (row < 0) return 'Before the first event.';
  const { target } = whatOf(columns, row);
  const [type, call, error] = [typeName(columns, row), callName(columns, row), errorName(columns, row)];
  const parts = [
    `${type}${call === type ? '' : ` ${shownName(call)}`}${target === null ? '' : ` of ${shownName(target)}`}`,
    shortDuration(columns.duration[row]!),
    `starts +${shortDuration(starts[row]! - firstNs)}`,
    ...(error === null ? [] : [`failed with ${error}`]),
  ];
  return `${parts.join(', ')}.`;
}
