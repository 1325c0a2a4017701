/** The time spans of a picture of lanes: the span shown at first, the longest span, and the span right of the break. */

import type { LanesModel, TimeSpan } from '../../model/lanes/model.ts';
import { computeDensity, DENSITY_COLUMNS, type Density } from './density.ts';
import { fitView } from './view.ts';

export interface Extents {
  /** The span shown at first, from the first event to the end of the caller's wait. */
  normal: TimeSpan;
  /** The span `normal`, extended to the end of the last write-back. */
  unfolded: TimeSpan;
  /** The span `unfolded`, extended to every event of the picture. */
  all: TimeSpan;
  /** The span after `normal` in which data was written back; null without a later write-back. */
  folded: TimeSpan | null;
}

/**
 * Results that depend on every event. The second thread computes them, because they would block the first thread too
 * long.
 */
export interface LanesOutline {
  extents: Extents;
  /** Density of the events during `extents.normal`. */
  normal: Density;
  unfolded: Density;
}

/** Computes the outline. `laterNs` is the time at which the caller's wait would end with the latency of a what-if. */
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
