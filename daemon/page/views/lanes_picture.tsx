/** Shows the lanes as a picture in which pointer and keys zoom, move and select. */
import type { RefObject } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { LanesModel, TimeSpan } from '../../model/lanes/model.ts';
import { computeAxis, computeFoldedLeftPx, isOnAxis } from '../draw/axis.ts';
import type { Density } from '../draw/density.ts';
import { computeOutline, type Extents, type LanesOutline } from '../draw/extents.ts';
import { findHitPlace } from '../draw/hit.ts';
import { findTrack } from '../draw/layout.ts';
import type { ProjectedTimes } from '../draw/projected.ts';
import { computeTimeNs, fitView, panView, type View, zoomView } from '../draw/view.ts';
import { computeOwnEndNs } from '../replay/schedule.ts';
import { useKeys } from './keys.ts';
import { AXIS_PX, chooseNamesWidth, createLanesCanvas, type LanesCanvas, type Scene } from './lanes_canvas.ts';
import { Minimap } from './minimap.tsx';
import { readInk, useFrame } from './use_frame.ts';
import { useZoom } from './use_zoom.ts';

/** The whole time line and the density of all events, if a picture shows only a part of them. */
export interface Around {
  /** Time from which the offsets of the bounds count, in nanoseconds since the epoch. */
  baseNs: bigint;
  bounds: TimeSpan;
  density: Density;
}

interface Props {
  model: LanesModel;
  outline: LanesOutline;
  around?: Around;
  /** Times of the events with the latency of a what-if; null without a what-if. */
  times: ProjectedTimes | null;
  /** Sentence that says what the picture shows. */
  summary: string;
  /** Row of the selected event; -1 if no event is selected. */
  selected: number;
  onSelect: (row: number) => void;
  /** Position of the replay's clock at `nowMs`; null without a replay. */
  playheadNs: (nowMs: number) => number | null;
  /** Row of the event that was played last; -1 before the first event. */
  playedRow: () => number;
}

export const ZOOM = 1.5;
export const PAN = 0.25;
/** Minimum distance of a drag, in CSS pixels; a shorter movement is a click, which selects an event. */
const DRAG_PX = 4;

