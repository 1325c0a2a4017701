/**
 * Paints tracks into strips. A track has two rows of pixels, one for its events and one for the marks of failures; the
 * page stretches them to their height without smoothing.
 */
import type { Lane, LanesModel } from '../../model/lanes/model.ts';
import type { LaneTrack } from '../../model/lanes/tracks.ts';
import { type Bins, binTrack, createBins } from './bins.ts';
import { buildTypeKinds, KINDS } from './theme.ts';
import { computeColumnCount, computeViewScale, type View } from './view.ts';

export const ROWS_PER_TRACK = 2;

export interface PaintedTrack {
  lane: Lane;
  track: LaneTrack;
}

export interface StripPainter {
  /**
   * Paints the tracks into `pixels`, which has `ROWS_PER_TRACK` rows of `computeColumnCount(view)` pixels for each
   * track; empty columns are transparent. `onTrack` is called with the bins of each track, which are overwritten for
   * the next track.
   */
  paint(
    tracks: readonly PaintedTrack[],
    view: View,
    palette: Uint32Array,
    pixels: Uint32Array,
    onTrack?: (at: number, bins: Bins) => void,
  ): void;
}

export function createStripPainter(model: LanesModel): StripPainter {
  const kinds = buildTypeKinds(model.columns);
  let bins = createBins(0);

  function paint(
    tracks: readonly PaintedTrack[],
    view: View,
    palette: Uint32Array,
    pixels: Uint32Array,
    onTrack?: (at: number, bins: Bins) => void,
  ): void {
    const columns = computeColumnCount(view);
    if (bins.counts.length !== columns) bins = createBins(columns);
    for (let at = 0; at < tracks.length; at++) {
      const { lane, track } = tracks[at]!;
      binTrack(track, view, bins);
      const body = pixels.subarray(ROWS_PER_TRACK * at * columns, (ROWS_PER_TRACK * at + 1) * columns);
      if (lane.kind === 'other_requests') paintOthers(body, bins, palette);
      else if (lane.kind === 'own_requests') paintRequests(body, track, view, bins, palette);
      else paintCalls(body, track, bins, palette);
      const marks = pixels.subarray((ROWS_PER_TRACK * at + 1) * columns, ROWS_PER_TRACK * (at + 1) * columns);
      paintMarks(marks, bins, palette[KINDS.error]!, Math.ceil(view.dpr));
      onTrack?.(at, bins);
    }
  }

  function paintCalls(body: Uint32Array, { types }: LaneTrack, { longest }: Bins, palette: Uint32Array): void {
    for (let column = 0; column < body.length; column++) {
      const place = longest[column]!;
      body[column] = place < 0 ? 0 : palette[kinds[types[place]!]!]!;
    }
  }

  /** Paints requests; each column has the colour of queue or service, whichever takes more of the column's time. */
  function paintRequests(body: Uint32Array, track: LaneTrack, view: View, bins: Bins, palette: Uint32Array): void {
    const { queue } = model.columns;
    const nsPerColumn = 1 / computeViewScale(view);
    const queued = palette[KINDS.queue]!;
    const served = palette[KINDS.service]!;
    for (let column = 0; column < body.length; column++) {
      const place = bins.longest[column]!;
      if (place < 0) {
        body[column] = 0;
        continue;
      }
      const start = track.starts[place]!;
      const from = Math.max(start, view.fromNs + column * nsPerColumn);
      const to = Math.min(track.ends[place]!, view.fromNs + (column + 1) * nsPerColumn);
      const queueNs = queue[track.rows[place]!]!;
      body[column] = start + queueNs > (from + to) / 2 ? queued : served;
    }
  }

  return { paint };
}

function paintOthers(body: Uint32Array, { longest }: Bins, palette: Uint32Array): void {
  for (let column = 0; column < body.length; column++) body[column] = longest[column]! < 0 ? 0 : palette[KINDS.other]!;
}

/**
 * Paints the marks of failures; a mark is wider than its failure on both sides, so that a failure of a single pixel is
 * visible.
 */
function paintMarks(marks: Uint32Array, { worst }: Bins, colour: number, widerBy: number): void {
  marks.fill(0);
  for (let column = 0; column < marks.length; column++)
    if (worst[column]! >= 0) marks.fill(colour, Math.max(column - widerBy, 0), column + widerBy + 1);
}
