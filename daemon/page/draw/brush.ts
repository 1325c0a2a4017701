/** Computes the span in view after a drag on a minimap, which moves the whole span or one of its edges. */
import type { TimeSpan } from '../../model/lanes/model.ts';
import { LEAST_NS } from './view.ts';

export type Grip = 'from' | 'to' | 'whole';

/**
 * Distance from an edge, on both sides, within which a pointer grips the edge: half of the 24 pixels that WCAG
 * requires.
 */
const EDGE_PX = 12;

/**
 * Finds the grip under a pointer; null outside the part in view. In a narrow part, each edge's grip covers at most a
 * quarter of the width, so that the middle can still be dragged.
 */
export function findGrip(fromPx: number, toPx: number, xPx: number): Grip | null {
  const insidePx = Math.min(EDGE_PX, (toPx - fromPx) / 4);
  if (xPx >= fromPx - EDGE_PX && xPx < fromPx + insidePx) return 'from';
  if (xPx <= toPx + EDGE_PX && xPx > toPx - insidePx) return 'to';
  return xPx >= fromPx && xPx <= toPx ? 'whole' : null;
}

/**
 * Returns the span after its grip was dragged by `byNs`. The drag cannot move the span out of the bounds or make it
 * shorter than the shortest view.
 */
export function dragSpan({ fromNs, toNs }: TimeSpan, grip: Grip, byNs: number, bounds: TimeSpan): TimeSpan {
  const by = Math.round(byNs);
  if (grip === 'from')
    return { fromNs: Math.min(Math.max(fromNs + by, Math.min(bounds.fromNs, fromNs)), toNs - LEAST_NS), toNs };
  if (grip === 'to')
    return { fromNs, toNs: Math.max(Math.min(toNs + by, Math.max(bounds.toNs, toNs)), fromNs + LEAST_NS) };
  const length = toNs - fromNs;
  const from = Math.max(Math.min(fromNs + by, bounds.toNs - length), bounds.fromNs);
  return { fromNs: from, toNs: from + length };
}
