/** Keeps the time span of a picture that is in view, and stores it in the link when it stops changing. */

import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { I64_MAX } from '../../base/bigints.ts';
import type { TimeSpan } from '../../model/lanes/model.ts';
import { LEAST_NS } from '../draw/view.ts';
import { usePage } from './context.ts';

/** A zoom in the link, in nanoseconds since the epoch. */
interface Zoom {
  from: bigint;
  to: bigint;
}

const RESTS_AFTER_MS = 100;
/** The largest time that a link can contain. */
const TIME_MAX_NS = I64_MAX;

/**
 * Returns the span in view and a function to change it; offsets count from `baseNs`. The view is `normal` if the link
 * has no zoom, or if its zoom, for example of another transaction, does not overlap the `extent`.
 */
export function useZoom(
  baseNs: bigint,
  normal: TimeSpan,
  extent: TimeSpan,
): [span: TimeSpan, show: (span: TimeSpan) => void] {
  const { link, go } = usePage();
  const named = useMemo(
    () => (link.zoom_from === null || link.zoom_to === null ? null : { from: link.zoom_from, to: link.zoom_to }),
    [link.zoom_from, link.zoom_to],
  );
  const [zoom, setZoom] = useState<Zoom | null>(named);
  const linked = useRef<Zoom | null>(named);

  useEffect(() => {
    if (isSame(named, linked.current)) return;
    linked.current = named;
    setZoom(named);
  }, [named]);
  useEffect(() => {
    if (isSame(zoom, linked.current)) return undefined;
    const timer = setTimeout(() => {
      linked.current = zoom;
      go({ zoom_from: zoom?.from ?? null, zoom_to: zoom?.to ?? null }, false);
    }, RESTS_AFTER_MS);
    return () => clearTimeout(timer);
  }, [zoom, go]);

  const span = useMemo(() => (zoom && toOffsets(zoom, baseNs, extent)) ?? normal, [zoom, baseNs, normal, extent]);
  const show = useCallback(
    ({ fromNs, toNs }: TimeSpan) =>
      setZoom(fromNs === normal.fromNs && toNs === normal.toNs ? null : toZoom(baseNs, fromNs, toNs)),
    [baseNs, normal],
  );
  return [span, show];
}

const isSame = (one: Zoom | null, other: Zoom | null) => one?.from === other?.from && one?.to === other?.to;

function toZoom(baseNs: bigint, fromNs: number, toNs: number): Zoom | null {
  const clampTime = (ns: bigint) => (ns < 0n ? 0n : ns > TIME_MAX_NS ? TIME_MAX_NS : ns);
  const from = clampTime(baseNs + BigInt(fromNs));
  const to = clampTime(baseNs + BigInt(toNs));
  return from < to ? { from, to } : null;
}

/** Converts a zoom to offsets; null if the zoom does not overlap the `extent`. */
function toOffsets(zoom: Zoom, baseNs: bigint, extent: TimeSpan): TimeSpan | null {
  const from = Number(zoom.from - baseNs);
  const to = Number(zoom.to - baseNs);
  if (to <= extent.fromNs || from >= extent.toNs) return null;
  const fromNs = Math.max(from, extent.fromNs);
  return { fromNs, toNs: Math.max(Math.min(to, extent.toNs), fromNs + LEAST_NS) };
}
