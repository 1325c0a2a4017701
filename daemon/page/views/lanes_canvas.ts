/**
 * Draws lanes on two canvases. The lower canvas shows the recorded events. The upper canvas shows what moves: the
 * playhead, and the frames around the selected event and the event that was played last.
 */
import { findFirstAtLeast } from '../../model/columns/event_columns.ts';
import type { LanesModel } from '../../model/lanes/model.ts';
import type { LaneTrack } from '../../model/lanes/tracks.ts';
import { formatQuantity } from '../../model/wording/amounts.ts';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import { type Axis, BREAK_PX, computeAxisWidthPx, computeAxisXPx, computeFoldedLeftPx } from '../draw/axis.ts';
import type { Bins } from '../draw/bins.ts';
import { LABELS_MAX, type Label, labelTexts, placeLabels } from '../draw/labels.ts';
import { type Layout, layOut, type PlacedTrack } from '../draw/layout.ts';
import { type ProjectedTimes, paintProjected } from '../draw/projected.ts';
import { createStripPainter, ROWS_PER_TRACK } from '../draw/strips.ts';
import { buildPalette, THEMES, type ThemeName } from '../draw/theme.ts';
import { computeTicks, drawTickLabels } from '../draw/ticks.ts';
import { computeColumnCount, computeXPx, FAINT_ALPHA, type View } from '../draw/view.ts';
import { clearCanvas, type Ink } from './use_frame.ts';

export const SIZES = { headerPx: 20, trackPx: 18, gapPx: 6, thinPx: 4 } as const;
/** Width of the names left of the time line, for a wide and for a narrow screen. */
const NAMES_PX = { wide: 150, narrow: 84 } as const;
const NARROW_PX = 500;
export const AXIS_PX = 22;
/** Maximum height of a canvas; browsers draw nothing on a higher canvas. */
export const HEIGHT_PX_MAX = 12_000;
const MARK_PX = 4;
/** Height of the bar that shows where an event would be with extra latency. */
const PROJECTED_PX = 4;

export const chooseNamesWidth = (pictureWidthPx: number) =>
  pictureWidthPx < NARROW_PX ? NAMES_PX.narrow : NAMES_PX.wide;

export interface Scene {
  /** Width of the names left of the time line, in CSS pixels. */
  namesPx: number;
  axis: Axis;
  layout: Layout;
  theme: ThemeName;
  ink: Ink;
  /** Times of the events with the latency of a what-if; null without a what-if. */
  times: ProjectedTimes | null;
}

export interface Moving {
  selected: number;
  /** Offset of the playhead on the model's time line; null while nothing is replayed. */
  playheadNs: number | null;
  /** Row of the event that was played last. */
  playedRow: number;
}

export interface LanesCanvas {
  /** Places lanes and tracks; if `all` is true, no lane is folded. */
  layOut(axis: Axis, selected: number, times: ProjectedTimes | null, all: boolean): Layout;
  drawRecorded(canvas: HTMLCanvasElement, scene: Scene): void;
  drawMoving(canvas: HTMLCanvasElement, scene: Scene, moving: Moving): void;
}

