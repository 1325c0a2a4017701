/** The time that a picture of lanes shows: at first, at most, and right of a break. */

import type { LanesModel, TimeSpan } from '../lanes/model.ts';
import { computeDensity, DENSITY_COLUMNS, type Density } from './density.ts';
import { fitView } from './view.ts';

export interface Extents {
  /** The time shown at first: from the first event to the end of what the caller waited for. */
  normal: TimeSpan;
  /** The time of `normal` extended by everything that was written back later. */
  unfolded: TimeSpan;
  /** Every event of the picture. */
  all: TimeSpan;
  /** The time after `normal` in which data was written back; null if none was. */
  folded: TimeSpan | null;
}

/** Results that take a look at every event, which the second thread computes for the page. */
export interface LanesOutline {
  extents: Extents;
  /** Density of `normal` and of `unfolded`. */
  normal: Density;
  unfolded: Density;
}

/** `laterNs` is when the caller's wait would end with a what-if's latency. */
export function computeOutline(model: LanesModel, laterNs?: number): LanesOutline {
  const extents = computeExtents(model, laterNs);
  const normal = computeDensity(model, extents.normal, DENSITY_COLUMNS);
  const unfolded = extents.folded ? computeDensity(model, extents.unfolded, DENSITY_COLUMNS) : normal;
  return { extents, normal, unfolded };
}

const MARGIN = 0.03;

/** A what-if makes a picture at most this many times as long, so that recorded events stay readable. */
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
