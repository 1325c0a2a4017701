/** Draws the last minute as pixels. */
import { MINUTE_COLUMNS, type Minute, ROW_COUNT } from './minute.ts';

/** Colours as pixels of a `Uint32Array` over image data. */
export interface MinutePalette {
  ground: number;
  /** Shades for the number of events in a cell, from one event to the largest number. */
  counts: Uint32Array;
  failed: number;
  lost: number;
}

/** Minimum width of a cell, so that a single event is visible. */
const CELL_PX_MIN = 2;
/** Width of a hatching line, measured along a row of pixels. */
const HATCH_PX = 2;
/** Distance from the start of one hatching line to the start of the next, measured along a row of pixels. */
const HATCH_EVERY_PX = 8;

/** Returns the number of neighbouring columns that are drawn as a single cell. */
export function computeColumnsPerCell(widthPx: number): number {
  let columns = 1;
  while ((widthPx * columns) / MINUTE_COLUMNS < CELL_PX_MIN && columns < MINUTE_COLUMNS) columns *= 2;
  return columns;
}

/** Returns the first column of the cell at pixel `x`. */
export function computeMinuteColumn(x: number, widthPx: number): number {
  const columns = computeColumnsPerCell(widthPx);
  const cells = Math.ceil(MINUTE_COLUMNS / columns);
  return Math.min(Math.floor((x * cells) / widthPx), cells - 1) * columns;
}

/** Returns the row at pixel `y`; the longest events are at the top. */
export function computeMinuteRow(y: number, heightPx: number): number {
  return ROW_COUNT - 1 - Math.min(Math.floor((y * ROW_COUNT) / heightPx), ROW_COUNT - 1);
}

/**
 * Draws the minute into `widthPx * heightPx` pixels. Columns with lost events are hatched over the full height, and
 * events are drawn over the hatching.
 */
export function drawMinute(
  minute: Minute,
  palette: MinutePalette,
  pixels: Uint32Array,
  widthPx: number,
  heightPx: number,
): void {
  const columns = computeColumnsPerCell(widthPx);
  const shades = createShadePicker(minute, palette);
  const rows = Int32Array.from({ length: heightPx }, (_, y) => computeMinuteRow(y, heightPx));
  const cell = new Uint32Array(ROW_COUNT);
  let drawn = -1;
  let isLost = false;
  for (let x = 0; x < widthPx; x++) {
    const first = computeMinuteColumn(x, widthPx);
    if (first !== drawn)
      isLost = gather(minute, first, Math.min(first + columns, MINUTE_COLUMNS), cell, palette, shades);
    drawn = first;
    for (let y = 0; y < heightPx; y++) {
      const isHatched = isLost && (x + y) % HATCH_EVERY_PX < HATCH_PX;
      pixels[y * widthPx + x] = cell[rows[y]!] || (isHatched ? palette.lost : palette.ground);
    }
  }
}

/**
 * Fills `cell` with the colour of each row for all columns from `first` to `end - 1` together; 0 stands for no events.
 * Returns whether events of these columns were lost.
 */
function gather(
  minute: Minute,
  first: number,
  end: number,
  cell: Uint32Array,
  { failed: failedPixel }: MinutePalette,
  pickShade: (count: number) => number,
): boolean {
  const { counts, failed } = minute;
  let isLost = false;
  cell.fill(0);
  for (let row = 0; row < ROW_COUNT; row++) {
    let [count, failures] = [0, 0];
    for (let column = first; column < end; column++) {
      const at = minute.computePlace(column) * ROW_COUNT + row;
      count += counts[at]!;
      failures += failed[at]!;
    }
    if (count > 0) cell[row] = failures > 0 ? failedPixel : pickShade(count);
  }
  for (let column = first; column < end; column++) isLost ||= minute.isLost(column);
  return isLost;
}

/**
 * Creates a function that picks a shade by the logarithm of a count. The last shade stands for the largest count of
 * any cell that is one column wide.
 */
function createShadePicker({ counts, computePlace }: Minute, palette: MinutePalette): (count: number) => number {
  let most = 1;
  for (let column = 0; column < MINUTE_COLUMNS; column++) {
    const from = computePlace(column) * ROW_COUNT;
    for (let at = from; at < from + ROW_COUNT; at++) if (counts[at]! > most) most = counts[at]!;
  }
  const last = palette.counts.length - 1;
  const scale = most === 1 ? 0 : last / Math.log(most);
  return (count) => palette.counts[Math.min(Math.floor(Math.log(count) * scale), last)]!;
}
