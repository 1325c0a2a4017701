/** Finds the event of a track that is under the pointer. */
import type { LaneTrack } from '../../model/lanes/tracks.ts';
import { computeFirstColumn, computeLastColumn, findPlacesInView } from './bins.ts';
import { computeColumnCount, type View } from './view.ts';

/**
 * Width up to which a failed event is narrow, in columns: a pointer hardly hits it by chance, so it comes before all
 * others.
 */
const NARROW_COLUMNS = 3;

/**
 * Finds the place in the track of the event at a position in CSS pixels; -1 if no event is within the tolerance. A
 * narrow failed event within the tolerance comes first, then the smallest event under the pointer, and then the nearest
 * event.
 */
export function findHitPlace(track: LaneTrack, view: View, xPx: number, tolerancePx = 3): number {
  const { fromNs, toNs } = view;
  const columns = computeColumnCount(view);
  const column = Math.floor(xPx * view.dpr);
  const tolerance = Math.ceil(tolerancePx * view.dpr);
  const left = Math.max(column - tolerance, 0);
  const right = Math.min(column + tolerance, columns - 1);
  const nsPerColumn = (toNs - fromNs) / columns;
  // The search is one column wider on both sides, because times are rounded to columns.
  const near = {
    fromNs: Math.max(fromNs + (left - 1) * nsPerColumn, fromNs),
    toNs: Math.min(fromNs + (right + 2) * nsPerColumn, toNs),
  };
  const [from, to] = findPlacesInView(track, near);
  let best: { place: number; rank: number; distance: number; ns: number } | undefined;
  for (let place = from; place < to; place++) {
    const first = computeFirstColumn(track, place, view);
    const last = computeLastColumn(track, place, view);
    const distance = Math.max(first - column, column - last, 0);
    if (distance > tolerance || first > right || last < left) continue;
    const isFailed = track.failedBefore[place + 1]! > track.failedBefore[place]!;
    const rank = isFailed && last - first < NARROW_COLUMNS ? 0 : 1;
    const ns = track.ends[place]! - track.starts[place]!;
    if (!best || (rank - best.rank || distance - best.distance || ns - best.ns) < 0)
      best = { place, rank, distance, ns };
  }
  return best?.place ?? -1;
}
