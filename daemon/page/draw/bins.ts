/**
 * Groups the events of a track by pixel column. With up to two events per column, or if events overlap, each event is
 * visited. Otherwise the events of each column are found by a search, so that a million events cost as much as a
 * thousand.
 */
import { findFirstPlace } from '../../base/binary_search.ts';
import { findFirstAtLeast } from '../../model/columns/event_columns.ts';
import type { TimeSpan } from '../../model/lanes/model.ts';
import { findFirstFailed, findLongest, type LaneTrack } from '../../model/lanes/tracks.ts';
import { computeColumnCount, computeViewScale, type View } from './view.ts';

/** Arrays with one value for each column. A place is an index into the track's arrays. */
export interface Bins {
  /** Number of events that overlap the column. */
  counts: Uint32Array;
  /** Place of the longest event; -1 if the column is empty. */
  longest: Int32Array;
  /** Place of the first failed event, for the column's failure mark; -1 if no event failed. */
  worst: Int32Array;
}

const EVENTS_PER_COLUMN = 2;

export function createBins(columns: number): Bins {
  return { counts: new Uint32Array(columns), longest: new Int32Array(columns), worst: new Int32Array(columns) };
}

/**
 * Returns the first column of an event, which may be left of the picture. An event that begins in view always has a
 * column in the picture, even if rounding would give a later column.
 */
export function computeFirstColumn({ starts }: LaneTrack, place: number, view: View): number {
  const columns = computeColumnCount(view);
  return Math.min(Math.floor((starts[place]! - view.fromNs) * computeViewScale(view)), columns - 1);
}

/** Returns the last column of an event, which may be right of the picture. Even the shortest event fills one column. */
export function computeLastColumn(track: LaneTrack, place: number, view: View): number {
  const last = Math.ceil((track.ends[place]! - view.fromNs) * computeViewScale(view)) - 1;
  return Math.max(last, computeFirstColumn(track, place, view));
}

/** Finds the first place of a track that may be in view, and the place after the last one in view. */
export function findPlacesInView(track: LaneTrack, view: TimeSpan): [number, number] {
  return [findFirstInView(track, view), findFirstAtLeast(track.starts, view.toNs)];
}

/** Whether an event of the track is in view. */
export function isInView(track: LaneTrack, view: TimeSpan): boolean {
  const { starts } = track;
  const from = findFirstInView(track, view);
  return from < starts.length && starts[from]! < view.toNs;
}

/** Finds the first place whose event begins in view or reaches into it. */
function findFirstInView({ starts, reach }: LaneTrack, { fromNs }: TimeSpan): number {
  return findFirstPlace(0, starts.length, (place) => reach[place]! > fromNs || starts[place]! >= fromNs);
}

/** Fills the bins with the events in view; the bins have one value for each column of the view. */
export function binTrack(track: LaneTrack, view: View, bins: Bins): void {
  const columns = computeColumnCount(view);
  bins.counts.fill(0);
  bins.longest.fill(-1);
  bins.worst.fill(-1);
  const [from, to] = findPlacesInView(track, view);
  if (track.overlaps || to - from <= EVENTS_PER_COLUMN * columns) binByEvent(track, view, bins, from, to);
  else binByColumn(track, view, bins, from, to);
}

function binByEvent(track: LaneTrack, view: View, { counts, longest, worst }: Bins, from: number, to: number): void {
  const { starts, ends, failedBefore } = track;
  const columns = computeColumnCount(view);
  const scale = computeViewScale(view);
  const fromNs = view.fromNs;
  for (let place = from; place < to; place++) {
    const start = starts[place]!;
    const end = ends[place]!;
    const first = Math.min(Math.floor((start - fromNs) * scale), columns - 1);
    const last = Math.min(Math.max(Math.ceil((end - fromNs) * scale) - 1, first), columns - 1);
    const isFailed = failedBefore[place + 1]! > failedBefore[place]!;
    for (let column = Math.max(first, 0); column <= last; column++) {
      counts[column]!++;
      const other = longest[column]!;
      if (other < 0 || end - start > ends[other]! - starts[other]!) longest[column] = place;
      if (isFailed && worst[column]! < 0) worst[column] = place;
    }
  }
}

function binByColumn(track: LaneTrack, view: View, { counts, longest, worst }: Bins, from: number, to: number): void {
  const { starts, ends } = track;
  const columns = computeColumnCount(view);
  const scale = computeViewScale(view);
  const fromNs = view.fromNs;
  for (let column = 0, next = from, size = 0; column < columns; column++) {
    let first = next;
    next = column === columns - 1 ? to : gallop(starts, fromNs, scale, column + 1, first, to, size);
    size = next - first;
    // Events do not overlap here, so only the preceding event can reach into the column.
    if (first > from && Math.ceil((ends[first - 1]! - fromNs) * scale) - 1 >= column) first--;
    if (first === next) continue;
    counts[column] = next - first;
    longest[column] = findLongest(track, first, next);
    worst[column] = findFirstFailed(track, first, next);
  }
}

/**
 * Finds the first place, at `from` or later, whose event starts in `column` or later. The search starts at `from +
 * guess`, because neighbouring columns have similar numbers of events. From there, its steps double.
 */
function gallop(
  starts: Float64Array,
  fromNs: number,
  scale: number,
  column: number,
  from: number,
  end: number,
  guess: number,
): number {
  let low = from;
  let high = end;
  let step = 1;
  let probe = from + guess;
  if (probe < end && (starts[probe]! - fromNs) * scale >= column) {
    // The searched place is at the guess or before it.
    high = probe;
    for (probe -= step; probe >= from && (starts[probe]! - fromNs) * scale >= column; probe -= step) {
      high = probe;
      step *= 2;
    }
    low = Math.max(probe + 1, from);
  } else {
    for (; probe < end && (starts[probe]! - fromNs) * scale < column; probe += step) {
      low = probe + 1;
      step *= 2;
    }
    high = Math.min(probe, end);
  }
  return findFirstPlace(low, high, (place) => (starts[place]! - fromNs) * scale >= column);
}