export function LanesPicture(props: Props) {
  const { model, times, summary, selected, onSelect, playheadNs, playedRow } = props;
  const recorded = useRef<HTMLCanvasElement>(null);
  const moving = useRef<HTMLCanvasElement>(null);
  const { element, widthPx: pictureWidthPx, theme } = useFrame();
  const canvas = useMemo(() => createLanesCanvas(model), [model]);
  const [isAllShown, setIsAllShown] = useState(false);
  const namesPx = chooseNamesWidth(pictureWidthPx);
  const widthPx = Math.max(pictureWidthPx - namesPx, 0);
  const { span, show, bounds, density, folded, unfolding } = usePictureSpan(props);

  const scene = useMemo((): Scene | null => {
    if (widthPx === 0) return null;
    const axis = computeAxis({ ...span, widthPx, dpr: window.devicePixelRatio }, folded);
    return { namesPx, axis, layout: canvas.layOut(axis, selected, times, isAllShown), theme, ink: readInk(), times };
  }, [canvas, times, span, folded, widthPx, namesPx, theme, selected, isAllShown]);

  const drawn = useRef<LanesCanvas | null>(null);
  useLayoutEffect(() => {
    if (!scene) return undefined;
    const draw = () => {
      canvas.drawRecorded(recorded.current!, scene);
      drawn.current = canvas;
    };
    if (drawn.current === canvas) {
      draw();
      return undefined;
    }
    // The rest of the page has just changed, too. Drawing in the same task would make the task too long, so the lanes
    // are drawn in the next frame.
    const request = requestAnimationFrame(draw);
    return () => cancelAnimationFrame(request);
  }, [canvas, scene]);

  useLayoutEffect(() => {
    if (!scene) return undefined;
    let request = 0;
    let before = '';
    const draw = (nowMs: number) => {
      const at = { selected, playheadNs: playheadNs(nowMs), playedRow: playedRow() };
      const state = `${at.playheadNs} ${at.playedRow}`;
      if (state !== before) canvas.drawMoving(moving.current!, scene, at);
      before = state;
      request = requestAnimationFrame(draw);
    };
    draw(performance.now());
    return () => cancelAnimationFrame(request);
  }, [canvas, scene, selected, playheadNs, playedRow]);

  /** Keys may come faster than frames, so each key continues from the view of the previous key. */
  const latest = useRef<View | null>(null);
  latest.current = scene?.axis.view ?? null;
  const change = useCallback(
    (changed: (view: View) => View) => {
      if (!latest.current) return;
      latest.current = changed(latest.current);
      show(latest.current);
    },
    [show],
  );
  const zoom = useCallback(
    (factor: number, xPx?: number) => change((view) => zoomView(view, factor, xPx ?? view.widthPx / 2, bounds)),
    [change, bounds],
  );
  const step = useCallback(
    (direction: 1 | -1) => onSelect(findAdjacentEvent(model, selected, direction)),
    [model, selected, onSelect],
  );

  usePictureKeys({ zoom, change, show, bounds, step });

  // An event that was selected by a link or by a step is brought into view.
  useEffect(() => {
    if (selected < 0) return;
    const start = model.starts[selected]!;
    const end = model.ends[selected]!;
    if (!scene || isOnAxis(scene.axis, start, end)) return;
    change((view) => fitView(view, { fromNs: start, toNs: end }, 1));
  }, [selected, model, scene === null]);

  const pointer = usePointer({ scene, change, bounds, onHit: (xPx, yPx) => onSelect(findHitRow(scene, xPx, yPx)) });
  useWheel(moving, (factor, xPx) => zoom(factor, xPx - namesPx));

  return (
    <div ref={element} class="frame">
      <p class="controls">
        {unfolding && (
          <button type="button" aria-pressed={unfolding.isUnfolded} onClick={unfolding.toggle}>
            Show write-back to scale
          </button>
        )}
        <label>
          <input type="checkbox" checked={isAllShown} onChange={() => setIsAllShown(!isAllShown)} /> show all lanes
        </label>
      </p>
      {widthPx > 0 && (
        <Minimap {...{ density, bounds, span, namesPx, widthPx, theme }} originNs={model.firstNs} onShow={show} />
      )}
      <div class="stack">
        <canvas ref={recorded} />
        <canvas ref={moving} class="moving" role="img" tabIndex={0} aria-label={summary} {...pointer} />
      </div>
    </div>
  );
}

interface Keyed {
  zoom: (factor: number) => void;
  change: (changed: (view: View) => View) => void;
  show: (span: TimeSpan) => void;
  bounds: TimeSpan;
  step: (direction: 1 | -1) => void;
}

function usePictureKeys({ zoom, change, show, bounds, step }: Keyed): void {
  const actions: Record<string, () => void> = {
    W: () => zoom(1 / ZOOM),
    S: () => zoom(ZOOM),
    A: () => change((view) => panView(view, -PAN, bounds)),
    D: () => change((view) => panView(view, PAN, bounds)),
    F: () => show(bounds),
    ArrowRight: () => step(1),
    ArrowLeft: () => step(-1),
  };
  useKeys((key, target) => {
    if (target.matches('input[type=range]')) return false;
    actions[key]?.();
    return key in actions;
  });
}

/** Makes the wheel zoom with Ctrl; without Ctrl, it scrolls the page. */
function useWheel(canvas: RefObject<HTMLCanvasElement | null>, zoom: (factor: number, xPx: number) => void): void {
  const latest = useRef(zoom);
  latest.current = zoom;
  useEffect(() => {
    const element = canvas.current!;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      latest.current(event.deltaY < 0 ? 1 / ZOOM : ZOOM, event.offsetX);
    };
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  }, [canvas]);
}

