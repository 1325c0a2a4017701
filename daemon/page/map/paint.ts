/**
 * Paints the cells of a map into pixels, once for each map and size. The box over the cells is drawn separately,
 * because it can move in every frame.
 */
import { type ColorKind, THEMES, type ThemeName, toPixel } from '../draw/theme.ts';
import type { MapCell, MapScale } from './scale.ts';

/** Size of a picture, in device pixels. */
export interface PictureSize {
  width: number;
  height: number;
}

type PaintedInk = Extract<ColorKind, 'rest' | 'selection'>;

/**
 * Colours of a count of 1 and of the largest count, as hex digits; the first colour must stand out from the
 * background.
 */
const RANGES: Readonly<Record<ThemeName, Readonly<Record<PaintedInk, readonly [one: string, most: string]>>>> = {
  light: { rest: ['5f90c8', '08306b'], selection: ['cc7526', '6b2f00'] },
  dark: { rest: ['3f7fc0', 'd6ebff'], selection: ['b8691f', 'ffe2bd'] },
};
export const SHADE_COUNT = 8;

/** Computes the shades, from a count of 1 to the largest count, as hex digits. */
export function computeShades(theme: ThemeName, ink: PaintedInk): string[] {
  const [one, most] = RANGES[theme][ink];
  return Array.from({ length: SHADE_COUNT }, (_, at) => mixColors(one, most, at / (SHADE_COUNT - 1)));
}

function mixColors(a: string, b: string, share: number): string {
  const parseChannel = (hex: string, at: number) => Number.parseInt(hex.slice(at, at + 2), 16);
  return [0, 2, 4]
    .map((at) => Math.round(parseChannel(a, at) * (1 - share) + parseChannel(b, at) * share))
    .map((value) => value.toString(16).padStart(2, '0'))
    .join('');
}

/**
 * Picks the shade of a count: shade 0 for a count of 1, the last shade for the largest count, and a logarithmic scale
 * between them.
 */
export function computeShade(count: number, most: number): number {
  if (count <= 1 || most <= 1) return 0;
  return Math.min(Math.floor((Math.log(count) / Math.log(most)) * (SHADE_COUNT - 1) + 1e-9), SHADE_COUNT - 1);
}

/** Computes a cell's range of device pixels, without its right and lower edge. Every cell has at least one pixel. */
export function computeCellPixels({ columnCount, bandCount }: MapScale, { column, band }: MapCell, size: PictureSize) {
  const [left, right] = computePixelRange(column, columnCount, size.width);
  const [bottom, top] = computePixelRange(band, bandCount, size.height);
  return { left, right, top: size.height - top, bottom: size.height - bottom };
}

/** Minimum size of a cell, in pixels, at which one of its pixels stays free as a line between cells. */
const LINED_PIXELS = 4;

function computePixelRange(at: number, count: number, pixels: number): [from: number, to: number] {
  const from = Math.floor((at * pixels) / count);
  const to = Math.max(Math.floor(((at + 1) * pixels) / count), from + 1);
  return [from, to - from >= LINED_PIXELS ? to - 1 : to];
}

export interface PaintOptions {
  theme: ThemeName;
  ink: PaintedInk;
  /** Whether only failures are painted. */
  isFailedOnly?: boolean;
}

/**
 * Returns the painted pixels in rows, for an `ImageData`. Cells with large counts are painted over cells with small
 * counts, and failures over all cells.
 */
export function paintCells(
  cells: readonly MapCell[],
  scale: MapScale,
  size: PictureSize,
  { theme, ink, isFailedOnly = false }: PaintOptions,
): Uint32Array<ArrayBuffer> {
  const pixels = new Uint32Array(size.width * size.height);
  const shades = computeShades(theme, ink).map((hex) => toPixel(hex));
  const chooseCount = ({ count, failed }: MapCell) => (isFailedOnly ? failed : count);
  const shown = cells.filter((cell) => chooseCount(cell) > 0).sort((a, b) => chooseCount(a) - chooseCount(b));
  const most = cells.reduce((largest, { count }) => Math.max(largest, count), 1);
  const fill = (left: number, right: number, top: number, bottom: number, pixel: number) => {
    for (let y = top; y < bottom; y++) pixels.fill(pixel, y * size.width + left, y * size.width + right);
  };
  for (const cell of shown) {
    const { left, right, top, bottom } = computeCellPixels(scale, cell, size);
    fill(left, right, top, bottom, shades[computeShade(chooseCount(cell), most)]!);
  }
  const error = toPixel(THEMES[theme].error);
  for (const cell of shown) {
    if (cell.failed === 0) continue;
    const { left, right, top, bottom } = computeCellPixels(scale, cell, size);
    const [from, to] = markWithin(top, bottom);
    fill(left, right, from, to, error);
  }
  return pixels;
}

/**
 * Computes the bar that marks a failure: the middle third of a cell, or the whole cell if it is less than 3 pixels
 * high.
 */
function markWithin(top: number, bottom: number): [from: number, to: number] {
  const third = Math.floor((bottom - top) / 3);
  return third === 0 ? [top, bottom] : [top + third, bottom - third];
}
