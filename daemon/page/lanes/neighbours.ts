/** Counts the requests of others that were on the same devices at the same time. */
import { threadOf } from '../columns/event_columns.ts';
import { overlaps, type TimeSet, union } from './intervals.ts';
import type { Device, LanesModel } from './model.ts';
import { requestTimes, timesOf } from './request_times.ts';
import { OTHER } from './shares.ts';

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
 * Counts requests of others on a device while requests of the transactions were under way there; those with the most
 * requests come first. `rows` limits it to certain requests of the transactions; without it, all that the transactions
 * may have waited for count.
 */
export function neighboursOf(model: LanesModel, rows?: readonly number[]): Neighbour[] {
  const { columns, shares, starts, ends, deviceOf, devices } = model;
  const busy = rows ? timesByDevice(model, rows) : waitedFor(model);
  const found = new Map<string, Neighbour>();
  // Keys are numbers, because texts would take longer than all else.
  const known: Neighbour[] = [];
  const neighbourOf = (row: number, device: number): Neighbour => {
    const { service, comm } = threadOf(columns, row);
    const key = `${device} ${service || comm}`;
    if (!found.has(key)) found.set(key, { device: devices[device]!, name: service || comm, count: 0, bytes: 0 });
    return found.get(key)!;
  };
  for (let row = 0; row < columns.count; row++) {
    const device = deviceOf[row]!;
    const times = shares[row] === OTHER ? busy.get(device) : undefined;
    if (!times || !overlaps(times, starts[row]!, ends[row]!)) continue;
    const place = columns.thread[row]! * devices.length + device;
    known[place] ??= neighbourOf(row, device);
    const neighbour = known[place];
    neighbour.count++;
    neighbour.bytes += columns.bytes[row]! || 0;
  }
  return [...found.values()].sort((a, b) => b.count - a.count || b.bytes - a.bytes || (a.name < b.name ? -1 : 1));
}

function waitedFor(model: LanesModel): Map<number, TimeSet> {
  if (!model.ownSpan) return new Map();
  return new Map([...requestTimes(model, model.ownSpan)].map(([device, { whole }]) => [device, whole]));
}

function timesByDevice(model: LanesModel, rows: readonly number[]): Map<number, TimeSet> {
  const byDevice = Map.groupBy(rows, (row) => model.deviceOf[row]!);
  return new Map([...byDevice].map(([device, some]) => [device, union(timesOf(model, some))]));
}
