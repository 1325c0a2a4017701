/** When requests that the transactions may have waited for were under way. */
import { recordingOf } from '../columns/event_columns.ts';
import { intersection, type TimeSet, union, unionOf } from './intervals.ts';
import type { Device, LanesModel, TimeSpan } from './model.ts';
import { OTHER, OWN } from './shares.ts';

export interface RequestTimes {
  device: Device;
  /** When requests waited before the device got them. */
  queued: TimeSet;
  /** When requests were under way, in the queue or at the device. */
  whole: TimeSet;
}

/**
 * The times of each device, by its index, within the span: requests that own threads queued, whatever data they carry, and
 * those of other threads that carry data of the transactions while an own sync runs on the same node.
 */
export function requestTimes(model: LanesModel, span: TimeSpan): Map<number, RequestTimes> {
  const { columns, shares, queued: isQueued, starts, ends, deviceOf, devices } = model;
  const lists = new Map<
    number,
    { queued: [own: number[], others: number[]]; whole: [own: number[], others: number[]] }
  >();
  for (let row = 0; row < columns.count; row++) {
    const device = deviceOf[row]!;
    const isOwn = shares[row] === OWN || isQueued[row] === 1;
    if (device < 0 || (shares[row] === OTHER && !isOwn)) continue;
    if (!lists.has(device)) lists.set(device, { queued: [[], []], whole: [[], []] });
    const { queued, whole } = lists.get(device)!;
    const side = isOwn ? 0 : 1;
    const [start, end] = [starts[row]!, ends[row]!];
    const queueNs = columns.queue[row]!;
    if (queueNs > 0) queued[side].push(start, Math.min(start + queueNs, end));
    whole[side].push(start, end);
  }
  const syncs = syncTimes(model);
  const within = Float64Array.of(span.fromNs, span.toNs);
  return new Map(
    [...lists].map(([index, { queued, whole }]) => {
      const device = devices[index]!;
      const waits = syncs.get(device.node) ?? new Float64Array(0);
      const times = ([own, others]: readonly [number[], number[]]) =>
        intersection(unionOf([own, intersection(union(others), waits)]), within);
      return [index, { device, queued: times(queued), whole: times(whole) }];
    }),
  );
}

/** When own syncs ran, by node. */
function syncTimes(model: LanesModel): Map<string, TimeSet> {
  const byNode = Map.groupBy(ownCalls(model, 'sys_sync'), (row) => recordingOf(model.columns, row).node);
  return new Map([...byNode].map(([node, rows]) => [node, union(timesOf(model, rows))]));
}

/** Starts and ends of rows, alternating. */
export function timesOf({ starts, ends }: LanesModel, rows: readonly number[]): Float64Array {
  const times = new Float64Array(2 * rows.length);
  for (let i = 0; i < rows.length; i++) {
    times[2 * i] = starts[rows[i]!]!;
    times[2 * i + 1] = ends[rows[i]!]!;
  }
  return times;
}

/** Rows of the own calls of a type. */
export function ownCalls({ columns, shares }: LanesModel, type: string): number[] {
  const rows: number[] = [];
  const isOfType = Array.from({ length: 256 }, (_, id) => columns.types.get(id) === type);
  for (let row = 0; row < columns.count; row++) if (shares[row] === OWN && isOfType[columns.type[row]!]) rows.push(row);
  return rows;
}