export function createLanesCanvas(model: LanesModel): LanesCanvas {
  const inView = createStrips(model);
  const folded = createStrips(model);
  let labels: { placed: PlacedTrack; list: Label[] }[] = [];

  function paintStrips({ axis, layout, theme }: Scene, context: CanvasRenderingContext2D): void {
    const palette = buildPalette(theme);
    let left = LABELS_MAX;
    labels = [];
    inView.paint(axis.view, layout, palette, (at, bins) => {
      const placed = layout.tracks[at]!;
      const list = placeTrackLabels(placed, bins, axis.view, context, left);
      left -= list.length;
      if (list.length > 0) labels.push({ placed, list });
    });
    if (axis.folded) folded.paint(axis.folded, layout, palette);
  }

  function placeTrackLabels(
    { lane, track }: PlacedTrack,
    bins: Bins,
    view: View,
    context: CanvasRenderingContext2D,
    most: number,
  ): Label[] {
    const labelRow = (row: number) => labelTexts(model, lane, row, formatName);
    return placeLabels(track, bins, view, labelRow, (text) => context.measureText(text).width, most);
  }

  function drawRecorded(canvas: HTMLCanvasElement, scene: Scene): void {
    const { axis, layout, namesPx } = scene;
    const context = prepareCanvas(canvas, scene);
    paintStrips(scene, context);
    const { dpr } = axis.view;
    inView.draw(context, layout, namesPx, dpr);
    if (axis.folded) folded.draw(context, layout, namesPx + computeFoldedLeftPx(axis), dpr);
    // `putImageData` overwrites the canvas, so the lines behind the strips are drawn after it, below the existing
    // pixels.
    context.globalCompositeOperation = 'destination-over';
    drawAxis(context, scene, model.firstNs);
    context.globalCompositeOperation = 'source-over';
    if (scene.times) drawProjected(context, scene, model, scene.times);
    if (axis.folded) drawBreak(context, scene, model);
    drawNames(context, scene);
    drawLabels(context, labels, scene);
    drawOwnSpan(context, scene, model);
  }

  /** Whether the canvas is empty and needs no clearing; false at first, because another model may have drawn on it. */
  let isMovingEmpty = false;

  function drawMoving(canvas: HTMLCanvasElement, scene: Scene, { selected, playheadNs, playedRow }: Moving): void {
    const { axis, layout, theme, ink, namesPx } = scene;
    const context = prepareCanvas(canvas, scene, isMovingEmpty);
    isMovingEmpty = selected < 0 && playheadNs === null;
    const height = AXIS_PX + layout.heightPx;
    if (playheadNs !== null) {
      const widthPx = computeAxisWidthPx(axis);
      const x = Math.min(Math.max(computeAxisXPx(axis, playheadNs), 0), widthPx);
      context.globalAlpha = 1 - FAINT_ALPHA;
      context.fillStyle = ink.ground;
      context.fillRect(namesPx + x, AXIS_PX, widthPx - x, height - AXIS_PX);
      context.globalAlpha = 1;
      context.fillStyle = ink.text;
      context.fillRect(namesPx + x - 1, 0, 2, height);
      frameRow(context, scene, playedRow, `#${THEMES[theme].rest}`);
    }
    frameRow(context, scene, selected, `#${THEMES[theme].selection}`);
  }

  function frameRow(context: CanvasRenderingContext2D, scene: Scene, row: number, colour: string): void {
    const { axis, layout, namesPx } = scene;
    const placed = row < 0 ? undefined : layout.tracks.find(({ track }) => hasRow(model, track, row));
    if (!placed) return;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    for (const [leftPx, view] of listAxisParts(axis)) {
      const from = computeXPx(view, model.starts[row]!);
      const to = computeXPx(view, model.ends[row]!);
      if (to < 0 || from > view.widthPx) continue;
      const left = Math.max(from, -2);
      context.strokeRect(
        namesPx + leftPx + left - 1,
        AXIS_PX + placed.topPx - 1,
        Math.max(Math.min(to, view.widthPx + 2) - left, 1) + 2,
        placed.heightPx,
      );
    }
  }

  return {
    layOut: (axis, selected, times, all) => {
      const lanes = selected < 0 ? [] : model.groups.flatMap((group) => group.lanes);
      const kept = lanes.filter(({ tracks }) => tracks.some((track) => hasRow(model, track, selected)));
      const parts = listAxisParts(axis).map(([, part]) => part);
      const sizes = { ...SIZES, belowPx: times ? PROJECTED_PX : 0 };
      return layOut(model, parts, sizes, { kept: new Set(kept.map(({ key }) => key)), all, times });
    },
    drawRecorded,
    drawMoving,
  };
}

/** Creates the strips for one part of the axis. */
function createStrips(model: LanesModel) {
  const painter = createStripPainter(model);
  let [strips, band] = [new Uint32Array(0), new ImageData(1, 1)];
  return {
    paint(view: View, { tracks }: Layout, palette: Uint32Array, onTrack?: (at: number, bins: Bins) => void): void {
      const columns = computeColumnCount(view);
      const size = tracks.length * ROWS_PER_TRACK * columns;
      if (strips.length < size) strips = new Uint32Array(size);
      const heightPx = Math.round((SIZES.trackPx - 2) * view.dpr);
      if (band.width !== columns || band.height !== heightPx) band = new ImageData(columns, heightPx);
      painter.paint(tracks, view, palette, strips, onTrack);
    },
    /**
     * Draws each track over its full height, replacing the pixels of the canvas. Copying a row of pixels takes half as
     * long as letting the canvas stretch an image.
     */
    draw(context: CanvasRenderingContext2D, { tracks }: Layout, leftPx: number, dpr: number): void {
      const { width, height } = band;
      const pixels = new Uint32Array(band.data.buffer);
      const markRows = Math.round(MARK_PX * dpr);
      for (const [at, { topPx }] of tracks.entries()) {
        const [body, marks, end] = [0, 1, 2].map((row) => (at * ROWS_PER_TRACK + row) * width);
        pixels.set(strips.subarray(body, marks));
        for (let row = 1; row < height; row++) pixels.copyWithin(row * width, 0, width);
        for (let from = marks!; from < end!; from++)
          if (strips[from] !== 0)
            for (let row = 0; row < markRows; row++) pixels[row * width + from - marks!] = strips[from]!;
        context.putImageData(band, Math.round(leftPx * dpr), Math.round((AXIS_PX + topPx) * dpr));
      }
    },
  };
}

/** Draws thin bars below the tracks, in the part of the axis before the break. */
function drawProjected(
  context: CanvasRenderingContext2D,
  { axis: { view }, layout: { tracks }, theme, namesPx }: Scene,
  model: LanesModel,
  times: ProjectedTimes,
): void {
  if (tracks.length === 0) return;
  const image = new ImageData(computeColumnCount(view), tracks.length);
  paintProjected(tracks, model, times, view, buildPalette(theme), new Uint32Array(image.data.buffer));
  const strips = new OffscreenCanvas(image.width, image.height);
  strips.getContext('2d')!.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  for (const [at, { topPx, heightPx }] of tracks.entries()) {
    const top = AXIS_PX + topPx + heightPx - 1;
    context.drawImage(strips, 0, at, image.width, 1, namesPx, top, view.widthPx, PROJECTED_PX);
  }
}

