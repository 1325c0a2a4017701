/**
 * Shows all events as a strip, with the part that is in view: dragging the part moves it, and dragging an edge zooms.
 */
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { TimeSpan } from '../../model/lanes/model.ts';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import { dragSpan, findGrip, type Grip } from '../draw/brush.ts';
import { computeHeightShare, type Density } from '../draw/density.ts';
import { THEMES, type ThemeName } from '../draw/theme.ts';
import { computeXPx, panView, type View } from '../draw/view.ts';
import { clearCanvas, readInk } from './use_frame.ts';

interface Props {
  density: Density;
  /** The time that the strip covers. */
  bounds: TimeSpan;
  /** The part of the time that is in view. */
  span: TimeSpan;
  /** Offset of the first event, from which times are counted. */
  originNs: number;
  namesPx: number;
  widthPx: number;
  theme: ThemeName;
  onShow: (span: TimeSpan) => void;
}

const HEIGHT_PX = 32;
const MARK_PX = 4;
const FRAME_PX = 2;

export function Minimap(props: Props) {
  const { density, bounds, span, originNs, namesPx, widthPx, theme, onShow } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const held = useRef<{ grip: Grip; xPx: number; span: TimeSpan } | null>(null);
  const [cursor, setCursor] = useState('default');
  const strip: View = { ...bounds, widthPx, dpr: window.devicePixelRatio };
  const nsPerPx = (bounds.toNs - bounds.fromNs) / widthPx;
  const hold = (xPx: number) => findGrip(computeXPx(strip, span.fromNs), computeXPx(strip, span.toNs), xPx);
  const plain = useMemo(() => drawPlainPicture(props), [density, namesPx, widthPx, theme, strip.dpr]);
  useLayoutEffect(() => draw(canvas.current!, plain, props), [plain, bounds, span]);

  const onPointerMove = (event: PointerEvent) => {
    const xPx = event.offsetX - namesPx;
    const from = held.current;
    if (from) onShow(dragSpan(from.span, from.grip, (xPx - from.xPx) * nsPerPx, bounds));
    else setCursor(CURSORS[hold(xPx) ?? 'none']);
  };
  const onPointerDown = (event: PointerEvent) => {
    const xPx = event.offsetX - namesPx;
    if (event.button !== 0 || xPx < 0) return;
    const grip = hold(xPx);
    // A press outside the part in view moves the part there.
    const middleNs = bounds.fromNs + xPx * nsPerPx;
    const at = grip ? span : panView({ ...strip, ...span }, shareTo(span, middleNs), bounds);
    held.current = { grip: grip ?? 'whole', xPx, span: { fromNs: at.fromNs, toNs: at.toNs } };
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
    if (!grip) onShow(held.current.span);
  };
  const letGo = () => {
    held.current = null;
  };
  const [fromText, toText] = [span.fromNs, span.toNs].map((ns) => formatShortDuration(Math.round(ns - originNs)));
  return (
    <canvas
      ref={canvas}
      class="minimap"
      style={{ cursor }}
      role="img"
      aria-label={`All events; in view is the time from ${fromText} to ${toText}`}
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerUp={letGo}
      onPointerCancel={letGo}
    />
  );
}

const CURSORS: Record<Grip | 'none', string> = { from: 'ew-resize', to: 'ew-resize', whole: 'grab', none: 'default' };

const shareTo = ({ fromNs, toNs }: TimeSpan, middleNs: number) => (middleNs - (fromNs + toNs) / 2) / (toNs - fromNs);

/**
 * Draws everything that does not depend on the part in view; the result is reused, because drawing it takes longer
 * than drawing the lanes.
 */
function drawPlainPicture({ density: { counts, failed }, namesPx, widthPx, theme }: Props): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  const context = clearCanvas(canvas, namesPx + widthPx, HEIGHT_PX, window.devicePixelRatio);
  const largest = counts.reduce((most, count) => Math.max(most, count), 1);
  const columnPx = widthPx / counts.length;
  context.fillStyle = readInk().quiet;
  context.fillText('All', 12, HEIGHT_PX / 2);
  for (let column = 0; column < counts.length; column++) {
    const heightPx = computeHeightShare(counts[column]!, largest) * (HEIGHT_PX - MARK_PX - FRAME_PX);
    if (heightPx === 0) continue;
    const x = namesPx + column * columnPx;
    context.fillRect(x, HEIGHT_PX - FRAME_PX - Math.max(heightPx, 1), Math.max(columnPx, 1), Math.max(heightPx, 1));
  }
  context.fillStyle = `#${THEMES[theme].error}`;
  for (let column = 0; column < failed.length; column++)
    if (failed[column]! > 0) context.fillRect(namesPx + column * columnPx - 1, 0, Math.max(columnPx, 1) + 2, MARK_PX);
  return canvas;
}

function draw(canvas: HTMLCanvasElement, plain: HTMLCanvasElement, props: Props): void {
  const { bounds, span, namesPx, widthPx, theme } = props;
  const context = clearCanvas(canvas, namesPx + widthPx, HEIGHT_PX, window.devicePixelRatio);
  context.drawImage(plain, 0, 0, namesPx + widthPx, HEIGHT_PX);
  const strip: View = { ...bounds, widthPx, dpr: 1 };
  const [from, to] = [span.fromNs, span.toNs].map((ns) => Math.min(Math.max(computeXPx(strip, ns), 0), widthPx));
  context.globalAlpha = 0.6;
  context.fillStyle = readInk().ground;
  // The dimmed area begins below the marks of failures, so that failures are equally visible outside the part in view.
  context.fillRect(namesPx, MARK_PX, from!, HEIGHT_PX - MARK_PX);
  context.fillRect(namesPx + to!, MARK_PX, widthPx - to!, HEIGHT_PX - MARK_PX);
  context.globalAlpha = 1;
  context.strokeStyle = `#${THEMES[theme].rest}`;
  context.lineWidth = FRAME_PX;
  const left = Math.min(namesPx + from!, namesPx + widthPx - 2 * FRAME_PX) + FRAME_PX / 2;
  context.strokeRect(left, FRAME_PX / 2, Math.max(to! - from! - FRAME_PX, FRAME_PX), HEIGHT_PX - FRAME_PX);
}
