/**
 * The selected box of a map. The link stores the box in nanoseconds; while the user draws or moves the box, it
 * consists of whole cells.
 */
import { I64_MAX } from '../../base/bigints.ts';
import type { Link } from '../link/link.ts';
import {
  computeBandPlace,
  computeColumnPlace,
  computeColumnStartNs,
  getBandStartNs,
  type MapCell,
  type MapScale,
} from './scale.ts';

/**
 * The sides of a box. Its period includes the start but not the end; its durations include both limits. A side is null
 * if the box has no limit there.
 */
export type LinkBox = Pick<Link, 'box_from' | 'box_to' | 'box_min' | 'box_max'>;

export const OPEN_BOX: LinkBox = { box_from: null, box_to: null, box_min: null, box_max: null };

/** Range of columns and bands, without `right` and `top` themselves. A side that divides a cell has a fraction. */
export interface CellBox {
  left: number;
  right: number;
  bottom: number;
  top: number;
}

/** Maximum duration in the API, which is below 2^63. */
const DURATION_NS_MAX = I64_MAX;

export function findBox({ box_from, box_to, box_min, box_max }: Link): LinkBox | null {
  const box = { box_from, box_to, box_min, box_max };
  return Object.values(box).every((side) => side === null) ? null : box;
}

/** Computes the part of a box that is on the map; null if the box is outside the map. */
export function computeCellBox(scale: MapScale, { box_from, box_to, box_min, box_max }: LinkBox): CellBox | null {
  const clampPlace = (place: number, most: number) => Math.min(Math.max(place, 0), most);
  const { columnCount, bandCount } = scale;
  const found = {
    left: box_from === null ? 0 : clampPlace(computeColumnPlace(scale, box_from), columnCount),
    right: box_to === null ? columnCount : clampPlace(computeColumnPlace(scale, box_to), columnCount),
    bottom: box_min === null ? 0 : clampPlace(computeBandPlace(scale, box_min), bandCount),
    top: box_max === null ? bandCount : clampPlace(computeBandPlace(scale, box_max + 1n), bandCount),
  };
  return found.left < found.right && found.bottom < found.top ? found : null;
}

/**
 * Computes the times and durations of a box of whole cells. A box that reaches the map's upper edge has no upper
 * limit.
 */
export function computeBox(scale: MapScale, { left, right, bottom, top }: CellBox): LinkBox {
  const least = getBandStartNs(scale, bottom);
  const most = getBandStartNs(scale, top) - 1n;
  return {
    box_from: computeColumnStartNs(scale, left),
    box_to: computeColumnStartNs(scale, right),
    box_min: least,
    // Below 10 ns, neighbouring bands may start at the same duration, so `most` may be less than `least`.
    box_max: top >= scale.bandCount || most > DURATION_NS_MAX ? null : most < least ? least : most,
  };
}

/** Computes the whole cells between two positions, including the cells that contain the positions. */
export function computeCoveredCells(
  { columnCount, bandCount }: MapScale,
  a: { column: number; band: number },
  b: { column: number; band: number },
): CellBox {
  const [left, right] = computeWholeRange(a.column, b.column, columnCount);
  const [bottom, top] = computeWholeRange(a.band, b.band, bandCount);
  return { left, right, bottom, top };
}

function computeWholeRange(a: number, b: number, count: number): [number, number] {
  const computeCell = (place: number) => Math.min(Math.max(Math.floor(place), 0), count - 1);
  return [computeCell(Math.min(a, b)), computeCell(Math.max(a, b)) + 1];
}

/** Rounds a box to the nearest whole cells, at least one. */
export function roundBox({ columnCount, bandCount }: MapScale, { left, right, bottom, top }: CellBox): CellBox {
  const from = Math.min(Math.round(left), columnCount - 1);
  const low = Math.min(Math.round(bottom), bandCount - 1);
  return {
    left: from,
    right: Math.max(Math.round(right), from + 1),
    bottom: low,
    top: Math.max(Math.round(top), low + 1),
  };
}

/** Moves a box of whole cells, as far as the map allows. */
export function moveBox({ columnCount, bandCount }: MapScale, box: CellBox, columns: number, bands: number): CellBox {
  const x = Math.min(Math.max(columns, -box.left), columnCount - box.right);
  const y = Math.min(Math.max(bands, -box.bottom), bandCount - box.top);
  return { left: box.left + x, right: box.right + x, bottom: box.bottom + y, top: box.top + y };
}

/**
 * Moves the right and the upper side of a box of whole cells: the box keeps at least one cell, and stays on the map.
 */
export function resizeBox({ columnCount, bandCount }: MapScale, box: CellBox, columns: number, bands: number): CellBox {
  return {
    ...box,
    right: Math.min(Math.max(box.right + columns, box.left + 1), columnCount),
    top: Math.min(Math.max(box.top + bands, box.bottom + 1), bandCount),
  };
}

/** Sums the events and failures in a box of whole cells. */
export function sumCellsInBox(cells: readonly MapCell[], { left, right, bottom, top }: CellBox) {
  let [count, failed] = [0, 0];
  for (const cell of cells) {
    if (cell.column < left || cell.column >= right || cell.band < bottom || cell.band >= top) continue;
    count += cell.count;
    failed += cell.failed;
  }
  return { count, failed };
}
