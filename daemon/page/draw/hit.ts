/** Finds the event of a track that is under the pointer. */
import type { LaneTrack } from '../../model/lanes/tracks.ts';
import { computeFirstColumn, computeLastColumn, findPlacesInView } from './bins.ts';
import { computeColumnCount, type View } from './view.ts';

/**
 * A failed event of at most this many columns is preferred over all other events, because a narrow bar is hard to hit.
 */
const NARROW_COLUMNS = 3;

/**
 * Returns the place of the event at `xPx`, in CSS pixels; -1 if no event is within the tolerance. Narrow failed events
 * are preferred; then the event nearest to the pointer, and of equally near events the shortest.
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
