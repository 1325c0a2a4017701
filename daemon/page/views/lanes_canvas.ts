/** Draws lanes on two canvases: what is recorded, and above it what moves: playhead, selection, labels. */
import { firstAtLeast } from '../columns/event_columns.ts';
import type { Bins } from '../draw/bins.ts';
import { LABELS_MAX, type Label, labelTexts, placeLabels } from '../draw/labels.ts';
import { type Layout, layOut, type PlacedTrack } from '../draw/layout.ts';
import { createStripPainter, ROWS_PER_TRACK } from '../draw/strips.ts';
import { paletteOf, THEMES, type ThemeName } from '../draw/theme.ts';
import { ticksOf } from '../draw/ticks.ts';
import { columnCount, FAINT_ALPHA, type View, xOf } from '../draw/view.ts';
import type { LanesModel } from '../lanes/model.ts';
import type { Track } from '../lanes/tracks.ts';
import { shownName } from './names.ts';

export const SIZES = { headerPx: 20, trackPx: 18, gapPx: 6 } as const;
/** Width of the names left of the time line, on a wide and on a narrow screen. */
const NAMES_PX = { wide: 150, narrow: 84 } as const;
const NARROW_PX = 500;
export const AXIS_PX = 22;
/** Browsers draw nothing on a canvas that is higher. */
export const HEIGHT_PX_MAX = 12_000;
const FONT = '12px system-ui, sans-serif';
const MARK_PX = 4;

export const namesWidth = (pictureWidthPx: number) => (pictureWidthPx < NARROW_PX ? NAMES_PX.narrow : NAMES_PX.wide);

export interface Scene {
  /** Width of the names left of the time line, CSS pixels. */
  namesPx: number;
  view: View;
  layout: Layout;
  theme: ThemeName;
  /** Colours of the page for text and lines. */
  ink: { text: string; quiet: string; line: string; ground: string };
}

export interface Moving {
  selected: number;
  /** Null while nothing is replayed. */
  playheadNs: number | null;
  /** The event that was played last. */
  playedRow: number;
}

export interface LanesCanvas {
  layOut(view: View, selected: number): Layout;
  drawRecorded(canvas: HTMLCanvasElement, scene: Scene): void;
  drawMoving(canvas: HTMLCanvasElement, scene: Scene, moving: Moving): void;
}

export function createLanesCanvas(model: LanesModel): LanesCanvas {
  const painter = createStripPainter(model);
  const strips = document.createElement('canvas');
  let labels: { placed: PlacedTrack; list: Label[] }[] = [];

  function paintStrips({ view, layout, theme }: Scene, context: CanvasRenderingContext2D): void {
    const [columns, count] = [columnCount(view), layout.tracks.length];
    labels = [];
    if (count === 0) return;
    const image = new ImageData(columns, count * ROWS_PER_TRACK);
    let left = LABELS_MAX;
    painter.paint(layout.tracks, view, paletteOf(theme), new Uint32Array(image.data.buffer), (at, bins) => {
      const placed = layout.tracks[at]!;
      const list = labelsOf(placed, bins, view, context, left);
      left -= list.length;
      if (list.length > 0) labels.push({ placed, list });
    });
    strips.width = columns;
    strips.height = count * ROWS_PER_TRACK;
    strips.getContext('2d')!.putImageData(image, 0, 0);
  }

  function labelsOf(
    { lane, track }: PlacedTrack,
    bins: Bins,
    view: View,
    context: CanvasRenderingContext2D,
    most: number,
  ): Label[] {
    const texts = (row: number) => labelTexts(model, lane, row, shownName);
    return placeLabels(track, bins, view, texts, (text) => context.measureText(text).width, most);
  }

  function drawRecorded(canvas: HTMLCanvasElement, scene: Scene): void {
    const { view, layout, namesPx } = scene;
    const context = prepared(canvas, scene);
    paintStrips(scene, context);
    drawAxis(context, scene, model.firstNs);
    context.imageSmoothingEnabled = false;
    for (const [at, { topPx, heightPx }] of layout.tracks.entries()) {
      const row = at * ROWS_PER_TRACK;
      const top = topPx + AXIS_PX;
      context.drawImage(strips, 0, row, strips.width, 1, namesPx, top, view.widthPx, heightPx - 2);
      context.drawImage(strips, 0, row + 1, strips.width, 1, namesPx, top, view.widthPx, MARK_PX);
    }
    drawNames(context, scene);
    drawLabels(context, labels, scene);
    drawOwnSpan(context, scene, model);
  }

  function drawMoving(canvas: HTMLCanvasElement, scene: Scene, { selected, playheadNs, playedRow }: Moving): void {
    const { view, layout, theme, ink, namesPx } = scene;
    const context = prepared(canvas, scene);
    const height = AXIS_PX + layout.heightPx;
    if (playheadNs !== null) {
      const x = Math.min(Math.max(xOf(view, playheadNs), 0), view.widthPx);
      context.globalAlpha = 1 - FAINT_ALPHA;
      context.fillStyle = ink.ground;
      context.fillRect(namesPx + x, AXIS_PX, view.widthPx - x, height - AXIS_PX);
      context.globalAlpha = 1;
      context.fillStyle = ink.text;
      context.fillRect(namesPx + x - 1, 0, 2, height);
      frame(context, scene, playedRow, `#${THEMES[theme].rest}`);
    }
    frame(context, scene, selected, `#${THEMES[theme].selection}`);
  }

  function frame(
    context: CanvasRenderingContext2D,
    { view, layout, namesPx }: Scene,
    row: number,
    colour: string,
  ): void {
    const placed = row < 0 ? undefined : layout.tracks.find(({ track }) => hasRow(model, track, row));
    if (!placed) return;
    const [from, to] = [xOf(view, model.starts[row]!), xOf(view, model.ends[row]!)];
    context.strokeStyle = colour;
    context.lineWidth = 2;
    const left = Math.max(from, -2);
    context.strokeRect(
      namesPx + left - 1,
      AXIS_PX + placed.topPx - 1,
      Math.max(Math.min(to, view.widthPx + 2) - left, 1) + 2,
      placed.heightPx,
    );
  }

  return {
    layOut: (view, selected) => {
      const lanes = selected < 0 ? [] : model.groups.flatMap((group) => group.lanes);
      const kept = lanes.filter(({ tracks }) => tracks.some((track) => hasRow(model, track, selected)));
      return layOut(model, view, SIZES, new Set(kept.map(({ key }) => key)));
    },
    drawRecorded,
    drawMoving,
  };
}

