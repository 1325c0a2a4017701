/**
 * Draws a map of latencies. Axes, cells and losses are painted once for each size; when the box moves, a frame only
 * draws these pictures over each other.
 */
import { THEMES, type ThemeName, toPixel } from '../../draw/theme.ts';
import { drawTickLabels } from '../../draw/ticks.ts';
import { computeWeights, paintLosses } from '../../losses/weights.ts';
import type { CellBox } from '../../map/box.ts';
import { computeClockTicks } from '../../map/clock_ticks.ts';
import { type PictureSize, paintCells } from '../../map/paint.ts';
import type { LatencyMap } from '../../map/questions.ts';
import { computeColumnPlace, computeColumnStartNs, computeDurationMarks } from '../../map/scale.ts';
import { clearCanvas } from '../use_frame.ts';

/** Width left of the plot, for the labels of durations, in CSS pixels. */
export const LEFT_PX = 52;
export const PLOT_PX = 240;
const BOTTOM_PX = 22;
const RIGHT_PX = 2;
const TOP_PX = 6;
export const HEIGHT_PX = TOP_PX + PLOT_PX + BOTTOM_PX;
const TICK_PX = 90;
const FAINT_ALPHA = 0.4;
const HANDLE_PX = 6;

export interface MapLook {
  /** Width of the whole canvas, in CSS pixels. */
  widthPx: number;
  dpr: number;
  theme: ThemeName;
  ink: { text: string; quiet: string; line: string };
}

export interface MapCanvas {
  /** Draws a frame in which cells outside the box are faint. */
  draw(canvas: HTMLCanvasElement, box: CellBox | null, isFailedOnly: boolean): void;
  /** Computes the position of a pointer, in columns and bands, with fractions. */
  computeMapPlace(xPx: number, yPx: number): { column: number; band: number };
}

export const computePlotWidth = (widthPx: number) => Math.max(widthPx - LEFT_PX - RIGHT_PX, 1);

export function createMapCanvas(map: LatencyMap, look: MapLook): MapCanvas {
  const { scale, cells } = map;
  const { dpr, theme, widthPx } = look;
  const plotPx = computePlotWidth(widthPx);
  const size = { width: Math.max(Math.round(plotPx * dpr), 1), height: Math.round(PLOT_PX * dpr) };
  const paintPicture = (ink: 'rest' | 'selection', isFailedOnly: boolean) =>
    createPicture(size, paintCells(cells, scale, size, { theme, ink, isFailedOnly }));
  const plain = paintPicture('rest', false);
  /**
   * Pictures of the selected cells, each created when it is first needed. The key says whether the picture shows only
   * failures.
   */
  const selected = new Map<boolean, HTMLCanvasElement>();
  const getOrCreatePicture = (isFailedOnly: boolean) => {
    const picture = selected.get(isFailedOnly) ?? paintPicture('selection', isFailedOnly);
    selected.set(isFailedOnly, picture);
    return picture;
  };
  const under = drawAxes(map, look);
  const losses = drawLosses(map, size, look);
  const computeColumnX = (column: number) => LEFT_PX + (column / Math.max(scale.columnCount, 1)) * plotPx;
  const computeBandY = (band: number) => TOP_PX + PLOT_PX * (1 - band / scale.bandCount);

  function draw(canvas: HTMLCanvasElement, box: CellBox | null, isFailedOnly: boolean): void {
    const context = prepareCanvas(canvas, look);
    context.drawImage(under, 0, 0, widthPx, HEIGHT_PX);
    const isSelected = box !== null || isFailedOnly;
    context.globalAlpha = isSelected ? FAINT_ALPHA : 1;
    context.drawImage(plain, LEFT_PX, TOP_PX, plotPx, PLOT_PX);
    context.globalAlpha = 1;
    const [left, right] = box ? [computeColumnX(box.left), computeColumnX(box.right)] : [LEFT_PX, LEFT_PX + plotPx];
    const [top, bottom] = box ? [computeBandY(box.top), computeBandY(box.bottom)] : [TOP_PX, TOP_PX + PLOT_PX];
    if (isSelected) {
      context.save();
      context.beginPath();
      context.rect(left, top, right - left, bottom - top);
      context.clip();
      context.drawImage(getOrCreatePicture(isFailedOnly), LEFT_PX, TOP_PX, plotPx, PLOT_PX);
      context.restore();
    }
    context.drawImage(losses, LEFT_PX, TOP_PX, plotPx, PLOT_PX);
    if (box) drawBoxOutline(context, { left, right, top, bottom }, `#${THEMES[theme].selection}`);
  }

  return {
    draw,
    computeMapPlace: (xPx, yPx) => ({
      column: ((xPx - LEFT_PX) / plotPx) * scale.columnCount,
      band: (1 - (yPx - TOP_PX) / PLOT_PX) * scale.bandCount,
    }),
  };
}

