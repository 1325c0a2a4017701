/**
 * The part of the time line that is in view, and its mapping to pixels. Each column of a picture is one device pixel
 * wide.
 */
import type { TimeSpan } from '../../model/lanes/model.ts';

export interface View extends TimeSpan {
  /** Width of the picture in CSS pixels. */
  widthPx: number;
  /** Device pixels per CSS pixel. */
  dpr: number;
}

/** The shortest time that a view shows, in nanoseconds. */
export const LEAST_NS = 2000;

/** Opacity of the part of a picture that the playhead has not reached. */
export const FAINT_ALPHA = 0.4;

/** Returns the number of columns of the picture, which is the picture's width in device pixels. */
export function computeColumnCount({ widthPx, dpr }: View): number {
  return Math.max(1, Math.round(widthPx * dpr));
}

/** Returns the scale of the view, in columns per nanosecond. */
export function computeViewScale(view: View): number {
  return computeColumnCount(view) / (view.toNs - view.fromNs);
}

/** Returns the position of a time, in CSS pixels; outside the picture if the time is not in view. */
export function computeXPx({ fromNs, toNs, widthPx }: View, ns: number): number {
  return ((ns - fromNs) / (toNs - fromNs)) * widthPx;
}

/** Returns the time at a position, in whole nanoseconds. */
export function computeTimeNs({ fromNs, toNs, widthPx }: View, xPx: number): number {
  return Math.round(fromNs + (xPx / widthPx) * (toNs - fromNs));
}

/**
 * Makes the view show a span, with a margin on both sides that is given as a share of the span. The view is at least
 * `LEAST_NS` long.
 */
export function fitView(view: View, { fromNs, toNs }: TimeSpan, margin = 0): View {
  const marginNs = Math.round((toNs - fromNs) * margin);
  const length = Math.max(toNs - fromNs + 2 * marginNs, LEAST_NS);
  const from = Math.round((fromNs + toNs - length) / 2);
  return { ...view, fromNs: from, toNs: from + length };
}

/**
 * Makes the view show `factor` times as much time; a factor below 1 zooms in. The time at `xPx` stays in place if the
 * bounds allow it.
 */
export function zoomView(view: View, factor: number, xPx: number, bounds: TimeSpan): View {
  const length = view.toNs - view.fromNs;
  const most = Math.max(bounds.toNs - bounds.fromNs, LEAST_NS);
  const next = Math.min(Math.max(Math.round(length * factor), LEAST_NS), most);
  const from = Math.round(view.fromNs + (xPx / view.widthPx) * (length - next));
  return clampView({ ...view, fromNs: from, toNs: from + next }, bounds);
}

/** Moves the view by a share of its length: 0.5 moves it half a picture later. */
export function panView(view: View, share: number, bounds: TimeSpan): View {
  const by = Math.round((view.toNs - view.fromNs) * share);
  return clampView({ ...view, fromNs: view.fromNs + by, toNs: view.toNs + by }, bounds);
}

function clampView(view: View, bounds: TimeSpan): View {
  const length = view.toNs - view.fromNs;
  const from = Math.max(Math.min(view.fromNs, bounds.toNs - length), bounds.fromNs);
  return { ...view, fromNs: from, toNs: from + length };
}
