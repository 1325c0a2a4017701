/** The lanes as a picture that is zoomed, moved and asked by pointer and keys. */
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { hitTrack } from '../draw/hit.ts';
import { trackAt } from '../draw/layout.ts';
import { fitted, nsAt, panned, type View, zoomed } from '../draw/view.ts';
import type { LanesModel } from '../lanes/model.ts';
import { onKey } from './keys.ts';
import { AXIS_PX, createLanesCanvas, namesWidth, type Scene } from './lanes_canvas.ts';
import { currentTheme } from './theme.ts';

interface Props {
  model: LanesModel;
  /** What the picture shows, in a sentence. */
  summary: string;
  /** Row of the selected event; -1 without one. */
  selected: number;
  onSelect: (row: number) => void;
  /** Where the clock of the replay is now; null without one. */
  playheadNs: (nowMs: number) => number | null;
  /** The event that was played last; -1 before the first. */
  playedRow: () => number;
}

const ZOOM = 1.5;
const PAN = 0.25;
const MARGIN = 0.03;
/** A pointer that moves less than this selects, and does not drag. */
const DRAG_PX = 4;

export function LanesPicture({ model, summary, selected, onSelect, playheadNs, playedRow }: Props) {
  const [recorded, moving] = [useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null)];
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useMemo(() => createLanesCanvas(model), [model]);
  const bounds = useMemo(() => boundsOf(model), [model]);
  const [pictureWidthPx, setPictureWidthPx] = useState(0);
  const namesPx = namesWidth(pictureWidthPx);
  const widthPx = Math.max(pictureWidthPx - namesPx, 0);
  const [span, setSpan] = useState(bounds);
  const [theme, setTheme] = useState(currentTheme);
  useEffect(() => setSpan(bounds), [bounds]);

  useLayoutEffect(() => {
    const measure = () => setPictureWidthPx(frame.current!.clientWidth);
    const observer = new ResizeObserver(measure);
    observer.observe(frame.current!);
    measure();
    const themed = () => setTheme(currentTheme());
    window.addEventListener('themechange', themed);
    return () => {
      observer.disconnect();
      window.removeEventListener('themechange', themed);
    };
  }, []);

  const scene = useMemo((): Scene | null => {
    if (widthPx === 0) return null;
    const view: View = { ...span, widthPx, dpr: window.devicePixelRatio };
    return { namesPx, view, layout: canvas.layOut(view, selected), theme, ink: inkOf() };
  }, [canvas, span, widthPx, namesPx, theme, selected]);

  useLayoutEffect(() => {
    if (scene) canvas.drawRecorded(recorded.current!, scene);
  }, [canvas, scene]);

  useEffect(() => {
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

  const change = useCallback(
    (changed: (view: View) => View) => {
      if (scene) {
        const { fromNs, toNs } = changed(scene.view);
        setSpan({ fromNs, toNs });
      }
    },
    [scene],
  );
  const zoom = useCallback(
    (factor: number, xPx = widthPx / 2) => change((view) => zoomed(view, factor, xPx, bounds)),
    [change, widthPx, bounds],
  );
  const step = useCallback(
    (direction: 1 | -1) => onSelect(neighbourOf(model, selected, direction)),
    [model, selected, onSelect],
  );

  useEffect(() => {
    const actions: Record<string, () => void> = {
      KeyW: () => zoom(1 / ZOOM),
      KeyS: () => zoom(ZOOM),
      KeyA: () => change((view) => panned(view, -PAN, bounds)),
      KeyD: () => change((view) => panned(view, PAN, bounds)),
      KeyF: () => setSpan(bounds),
      ArrowRight: () => step(1),
      ArrowLeft: () => step(-1),
    };
    return onKey((code, target) => {
      if (target.matches('input[type=range]')) return false;
      actions[code]?.();
      return code in actions;
    });
  }, [zoom, change, bounds, step]);

  // An event that a link or a step has selected comes into view.
  useEffect(() => {
    if (selected < 0) return;
    const [start, end] = [model.starts[selected]!, model.ends[selected]!];
    if (end >= span.fromNs && start <= span.toNs) return;
    change((view) => fitted(view, { fromNs: start, toNs: end }, 1));
  }, [selected, model]);

  const pointer = usePointer({ scene, change, bounds, onHit: (xPx, yPx) => onSelect(hitAt(scene, xPx, yPx)) });
  useEffect(() => {
    const element = moving.current!;
    const onWheel = (event: WheelEvent) => {
      // A plain wheel scrolls the page.
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1 / ZOOM : ZOOM, event.offsetX - namesPx);
    };
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  }, [zoom, namesPx]);

  return (
    <div ref={frame} class="frame">
      <div class="stack">
        <canvas ref={recorded} />
        <canvas ref={moving} class="moving" role="img" tabIndex={0} aria-label={summary} {...pointer} />
      </div>
    </div>
  );
}

/** From the first event to the end of what the caller waited for, with a margin; all of it where there is no such end. */
function boundsOf({ ownSpan, firstNs, starts, ends }: LanesModel) {
  const toNs = ownSpan?.toNs ?? ends.reduce((last, end) => Math.max(last, end), 0);
  const fromNs = Math.min(ownSpan?.fromNs ?? starts[0] ?? 0, firstNs);
  const { fromNs: from, toNs: to } = fitted({ fromNs, toNs, widthPx: 1, dpr: 1 }, { fromNs, toNs }, MARGIN);
  return { fromNs: from, toNs: to };
}

/** The colours of the style sheet, which a canvas does not know by itself. */
function inkOf(): Scene['ink'] {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return { text: colour('text'), quiet: colour('quiet'), line: colour('line'), ground: colour('panel') };
}

/** The event of the transaction before or after one in order of start. */
function neighbourOf({ shares, starts }: LanesModel, row: number, direction: 1 | -1): number {
  const isOwn = (at: number) => shares[at] === 0;
  if (row < 0) return starts.findIndex((_, at) => isOwn(at));
  for (let at = row + direction; at >= 0 && at < starts.length; at += direction) if (isOwn(at)) return at;
  return row;
}

/** Row of the event at a place of the canvas; -1 where there is none. */
function hitAt(scene: Scene | null, xPx: number, yPx: number): number {
  if (!scene || xPx < scene.namesPx) return -1;
  const placed = scene.layout.tracks[trackAt(scene.layout, yPx - AXIS_PX)];
  if (!placed) return -1;
  const place = hitTrack(placed.track, scene.view, xPx - scene.namesPx);
  return place < 0 ? -1 : placed.track.rows[place]!;
}

interface PointerOptions {
  scene: Scene | null;
  change: (changed: (view: View) => View) => void;
  bounds: { fromNs: number; toNs: number };
  onHit: (xPx: number, yPx: number) => void;
}

/** Dragging moves the view, a click selects. */
function usePointer({ scene, change, bounds, onHit }: PointerOptions) {
  const start = useRef<{ xPx: number; view: View; isDrag: boolean } | null>(null);
  return {
    onPointerDown(event: PointerEvent) {
      if (!scene || event.button !== 0) return;
      start.current = { xPx: event.offsetX, view: scene.view, isDrag: false };
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
    },
    onPointerMove(event: PointerEvent) {
      const from = start.current;
      if (!from) return;
      const movedPx = event.offsetX - from.xPx;
      from.isDrag ||= Math.abs(movedPx) > DRAG_PX;
      if (!from.isDrag) return;
      const { view } = from;
      const byNs = nsAt(view, 0) - nsAt(view, movedPx);
      change(() => panned(view, byNs / (view.toNs - view.fromNs), bounds));
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
