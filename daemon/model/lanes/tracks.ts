/**
 * Tracks: the events of one lane, distributed so that no two events of a track overlap. For fast searches over many
 * events, each track also contains the latest ends, the numbers of failed events, and the longest events.
 */
import { findFirstAbove } from '../../base/binary_search.ts';

export interface LaneTrack {
  /** Rows in the columns, in order of start. */
  rows: Uint32Array;
  /** Event type of each event. */
  types: Uint8Array;
  /** Start of each event on the time line of the model, in nanoseconds. */
  starts: Float64Array;
  ends: Float64Array;
  /**
   * Whether events overlap, which happens only in the last track of a lane that would need more tracks than
   * `TRACKS_MAX`.
   */
  overlaps: boolean;
  /** The latest end of all events up to and including each event: the same array as `ends` unless events overlap. */
  reach: Float64Array;
  /** Number of failed events before each event; the last value is the number of all failed events. */
  failedBefore: Uint32Array;
  /** The longest event of each block of 8, 64, 512... events, with one level for each block size. */
  peaks: Peaks[];
}

interface Peaks {
  places: Uint32Array;
  /** Durations of the events at `places`. */
  ns: Float64Array;
}

export const TRACKS_MAX = 8;
const PEAK_SHIFT = 3;

/** Values of all rows, indexed by row; a track copies the values of its rows. */
export interface TrackSource {
  starts: Float64Array;
  ends: Float64Array;
  type: Uint8Array;
  result: Float64Array;
}

/**
 * Puts each row into the first track that is free at its start. The rows must be in order of start, with longer events
 * first.
 */
export function spread(rows: Uint32Array, source: TrackSource): LaneTrack[] {
  // The rows of a lane are far apart in memory, so each value is fetched only once.
  const starts = pickValues(source.starts, rows);
  const ends = pickValues(source.ends, rows);
  const freeFrom: number[] = [];
  const trackOf = new Uint8Array(rows.length);
  const sizes: number[] = [];
  for (let i = 0; i < rows.length; i++) {
    const end = ends[i]!;
    let at = 0;
    while (at < freeFrom.length && freeFrom[at]! > starts[i]! && at < TRACKS_MAX - 1) at++;
    freeFrom[at] = Math.max(freeFrom[at] ?? end, end);
    trackOf[i] = at;
    sizes[at] = (sizes[at] ?? 0) + 1;
  }
  if (sizes.length === 1) return [createTrack(rows, starts, ends, source)];
  return sizes.map((size, at) => {
    const places = new Uint32Array(size);
    for (let i = 0, to = 0; i < rows.length; i++) if (trackOf[i] === at) places[to++] = i;
    return createTrack(pickValues(rows, places), pickValues(starts, places), pickValues(ends, places), source);
  });
}

/** Returns the values at the given indexes, in the order of the indexes. */
function pickValues<Values extends Uint32Array | Float64Array>(values: Values, places: Uint32Array): Values {
  const some = new (values.constructor as new (length: number) => Values)(places.length);
  for (let i = 0; i < places.length; i++) some[i] = values[places[i]!]!;
  return some;
}

function createTrack(rows: Uint32Array, starts: Float64Array, ends: Float64Array, source: TrackSource): LaneTrack {
  const size = rows.length;
  const types = new Uint8Array(size);
  const failedBefore = new Uint32Array(size + 1);
  let overlaps = false;
  for (let i = 0, reach = Number.NEGATIVE_INFINITY; i < size; i++) {
    const row = rows[i]!;
    types[i] = source.type[row]!;
    failedBefore[i + 1] = failedBefore[i]! + (source.result[row]! < 0 ? 1 : 0);
    if (starts[i]! < reach) overlaps = true;
    reach = Math.max(reach, ends[i]!);
  }
  const reach = overlaps ? computeReach(ends) : ends;
  return { rows, types, starts, ends, overlaps, reach, failedBefore, peaks: computePeaks(starts, ends) };
}

/** Returns, for each event, the latest end of all events up to and including it. */
export function computeReach(ends: Float64Array): Float64Array {
  let last = Number.NEGATIVE_INFINITY;
  return ends.map((end) => {
    last = Math.max(last, end);
    return last;
  });
}

function computePeaks(starts: Float64Array, ends: Float64Array): Peaks[] {
  const peaks: Peaks[] = [];
  let below: Peaks = {
    places: new Uint32Array(starts.length).map((_, i) => i),
    ns: ends.map((end, i) => end - starts[i]!),
  };
  while (below.ns.length > 1) {
    const size = Math.ceil(below.ns.length / (1 << PEAK_SHIFT));
    const level = { places: new Uint32Array(size), ns: new Float64Array(size).fill(-1) };
    for (let i = 0; i < below.ns.length; i++) {
      const block = i >>> PEAK_SHIFT;
      if (below.ns[i]! <= level.ns[block]!) continue;
      level.ns[block] = below.ns[i]!;
      level.places[block] = below.places[i]!;
    }
    peaks.push(level);
    below = level;
  }
  return peaks;
}

/**
 * Returns the index of the longest event in `[from, to)`, or of the first one if several are equally long; -1 if there
 * is no event.
 */
export function findLongest(track: LaneTrack, from: number, to: number): number {
  // The highest level at which the range has several blocks.
  let level = 0;
  while (level < track.peaks.length && (to - from) >>> (PEAK_SHIFT * (level + 1)) > 1) level++;
  return findLonger(track, level, from, to, -1);
}

/**
 * Returns the index of the longest event in the range, or `best` if no event is longer. Blocks without a longer event
 * are skipped.
 */
function findLonger(track: LaneTrack, level: number, from: number, to: number, best: number): number {
  const { starts, ends, peaks } = track;
  let longest = best;
  let longestNs = best < 0 ? -1 : ends[best]! - starts[best]!;
  if (level === 0) {
    for (let place = from; place < to; place++) {
      const ns = ends[place]! - starts[place]!;
      if (ns <= longestNs) continue;
      longest = place;
      longestNs = ns;
    }
    return longest;
  }
  const { places, ns } = peaks[level - 1]!;
  const shift = PEAK_SHIFT * level;
  const end = to > from ? ((to - 1) >>> shift) + 1 : 0;
  for (let block = from >>> shift; block < end; block++) {
    if (ns[block]! <= longestNs) continue;
    const place = places[block]!;
    // The longest event of a block at either end of the range may lie outside the range.
    const isWithin = place >= from && place < to;
    longest = isWithin
      ? place
      : findLonger(track, level - 1, Math.max(from, block << shift), Math.min(to, (block + 1) << shift), longest);
    if (longest >= 0) longestNs = ends[longest]! - starts[longest]!;
  }
  return longest;
}

/** Returns the index of the first failed event in `[from, to)`; -1 if there is none. */
export function findFirstFailed({ failedBefore }: LaneTrack, from: number, to: number): number {
  const before = failedBefore[from]!;
  if (from >= to || failedBefore[to] === before) return -1;
  return findFirstAbove(failedBefore, before, from, to) - 1;
}
