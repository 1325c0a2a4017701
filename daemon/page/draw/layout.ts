/** Places groups, lanes and tracks from top to bottom. */
import type { Lane, LaneGroup, LanesModel, TimeSpan } from '../../model/lanes/model.ts';
import type { LaneTrack } from '../../model/lanes/tracks.ts';
import { isInView } from './bins.ts';
import { isProjectedInView, type ProjectedTimes } from './projected.ts';
import type { PaintedTrack } from './strips.ts';

export interface Sizes {
  headerPx: number;
  trackPx: number;
  /** Gap between lanes. */
  gapPx: number;
  /** Height of a folded lane, including the gap to the next lane. */
  thinPx: number;
  /** Height of the bars below each of the transaction's tracks; the bars show the events with extra latency. */
  belowPx?: number;
}

export interface PlacedTrack extends PaintedTrack {
  topPx: number;
  heightPx: number;
}

export interface PlacedLane {
  lane: Lane;
  topPx: number;
  heightPx: number;
}

export interface PlacedGroup {
  group: LaneGroup;
  topPx: number;
  /** Number of the group's lanes that have no event in view and are drawn as thin lines. */
  foldedCount: number;
}

export interface Layout {
  groups: PlacedGroup[];
  lanes: PlacedLane[];
  /** Folded lanes, which are drawn as thin lines. */
  thin: PlacedLane[];
  /** Tracks in the order of their painted strips. */
  tracks: PlacedTrack[];
  heightPx: number;
}

export interface Unfolded {
  /** Keys of lanes that are never folded, such as the lane of the selected event. */
  kept?: ReadonlySet<string>;
  /** Whether all lanes are unfolded. */
  all?: boolean;
  /** Times of the transaction's events with extra latency; these events are drawn in the first part of the picture. */
  times?: ProjectedTimes | null;
}

/**
 * Places all lanes. A lane without an event in any part of the picture is folded but keeps its position, so that the
 * order of lanes never changes.
 */
export function layOut(
  { groups }: LanesModel,
  parts: readonly TimeSpan[],
  sizes: Sizes,
  { kept = new Set(), all = false, times }: Unfolded = {},
): Layout {
  const layout: Layout = { groups: [], lanes: [], thin: [], tracks: [], heightPx: 0 };
  const isRecorded = (track: LaneTrack) => parts.some((part) => isInView(track, part));
  const isProjected = (track: LaneTrack) => !!times && !!parts[0] && isProjectedInView(track, times, parts[0]);
  const isShown = ({ key, kind, tracks }: Lane) =>
    all || kept.has(key) || tracks.some(isRecorded) || (kind !== 'other_requests' && tracks.some(isProjected));
  for (const group of groups) {
    const placed: PlacedGroup = { group, topPx: layout.heightPx, foldedCount: 0 };
    layout.groups.push(placed);
    layout.heightPx += sizes.headerPx;
    for (const lane of group.lanes) {
      const topPx = layout.heightPx;
      if (!isShown(lane)) {
        placed.foldedCount++;
        layout.thin.push({ lane, topPx, heightPx: sizes.thinPx });
        layout.heightPx += sizes.thinPx;
        continue;
      }
      const trackPx = sizes.trackPx + (lane.kind === 'other_requests' ? 0 : (sizes.belowPx ?? 0));
      const heightPx = lane.tracks.length * trackPx;
      layout.lanes.push({ lane, topPx, heightPx });
      for (const [at, track] of lane.tracks.entries())
        layout.tracks.push({ lane, track, topPx: topPx + at * trackPx, heightPx: sizes.trackPx });
      layout.heightPx += heightPx + sizes.gapPx;
    }
  }
  return layout;
}

/** Returns the index in `tracks` of the track at `yPx`; -1 if no track is there. */
export function findTrack({ tracks }: Layout, yPx: number): number {
  return tracks.findIndex(({ topPx, heightPx }) => yPx >= topPx && yPx < topPx + heightPx);
}