function createCanvas(width: number, height: number): HTMLCanvasElement {
  return Object.assign(document.createElement('canvas'), { width, height });
}

function createPicture({ width, height }: PictureSize, pixels: Uint32Array): HTMLCanvasElement {
  const image = new ImageData(width, height);
  new Uint32Array(image.data.buffer).set(pixels);
  const picture = createCanvas(width, height);
  picture.getContext('2d')!.putImageData(image, 0, 0);
  return picture;
}

/** Gives the canvas its size, and clears it. */
function prepareCanvas(canvas: HTMLCanvasElement, { widthPx, dpr }: MapLook): CanvasRenderingContext2D {
  const context = clearCanvas(canvas, widthPx, HEIGHT_PX, dpr);
  context.imageSmoothingEnabled = false;
  return context;
}

function drawBoxOutline(
  context: CanvasRenderingContext2D,
  box: Record<'left' | 'right' | 'top' | 'bottom', number>,
  colour: string,
) {
  const { left, right, top, bottom } = box;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.strokeRect(left, top, right - left, bottom - top);
  context.fillStyle = colour;
  for (const x of [left, right])
    for (const y of [top, bottom]) context.fillRect(x - HANDLE_PX / 2, y - HANDLE_PX / 2, HANDLE_PX, HANDLE_PX);
}

function drawAxes({ scale }: LatencyMap, look: MapLook): HTMLCanvasElement {
  const canvas = createCanvas(1, 1);
  const context = prepareCanvas(canvas, look);
  const plotPx = computePlotWidth(look.widthPx);
  context.textAlign = 'right';
  for (const { label, band } of computeDurationMarks(scale)) {
    const y = TOP_PX + PLOT_PX * (1 - band / scale.bandCount);
    context.fillStyle = look.ink.line;
    context.fillRect(LEFT_PX, y, plotPx, 1);
    context.fillStyle = look.ink.quiet;
    context.fillText(label, LEFT_PX - 6, Math.min(Math.max(y, TOP_PX + 4), TOP_PX + PLOT_PX - 4));
  }
  context.textAlign = 'left';
  context.fillStyle = look.ink.line;
  context.fillRect(LEFT_PX, TOP_PX + PLOT_PX, plotPx, 1);
  const toNs = computeColumnStartNs(scale, scale.columnCount);
  const ticks = computeClockTicks(scale.fromNs, toNs, Math.floor(plotPx / TICK_PX)).map(({ ns, label }) => ({
    xPx: (computeColumnPlace(scale, ns) / scale.columnCount) * plotPx,
    label,
  }));
  for (const { xPx } of ticks) context.fillRect(LEFT_PX + xPx, TOP_PX + PLOT_PX, 1, 6);
  context.fillStyle = look.ink.quiet;
  drawTickLabels(context, ticks, LEFT_PX, plotPx, TOP_PX + PLOT_PX + BOTTOM_PX / 2);
  return canvas;
}

/** Draws the lost events over the full height, because their durations are not known. */
function drawLosses({ scale, answer }: LatencyMap, size: PictureSize, { theme, dpr }: MapLook): HTMLCanvasElement {
  const { fromNs, columnNs, columnCount } = scale;
  const lengthNs = (Number(columnNs) * columnCount) / size.width || 1;
  const weights = computeWeights(answer.coverage, { count: size.width, fromNs, lengthNs });
  return createPicture(size, paintLosses(weights, size.height, toPixel(THEMES[theme].error, 0), dpr));
}
