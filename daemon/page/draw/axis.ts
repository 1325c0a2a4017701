/**
 * The time axis of a picture: the time in view on the left and, right of a break, a much later time that has its own
 * scale. One common scale would leave too little width for the time in view.
 */
import type { TimeSpan } from '../../model/lanes/model.ts';
import { computeTimeNs, computeXPx, type View } from './view.ts';

export interface Axis {
  view: View;
  /** The later time, which starts at the end of `view` or after it; null without a break. */
  folded: View | null;
}

/** Width of the break, in CSS pixels. */
export const BREAK_PX = 12;
const FOLDED_PX = 72;
/** Maximum share of the picture's width for the folded part; it applies in narrow pictures. */
const FOLDED_SHARE = 0.2;

/** Divides the picture's width between the two parts. A picture that is too narrow for the folded part has no break. */
export function computeAxis(view: View, folded: TimeSpan | null): Axis {
  if (!folded) return { view, folded: null };
  const foldedPx = Math.min(FOLDED_PX, Math.floor(view.widthPx * FOLDED_SHARE));
  const widthPx = view.widthPx - BREAK_PX - foldedPx;
  if (foldedPx < 1 || widthPx < 1) return { view, folded: null };
  return { view: { ...view, widthPx }, folded: { ...view, ...folded, widthPx: foldedPx } };
}

/** Returns the left edge of the folded part, in CSS pixels. */
export function computeFoldedLeftPx({ view }: Axis): number {
  return view.widthPx + BREAK_PX;
}

/** Returns the width of the picture, in CSS pixels. */
export function computeAxisWidthPx(axis: Axis): number {
  return axis.folded ? computeFoldedLeftPx(axis) + axis.folded.widthPx : axis.view.widthPx;
}

/** Returns the position of a time, in CSS pixels. A time between the two parts has a position within the break. */
export function computeAxisXPx(axis: Axis, ns: number): number {
  const { view, folded } = axis;
  if (!folded || ns <= view.toNs) return computeXPx(view, ns);
  const left = computeFoldedLeftPx(axis);
  if (ns >= folded.fromNs) return left + computeXPx(folded, ns);
  return view.widthPx + ((ns - view.toNs) / (folded.fromNs - view.toNs)) * BREAK_PX;
}

/** Returns the time at a position, in whole nanoseconds on the model's time line. */
export function computeAxisTimeNs(axis: Axis, xPx: number): number {
  const { view, folded } = axis;
  if (!folded || xPx <= view.widthPx) return computeTimeNs(view, xPx);
  const left = computeFoldedLeftPx(axis);
  if (xPx >= left) return computeTimeNs(folded, xPx - left);
  return Math.round(view.toNs + ((xPx - view.widthPx) / BREAK_PX) * (folded.fromNs - view.toNs));
}

/** Whether any part of the time from `startNs` to `endNs` is visible. */
export function isOnAxis({ view, folded }: Axis, startNs: number, endNs: number): boolean {
  const isVisible = ({ fromNs, toNs }: TimeSpan) => endNs >= fromNs && startNs <= toNs;
  return isVisible(view) || (folded !== null && isVisible(folded));
}