/** Returns the time in view, and the bounds, density and folded part of the picture. */
function usePictureSpan({ model, outline: recorded, times, around }: Props) {
  const { baseNs } = model;
  const outline = useMemo(
    () => (times ? computeOutline(model, computeOwnEndNs(model, times)) : recorded),
    [model, recorded, times],
  );
  const extents = useMemo(() => (around ? buildExtents(around, baseNs) : outline.extents), [outline, around, baseNs]);
  const { normal, unfolded, all } = extents;
  const [span, show] = useZoom(baseNs, normal, all);
  const [isAsked, setIsAsked] = useState(false);
  // The zoom of the link may end after the span that is shown at first.
  const isUnfolded = isAsked || span.toNs > normal.toNs;
  const toggle = () => {
    setIsAsked(!isUnfolded);
    show(isUnfolded ? normal : unfolded);
  };
  return {
    span,
    show,
    bounds: isUnfolded ? unfolded : normal,
    density: around?.density ?? (isUnfolded ? outline.unfolded : outline.normal),
    folded: isUnfolded ? null : extents.folded,
    unfolding: extents.folded && { isUnfolded, toggle },
  };
}

function buildExtents({ baseNs, bounds }: Around, originNs: bigint): Extents {
  const byNs = Number(baseNs - originNs);
  const whole = { fromNs: bounds.fromNs + byNs, toNs: bounds.toNs + byNs };
  return { normal: whole, unfolded: whole, all: whole, folded: null };
}

/**
 * Finds the transaction's own event before or after `row`, in order of start; returns `row` itself if there is no such
 * event.
 */
function findAdjacentEvent({ shares, starts }: LanesModel, row: number, direction: 1 | -1): number {
  const isOwn = (at: number) => shares[at] === 0;
  if (row < 0) return starts.findIndex((_, at) => isOwn(at));
  for (let at = row + direction; at >= 0 && at < starts.length; at += direction) if (isOwn(at)) return at;
  return row;
}

/** Finds the row of the event at a position on the canvas; -1 if there is no event. */
function findHitRow(scene: Scene | null, xPx: number, yPx: number): number {
  if (!scene || xPx < scene.namesPx) return -1;
  const placed = scene.layout.tracks[findTrack(scene.layout, yPx - AXIS_PX)];
  if (!placed) return -1;
  const { axis, namesPx } = scene;
  const atPx = xPx - namesPx;
  const isFolded = axis.folded !== null && atPx >= axis.view.widthPx;
  const place = isFolded
    ? findHitPlace(placed.track, axis.folded!, atPx - computeFoldedLeftPx(axis))
    : findHitPlace(placed.track, axis.view, atPx);
  return place < 0 ? -1 : placed.track.rows[place]!;
}

interface PointerOptions {
  scene: Scene | null;
  change: (changed: (view: View) => View) => void;
  bounds: { fromNs: number; toNs: number };
  onHit: (xPx: number, yPx: number) => void;
}

/** Handles the pointer: a drag moves the view, and a click selects an event. */
function usePointer({ scene, change, bounds, onHit }: PointerOptions) {
  const start = useRef<{ xPx: number; view: View; isDrag: boolean } | null>(null);
  return {
    onPointerDown(event: PointerEvent) {
      if (!scene || event.button !== 0) return;
      start.current = { xPx: event.offsetX, view: scene.axis.view, isDrag: false };
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
    },
    onPointerMove(event: PointerEvent) {
      const from = start.current;
      if (!from) return;
      const movedPx = event.offsetX - from.xPx;
      from.isDrag ||= Math.abs(movedPx) > DRAG_PX;
      if (!from.isDrag) return;
      const { view } = from;
      const byNs = computeTimeNs(view, 0) - computeTimeNs(view, movedPx);
      change(() => panView(view, byNs / (view.toNs - view.fromNs), bounds));
    },
    onPointerUp(event: PointerEvent) {
      if (start.current && !start.current.isDrag) onHit(event.offsetX, event.offsetY);
      start.current = null;
    },
    onPointerCancel() {
      start.current = null;
    },
  };
}
