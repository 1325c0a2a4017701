/** The times that a picture of lanes shows: at first, at most, and right of the break. */

import type { LanesModel, TimeSpan } from '../../model/lanes/model.ts';
import { computeDensity, DENSITY_COLUMNS, type Density } from './density.ts';
import { fitView } from './view.ts';

export interface Extents {
  /** The time shown at first: from the first event to the end of what the caller waited for. */
  normal: TimeSpan;
  /** The time of `normal` extended by everything that was written back later. */
  unfolded: TimeSpan;
  /** The time of `unfolded` extended to every event of the picture. */
  all: TimeSpan;
  /** The time after `normal` in which data was written back; null if none was. */
  folded: TimeSpan | null;
}

/** Results for which every event is visited; the second thread computes them for the page. */
export interface LanesOutline {
  extents: Extents;
  /** Density during `extents.normal`; `unfolded` is that during `extents.unfolded`. */
  normal: Density;
  unfolded: Density;
}

/** Computes the outline; `laterNs` is when the caller's wait would end with the latency of a what-if. */
export function computeOutline(model: LanesModel, laterNs?: number): LanesOutline {
  const extents = computeExtents(model, laterNs);
  const normal = computeDensity(model, extents.normal, DENSITY_COLUMNS);
  const unfolded = extents.folded ? computeDensity(model, extents.unfolded, DENSITY_COLUMNS) : normal;
  return { extents, normal, unfolded };
}

const MARGIN = 0.03;

/** Maximum factor by which a what-if lengthens a picture, so that recorded events stay readable. */
const LONGER_MOST = 4;

export function computeExtents(
  { ownSpan, writtenBack, firstNs, starts, ends }: LanesModel,
  laterNs = firstNs,
): Extents {
  let [first, last] = [firstNs, Number.NEGATIVE_INFINITY];
  for (let row = 0; row < starts.length; row++) {
    if (starts[row]! < first) first = starts[row]!;
    if (ends[row]! > last) last = ends[row]!;
  }
  if (last === Number.NEGATIVE_INFINITY) last = first;
  const fromNs = ownSpan ? Math.min(ownSpan.fromNs, firstNs) : first;
  const toNs = ownSpan?.toNs ?? last;
  const longestNs = fromNs + LONGER_MOST * (toNs - fromNs);
  const normal = addMargin({ fromNs, toNs: Math.max(toNs, Math.min(laterNs, longestNs)) });
  const lastEndNs = writtenBack ? writtenBack.lastEndNs : normal.toNs;
  const isLater = ownSpan !== null && lastEndNs > normal.toNs;
  const unfolded = isLater ? addMargin({ fromNs, toNs: lastEndNs }) : normal;
  const all = { fromNs: Math.min(first, unfolded.fromNs), toNs: Math.max(last, unfolded.toNs) };
  const folded = isLater ? { fromNs: normal.toNs, toNs: unfolded.toNs } : null;
  return { normal, unfolded, all, folded };
}

function addMargin(span: TimeSpan): TimeSpan {
  const { fromNs, toNs } = fitView({ ...span, widthPx: 1, dpr: 1 }, span, MARGIN);
  return { fromNs, toNs };
}
