/** Counts the requests of others that were under way on the same devices at the same time. */
import { findFirstAtLeast, getThread } from '../columns/event_columns.ts';
import { overlaps, type TimeSet, uniteIntervals } from './intervals.ts';
import type { Device, LanesModel } from './model.ts';
import { collectIntervals } from './request_times.ts';
import type { LaneTrack } from './tracks.ts';

export interface Neighbour {
  device: Device;
  /** The service, or if there is none, the command of the thread. */
  name: string;
  /** Number of the neighbour's requests. */
  count: number;
  /** Bytes of these requests, counting only known numbers. */
  bytes: number;
}

/**
 * Counts requests of others that were under way on a device at the times that `timesByDevice` lists under the device's
 * index. Neighbours with the most requests come first.
 */
export function collectNeighbours(model: LanesModel, timesByDevice: ReadonlyMap<number, TimeSet>): Neighbour[] {
  const { columns, devices, groups } = model;
  const found = new Map<string, Neighbour>();
  const getOrCreateNeighbour = (row: number, device: number): Neighbour => {
    const { service, comm } = getThread(columns, row);
    const key = `${device} ${service || comm}`;
    if (!found.has(key)) found.set(key, { device: devices[device]!, name: service || comm, count: 0, bytes: 0 });
    return found.get(key)!;
  };
  const lanes = groups.flatMap((group) => group.lanes).filter(({ kind }) => kind === 'other_requests');
  for (const [device, times] of timesByDevice) {
    if (times.length === 0) continue;
    const { node, name } = devices[device]!;
    // Keys are numbers, because text keys would take longer than all other work.
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

/** Returns the rows of a track that may overlap the given time. */
function selectOverlappingRows({ rows, starts, reach }: LaneTrack, fromNs: number, toNs: number): Uint32Array {
  return rows.subarray(findFirstAtLeast(reach, fromNs), findFirstAtLeast(starts, toNs));
}

/** Returns the times of the given requests, by the index of their device. */
export function groupTimesByDevice(model: LanesModel, rows: readonly number[]): Map<number, TimeSet> {
  const byDevice = Map.groupBy(rows, (row) => model.deviceOf[row]!);
  return new Map([...byDevice].map(([device, some]) => [device, uniteIntervals(collectIntervals(model, some))]));
}