/** Lists the parts of an axis, each with its left edge in CSS pixels. */
function listAxisParts(axis: Axis): (readonly [leftPx: number, view: View])[] {
  return axis.folded
    ? [[0, axis.view] as const, [computeFoldedLeftPx(axis), axis.folded] as const]
    : [[0, axis.view] as const];
}

/** Whether a track contains `row`. The search relies on the track's events being in order of start. */
function hasRow({ starts }: LanesModel, track: LaneTrack, row: number): boolean {
  for (let at = findFirstAtLeast(track.starts, starts[row]!); track.starts[at] === starts[row]; at++)
    if (track.rows[at] === row) return true;
  return false;
}

function prepareCanvas(
  canvas: HTMLCanvasElement,
  { axis, layout, namesPx }: Scene,
  isEmpty = false,
): CanvasRenderingContext2D {
  const heightPx = Math.min(AXIS_PX + layout.heightPx, HEIGHT_PX_MAX);
  return clearCanvas(canvas, namesPx + computeAxisWidthPx(axis), heightPx, axis.view.dpr, isEmpty);
}

function drawAxis(context: CanvasRenderingContext2D, { axis, layout, ink, namesPx }: Scene, originNs: number): void {
  const ticks = computeTicks(axis.view, originNs);
  context.fillStyle = ink.line;
  for (const { xPx } of ticks) context.fillRect(namesPx + xPx, AXIS_PX - 4, 1, layout.heightPx + 4);
  context.fillStyle = ink.quiet;
  drawTickLabels(context, ticks, namesPx, axis.view.widthPx, AXIS_PX / 2);
}

/**
 * Draws two lines at the break of the axis. Right of the lines, writes the time from the end of the own events to the
 * end of the last write-back.
 */
function drawBreak(
  context: CanvasRenderingContext2D,
  { axis, layout, ink, namesPx }: Scene,
  { writtenBack, ownSpan }: LanesModel,
): void {
  const left = namesPx + axis.view.widthPx;
  context.fillStyle = ink.quiet;
  for (const x of [left + BREAK_PX / 2 - 2, left + BREAK_PX / 2 + 1])
    context.fillRect(x, AXIS_PX - 6, 1, layout.heightPx + 6);
  if (!writtenBack || !ownSpan) return;
  const later = `+${formatShortDuration(writtenBack.lastEndNs - ownSpan.toNs)}`;
  context.fillText(fitText(context, later, axis.folded!.widthPx), left + BREAK_PX, AXIS_PX / 2);
}

function drawNames(context: CanvasRenderingContext2D, { layout, axis, ink, namesPx }: Scene): void {
  const { groups, lanes, thin } = layout;
  for (const { group, topPx, foldedCount } of groups) {
    const { node, process } = group;
    const name = process
      ? `${formatName(node)} ${formatName(process.service)} ${process.pid}`
      : `${formatName(node)} devices`;
    const folded = foldedCount > 0 ? `, ${formatQuantity(foldedCount, 'lane')} not in view` : '';
    context.fillStyle = ink.text;
    context.fillText(name + folded, 4, AXIS_PX + topPx + SIZES.headerPx / 2);
  }
  for (const { lane, topPx } of lanes) {
    const name = lane.kind === 'thread' ? `${formatName(lane.comm)} ${lane.tid}` : formatName(lane.device ?? 'unknown');
    const kind = lane.kind === 'other_requests' ? ' others' : '';
    context.fillStyle = ink.quiet;
    context.fillText(fitText(context, name + kind, namesPx - 16), 12, AXIS_PX + topPx + SIZES.trackPx / 2);
  }
  context.fillStyle = ink.line;
  for (const { topPx, heightPx } of thin)
    context.fillRect(12, AXIS_PX + topPx + heightPx / 2 - 1, namesPx - 12 + computeAxisWidthPx(axis), 1);
}

/** Returns the text or, if it is too wide, as much of its beginning as fits. */
function fitText(context: CanvasRenderingContext2D, text: string, widthPx: number): string {
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
      // Dark bars have white text and light bars have black text: the contrast is at least 4.5 in each case.
      context.fillStyle = theme === 'dark' || placed.lane.kind === 'other_requests' ? '#000000' : '#ffffff';
      context.fillText(text, namesPx + xPx, AXIS_PX + placed.topPx + placed.heightPx / 2);
    }
}

function drawOwnSpan(
  context: CanvasRenderingContext2D,
  { axis: { view }, layout, ink, namesPx }: Scene,
  { ownSpan }: LanesModel,
): void {
  if (!ownSpan) return;
  const x = computeXPx(view, ownSpan.toNs);
  if (x < 0 || x > view.widthPx) return;
  context.fillStyle = ink.quiet;
  context.fillRect(namesPx + x, AXIS_PX - 6, 1, layout.heightPx + 6);
}
