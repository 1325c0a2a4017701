/** Counts the requests of others that were on the same devices at the same time. */
import { findFirstAtLeast, getThread } from '../columns/event_columns.ts';
import { overlaps, type TimeSet, uniteIntervals, uniteSets } from './intervals.ts';
import type { Device, LanesModel } from './model.ts';
import { collectIntervals, requestTimes } from './request_times.ts';
import type { LaneTrack } from './tracks.ts';

export interface Neighbour {
  device: Device;
  /** The service, or the command of the thread where there is none. */
  name: string;
  /** Number of its requests that overlap. */
  count: number;
  /** Bytes of these requests, as far as they are known. */
  bytes: number;
}

/**
 * Counts requests of others on a device while requests of the transactions were under way there; neighbours with the
 * most requests come first. `rows` limits the count to certain requests of the transactions; without `rows`, all
 * requests that the transactions may have waited for count.
 */
export function collectNeighbours(model: LanesModel, rows?: readonly number[]): Neighbour[] {
  const { columns, devices, groups } = model;
  const found = new Map<string, Neighbour>();
  const getOrCreateNeighbour = (row: number, device: number): Neighbour => {
    const { service, comm } = getThread(columns, row);
    const key = `${device} ${service || comm}`;
    if (!found.has(key)) found.set(key, { device: devices[device]!, name: service || comm, count: 0, bytes: 0 });
    return found.get(key)!;
  };
  const lanes = groups.flatMap((group) => group.lanes).filter(({ kind }) => kind === 'other_requests');
  for (const [device, times] of rows ? groupTimesByDevice(model, rows) : computeWaitTimes(model)) {
    if (times.length === 0) continue;
    const { node, name } = devices[device]!;
    // Keys are numbers, because texts would take longer than all else.
    const known: Neighbour[] = [];
    const ofDevice = lanes.filter((lane) => lane.node === node && lane.device === name);
    for (const track of ofDevice.flatMap(({ tracks }) => tracks))
      for (const row of selectOverlappingRows(track, times[0]!, times.at(-1)!)) {
        if (!overlaps(times, model.starts[row]!, model.ends[row]!)) continue;
        const thread = columns.thread[row]!;
        known[thread] ??= getOrCreateNeighbour(row, device);
        known[thread].count++;
        known[thread].bytes += columns.bytes[row]! || 0;
      }
  }
  return [...found.values()].sort((a, b) => b.count - a.count || b.bytes - a.bytes || (a.name < b.name ? -1 : 1));
}

/** The rows of a track that may overlap the time. */
function selectOverlappingRows({ rows, starts, reach }: LaneTrack, fromNs: number, toNs: number): Uint32Array {
  return rows.subarray(findFirstAtLeast(reach, fromNs), findFirstAtLeast(starts, toNs));
}

function computeWaitTimes(model: LanesModel): Map<number, TimeSet> {
  if (!model.ownSpan) return new Map();
  return new Map(
    [...requestTimes(model, model.ownSpan)].map(([device, { whole, unknown }]) => [device, uniteSets(whole, unknown)]),
  );
}

function groupTimesByDevice(model: LanesModel, rows: readonly number[]): Map<number, TimeSet> {
  const byDevice = Map.groupBy(rows, (row) => model.deviceOf[row]!);
  return new Map([...byDevice].map(([device, some]) => [device, uniteIntervals(collectIntervals(model, some))]));
}
