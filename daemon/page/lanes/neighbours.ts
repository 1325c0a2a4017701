/** Counts the requests of others that were under way on the same devices at the same time. */
import { findFirstAtLeast, getThread } from '../columns/event_columns.ts';
import { overlaps, type TimeSet, uniteIntervals, uniteSets } from './intervals.ts';
import type { Device, LanesModel } from './model.ts';
import { collectIntervals, requestTimes } from './request_times.ts';
import type { LaneTrack } from './tracks.ts';

export interface Neighbour {
  device: Device;
  /** The service, or if there is none, the command of the thread. */
  name: string;
  /** Number of the neighbour's requests that overlap requests of the transactions. */
  count: number;
  /** Bytes of these requests, counting only known numbers. */
  bytes: number;
}

/**
 * Counts requests of others that were under way on a device at the same time as requests of the transactions;
 * neighbours with the most requests come first. `rows` limits the count to the time of certain requests of the
 * transactions; without `rows`, the time of all requests for which the transactions may have waited is used.
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
