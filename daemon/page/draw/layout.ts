/** Where groups, lanes and tracks are, from top to bottom. */
import type { Group, Lane, LanesModel } from '../lanes/model.ts';
import { isInView } from './bins.ts';
import type { PaintedTrack } from './strips.ts';
import type { View } from './view.ts';

export interface Sizes {
  headerPx: number;
  trackPx: number;
  /** Between lanes. */
  gapPx: number;
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
  group: Group;
  topPx: number;
  /** Lanes of the group without an event in view, which have no place. */
  foldedCount: number;
}

export interface Layout {
  groups: PlacedGroup[];
  lanes: PlacedLane[];
  /** In the order of the strips that are painted for them. */
  tracks: PlacedTrack[];
  heightPx: number;
}

/** Lanes without an event in view are folded, unless their key is in `kept`, as that of the selected event's lane. */
export function layOut(
  { groups }: LanesModel,
  view: View,
  sizes: Sizes,
  kept: ReadonlySet<string> = new Set(),
): Layout {
  const layout: Layout = { groups: [], lanes: [], tracks: [], heightPx: 0 };
  for (const group of groups) {
    const lanes = group.lanes.filter(({ key, tracks }) => kept.has(key) || tracks.some((one) => isInView(one, view)));
    layout.groups.push({ group, topPx: layout.heightPx, foldedCount: group.lanes.length - lanes.length });
    layout.heightPx += sizes.headerPx;
    for (const lane of lanes) {
      const heightPx = lane.tracks.length * sizes.trackPx;
      layout.lanes.push({ lane, topPx: layout.heightPx, heightPx });
      for (const [at, track] of lane.tracks.entries())
        layout.tracks.push({ lane, track, topPx: layout.heightPx + at * sizes.trackPx, heightPx: sizes.trackPx });
      layout.heightPx += heightPx + sizes.gapPx;
    }
  }
  return layout;
}

/** Index in `tracks` of the track at a height; -1 if none is there. */
export function trackAt({ tracks }: Layout, yPx: number): number {
  return tracks.findIndex(({ topPx, heightPx }) => yPx >= topPx && yPx < topPx + heightPx);
}
