/** Where the clock of a replay is in the picture of what was recorded. */
import { firstAtLeast } from '../columns/event_columns.ts';
import type { LanesModel } from '../lanes/model.ts';
import type { Replay } from '../replay/replay.ts';

export interface PlayedPlace {
  /** Row of the event that was played last; -1 before the first, or if the picture does not have it. */
  row: number;
  /** Its start on the replay's own time line, nanoseconds. */
  offsetNs: number;
}

/**
 * Offset of the playhead on the model's time line. Extra latency and shortened gaps make the replay's time line another
 * one, so that it counts from the event that was played last.
 */
export function placeOf(
  { starts, firstNs }: Pick<LanesModel, 'starts' | 'firstNs'>,
  played: PlayedPlace,
  { playhead, session }: Pick<Replay, 'playhead' | 'session'>,
  nowMs: number,
): number {
  const positionNs = playhead.at(nowMs);
  const isBefore = played.row < 0 || positionNs < played.offsetNs || session?.event_index === 0;
  if (isBefore) return firstNs + positionNs;
  const startNs = starts[played.row]!;
  const next = firstAtLeast(starts, startNs + 1);
  const limitNs = next < starts.length ? starts[next]! : Number.POSITIVE_INFINITY;
  return Math.min(startNs + positionNs - played.offsetNs, limitNs);
}