/** Whether a track has an event: its rows are in order of start. */
function hasRow({ starts }: LanesModel, track: Track, row: number): boolean {
  for (let at = firstAtLeast(track.starts, starts[row]!); track.starts[at] === starts[row]; at++)
    if (track.rows[at] === row) return true;
  return false;
}

/** Sets the canvas to the size of the picture, and clears it. */
function prepared(canvas: HTMLCanvasElement, { view, layout, namesPx }: Scene): CanvasRenderingContext2D {
  const { dpr } = view;
  const [width, height] = [namesPx + view.widthPx, Math.min(AXIS_PX + layout.heightPx, HEIGHT_PX_MAX)];
  const [columns, rows] = [Math.round(width * dpr), Math.round(height * dpr)];
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext('2d')!;
  context.setTransform(dpr, 0, 0, dpr, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = 'middle';
  return context;
}

function drawAxis(context: CanvasRenderingContext2D, { view, layout, ink, namesPx }: Scene, originNs: number): void {
  for (const { xPx, label } of ticksOf(view, originNs)) {
    context.fillStyle = ink.line;
    context.fillRect(namesPx + xPx, AXIS_PX - 4, 1, layout.heightPx + 4);
    context.fillStyle = ink.quiet;
    context.fillText(label, namesPx + xPx + 3, AXIS_PX / 2);
  }
}

function drawNames(context: CanvasRenderingContext2D, { layout: { groups, lanes }, ink, namesPx }: Scene): void {
  for (const { group, topPx, foldedCount } of groups) {
    const { node, process } = group;
    const name = process
      ? `${shownName(node)} ${shownName(process.service)} ${process.pid}`
      : `${shownName(node)} devices`;
    const folded = foldedCount > 0 ? `, ${foldedCount} not in view` : '';
    context.fillStyle = ink.text;
    context.fillText(name + folded, 4, AXIS_PX + topPx + SIZES.headerPx / 2);
  }
  for (const { lane, topPx } of lanes) {
    const name = lane.kind === 'thread' ? `${shownName(lane.comm)} ${lane.tid}` : shownName(lane.device ?? 'unknown');
    const kind = lane.kind === 'other_requests' ? ' others' : '';
    context.fillStyle = ink.quiet;
    context.fillText(fitting(context, name + kind, namesPx - 16), 12, AXIS_PX + topPx + SIZES.trackPx / 2);
  }
}

/** The text, or as much of its start as fits. */
function fitting(context: CanvasRenderingContext2D, text: string, widthPx: number): string {
  if (context.measureText(text).width <= widthPx) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > widthPx) end--;
  return `${text.slice(0, end)}…`;
}

function drawLabels(
  context: CanvasRenderingContext2D,
  labels: readonly { placed: PlacedTrack; list: Label[] }[],
  { theme, namesPx }: Scene,
): void {
  for (const { placed, list } of labels)
    for (const { xPx, text } of list) {
      // White on dark bars, black on light ones: each has a contrast of at least 4.5.
      context.fillStyle = theme === 'dark' || placed.lane.kind === 'other_requests' ? '#000000' : '#ffffff';
      context.fillText(text, namesPx + xPx, AXIS_PX + placed.topPx + placed.heightPx / 2);
    }
}

function drawOwnSpan(
  context: CanvasRenderingContext2D,
  { view, layout, ink, namesPx }: Scene,
  { ownSpan }: LanesModel,
): void {
  if (!ownSpan) return;
  const x = xOf(view, ownSpan.toNs);
  if (x < 0 || x > view.widthPx) return;
  context.fillStyle = ink.quiet;
  context.fillRect(namesPx + x, AXIS_PX - 6, 1, layout.heightPx + 6);
}
