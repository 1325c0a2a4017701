/**
 * Converts times and durations to positions on a map, and back. All columns cover the same length of time. A band
 * consists of rows, which are on a logarithmic scale of durations.
 */
import type { HeatmapAnswer } from '../../contract/received.ts';
import { findDurationRow, ROW_COUNT, ROW_EDGES, ROWS_PER_DECADE } from '../../model/duration_rows.ts';

export interface MapScale {
  fromNs: bigint;
  columnNs: bigint;
  columnCount: number;
  /** The lowest row of the lowest band. */
  firstRow: number;
  /** Number of rows per band: a power of two, so that each edge of a band is also an edge of all narrower bands. */
  rowsPerBand: number;
  bandCount: number;
}

/** Counts of the events or transactions in one band and one column. */
export interface MapCell {
  column: number;
  band: number;
  count: number;
  failed: number;
}

/** Maximum number of bands: with more, single bands would be too low to be distinguished. */
const BANDS_MAX = 64;
/** Minimum number of rows on a map, so that a single duration does not fill it. */
const ROWS_MIN = 2 * ROWS_PER_DECADE;
/** Number of free rows above the highest duration and below the lowest one. */
const MARGIN_ROWS = 4;

export function computeMapScale({ from, column_ns, column_count, first_row, row_edges }: HeatmapAnswer): MapScale {
  const endRow = first_row + Math.max(row_edges.length - 1, 1);
  const missing = Math.max(ROWS_MIN - (endRow - first_row), 0);
  const low = Math.max(first_row - Math.ceil(missing / 2) - MARGIN_ROWS, 0);
  const high = Math.min(Math.max(endRow + Math.floor(missing / 2) + MARGIN_ROWS, low + ROWS_MIN), ROW_COUNT);
  let rowsPerBand = 1;
  const computeBandCount = () => Math.ceil(high / rowsPerBand) - Math.floor(low / rowsPerBand);
  while (computeBandCount() > BANDS_MAX) rowsPerBand *= 2;
  return {
    fromNs: BigInt(from),
    columnNs: BigInt(column_ns),
    columnCount: column_count,
    firstRow: Math.floor(low / rowsPerBand) * rowsPerBand,
    rowsPerBand,
    bandCount: computeBandCount(),
  };
}

/** Merges the cells of an answer: the rows of each band are added up. */
export function mergeCells({ cells }: HeatmapAnswer, { firstRow, rowsPerBand, bandCount }: MapScale): MapCell[] {
  const found = new Map<number, MapCell>();
  for (const [column, row, count, failed] of cells) {
    const band = Math.floor((row - firstRow) / rowsPerBand);
    const key = column * bandCount + band;
    const cell = found.get(key) ?? { column, band, count: 0, failed: 0 };
    found.set(key, { ...cell, count: cell.count + count, failed: cell.failed + failed });
  }
  return [...found.values()].sort((a, b) => a.column - b.column || a.band - b.band);
}

/**
 * Returns the shortest duration of a band, in nanoseconds. For `bandCount`, returns the duration at which the map
 * ends.
 */
export function getBandStartNs({ firstRow, rowsPerBand }: MapScale, band: number): bigint {
  return ROW_EDGES[Math.min(firstRow + band * rowsPerBand, ROW_COUNT)]!;
}

export function computeColumnStartNs({ fromNs, columnNs }: MapScale, column: number): bigint {
  return fromNs + BigInt(column) * columnNs;
}

/** Returns the position of a time, in columns with a fraction; below 0 or above `columnCount` outside the map. */
export function computeColumnPlace({ fromNs, columnNs }: MapScale, ns: bigint): number {
  const offset = ns - fromNs;
  const whole = offset / columnNs;
  return Number(whole) + Number(offset - whole * columnNs) / Number(columnNs);
}

/** Returns the position of a duration, in bands with a fraction. The shortest duration of band 3 is at position 3. */
export function computeBandPlace({ firstRow, rowsPerBand }: MapScale, ns: bigint): number {
  if (ns >= ROW_EDGES[ROW_COUNT]!) return (ROW_COUNT - firstRow) / rowsPerBand;
  const row = findDurationRow(ns);
  const start = ROW_EDGES[row]!;
  const end = ROW_EDGES[row + 1]!;
  return (row + Number(ns - start) / Number(end - start) - firstRow) / rowsPerBand;
}

export interface DurationMark {
  label: string;
  /** Position of the mark, in bands. */
  band: number;
}

const UNITS = ['ns', 'µs', 'ms'];

/** Computes the marks at each power of ten on the map: `1 µs`, `10 µs`, `100 µs`, `1 ms`. */
export function computeDurationMarks(scale: MapScale): DurationMark[] {
  const marks: DurationMark[] = [];
  for (let power = 0; power * ROWS_PER_DECADE < ROW_COUNT; power++) {
    const band = (power * ROWS_PER_DECADE - scale.firstRow) / scale.rowsPerBand;
    if (band < 0 || band > scale.bandCount) continue;
    const unit = Math.min(Math.floor(power / 3), UNITS.length);
    marks.push({ label: `${10 ** (power - unit * 3)} ${UNITS[unit] ?? 's'}`, band });
  }
  return marks;
}
