/**
 * The last minute as a grid: an event's start determines its column, a quarter of a second wide, and its duration its
 * row. All memory is allocated once, so that it does not grow with the number of events.
 */
import { findDurationRow, ROW_EDGES, ROWS_PER_DECADE } from '../../model/duration_rows.ts';

export const MINUTE_COLUMNS = 240;
export const COLUMN_NS = 250_000_000n;
/** Rows cover durations from 100 ns to 100 s; shorter events are in the first row and longer ones in the last. */
export const FIRST_ROW = 2 * ROWS_PER_DECADE;
export const ROW_COUNT = 9 * ROWS_PER_DECADE;
/** Number of columns in memory: a power of two, with room for columns ahead of the clock. */
const KEPT = 256;
/**
 * Number of columns by which an event may be ahead of the clock. Events further ahead are left out of the grid, so
 * that a single wrong time does not empty it.
 */
const AHEAD = KEPT - MINUTE_COLUMNS - 1;

export interface Minute {
  /** Number of events per cell, column by column; the row of the shortest events comes first. */
  readonly counts: Uint32Array;
  readonly failed: Uint32Array;
  /** Moves the end of the minute to `nowNs`, but never back, and empties the columns that come into the grid. */
  advance(nowNs: bigint): void;
  /** Adds an event; returns false if the event is not in the minute. */
  add(startNs: bigint, durationNs: bigint, isFailed: boolean): boolean;
  /** Marks the columns of the minute in which events were lost. */
  markLost(fromNs: bigint, toNs: bigint): void;
  /** Returns the slot of a column in the arrays. Column 0 is the oldest column of the minute. */
  computePlace(column: number): number;
  isLost(column: number): boolean;
  /** Start of a column, in nanoseconds since the epoch. */
  computeStartNs(column: number): bigint;
  /** Duration of the longest event in a column, in nanoseconds; -1 if the column has no events. */
  getLongestNs(column: number): number;
}

export function createMinute(firstNs: bigint): Minute {
  const counts = new Uint32Array(KEPT * ROW_COUNT);
  const failed = new Uint32Array(KEPT * ROW_COUNT);
  const longest = new Float64Array(KEPT).fill(-1);
  const lost = new Uint8Array(KEPT);
  const firstColumn = firstNs / COLUMN_NS;
  /** Number of the newest column, counted from `firstColumn`. */
  let last = 0;

  const computeColumn = (ns: bigint) => Number(ns / COLUMN_NS - firstColumn);
  const computeSlot = (column: number) => ((column % KEPT) + KEPT) % KEPT;

  function clearColumn(column: number): void {
    const slot = computeSlot(column);
    counts.fill(0, slot * ROW_COUNT, (slot + 1) * ROW_COUNT);
    failed.fill(0, slot * ROW_COUNT, (slot + 1) * ROW_COUNT);
    longest[slot] = -1;
    lost[slot] = 0;
  }

  function place(column: number): number {
    return computeSlot(last - MINUTE_COLUMNS + 1 + column);
  }

  return {
    counts,
    failed,
    advance(nowNs) {
      const now = computeColumn(nowNs);
      // The next `AHEAD` columns may already contain events, so the columns after them are cleared.
      for (let column = Math.max(last + 1, now - KEPT + 1); column <= now; column++) clearColumn(column + AHEAD);
      last = Math.max(last, now);
    },
    add(startNs, durationNs, isFailed) {
      const column = computeColumn(startNs);
      if (column > last + AHEAD || column <= last - MINUTE_COLUMNS) return false;
      const slot = computeSlot(column);
      const cell = slot * ROW_COUNT + Math.min(Math.max(findDurationRow(durationNs) - FIRST_ROW, 0), ROW_COUNT - 1);
      counts[cell]!++;
      if (isFailed) failed[cell]!++;
      longest[slot] = Math.max(longest[slot]!, Number(durationNs));
      return true;
    },
    markLost(fromNs, toNs) {
      const from = Math.max(computeColumn(fromNs), last - MINUTE_COLUMNS + 1);
      const to = Math.min(computeColumn(toNs), last + AHEAD);
      for (let column = from; column <= to; column++) lost[computeSlot(column)] = 1;
    },
    computePlace: place,
    isLost: (column) => lost[place(column)] === 1,
    computeStartNs: (column) => (firstColumn + BigInt(last - MINUTE_COLUMNS + 1 + column)) * COLUMN_NS,
    getLongestNs: (column) => longest[place(column)]!,
  };
}

/** Returns the shortest duration of a row of the grid, in nanoseconds; row 0 also contains all shorter events. */
export function getRowStartNs(row: number): bigint {
  return ROW_EDGES[FIRST_ROW + row]!;
}
