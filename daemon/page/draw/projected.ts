/** Paints events at the times that they would have with the latency of a what-if: one row of pixels for each track. */
import type { LanesModel, TimeSpan } from '../../model/lanes/model.ts';
import type { LaneTrack } from '../../model/lanes/tracks.ts';
import type { PaintedTrack } from './strips.ts';
import { KINDS } from './theme.ts';
import { computeColumnCount, computeViewScale, type View } from './view.ts';

/** Projected starts and ends of events on the model's time line, indexed by row. */
export interface ProjectedTimes {
  /** Rows of the transaction in the order of their projected starts; equal starts are in recorded order. */
  rows: Uint32Array;
  starts: Float64Array;
  ends: Float64Array;
}

/** Whether an event of the track would be in view with the latency of the what-if. */
export function isProjectedInView(
  { rows }: LaneTrack,
  { starts, ends }: ProjectedTimes,
  { fromNs, toNs }: TimeSpan,
): boolean {
  return rows.some((row) => ends[row]! >= fromNs && starts[row]! <= toNs);
}

/**
 * Paints the projected events and, over their ends, the latency that each event gets, at least one pixel wide. Pixels
 * without an event stay as they are.
 */
export function paintProjected(
  tracks: readonly PaintedTrack[],
  model: LanesModel,
  { starts, ends }: ProjectedTimes,
  view: View,
  palette: Uint32Array,
  pixels: Uint32Array,
): void {
  const columns = computeColumnCount(view);
  const scale = computeViewScale(view);
  for (const [at, { lane, track }] of tracks.entries()) {
    if (lane.kind === 'other_requests') continue;
    const strip = pixels.subarray(at * columns, (at + 1) * columns);
    const fill = (fromNs: number, toNs: number, colour: number) => {
      if (toNs < view.fromNs || fromNs > view.toNs) return;
      const from = Math.max(Math.floor((fromNs - view.fromNs) * scale), 0);
      strip.fill(colour, from, Math.max(Math.ceil((toNs - view.fromNs) * scale), from + 1));
    };
    for (const row of track.rows) fill(starts[row]!, ends[row]!, palette[KINDS.neutral]!);
    for (const row of track.rows) {
      const addedNs = ends[row]! - starts[row]! - (model.ends[row]! - model.starts[row]!);
      if (addedNs > 0) fill(ends[row]! - addedNs, ends[row]!, palette[KINDS.added]!);
    }
  }
}
