/** Collects, by device, the times at which the transactions may have waited for requests. */

import { getRecording } from '../columns/event_columns.ts';
import { intersectSets, mergeIntervals, type TimeSet, uniteIntervals } from './intervals.ts';
import type { Device, LanesModel, TimeSpan } from './model.ts';
import { type CallTimes, findRequestWait, toCallTimes, WAITS } from './request_waits.ts';
import { OTHER, OWN } from './shares.ts';

export interface RequestTimes {
  device: Device;
  /** Times at which requests waited before the device got them. */
  queued: TimeSet;
  /** Times at which requests were under way, in the queue or at the device. */
  whole: TimeSet;
  /** The same times, but only for requests that a thread queued in a call, and only until that call ended. */
  exact: { queued: TimeSet; whole: TimeSet };
  /** Times at which requests were under way but it is not known whether anyone waited for them. */
  unknown: TimeSet;
}

/**
 * Returns the times of each device within the span, by the device's index. Requests that own threads queued in a call
 * count until the call ends, even if they carry data of others. While an own sync runs on the same node, two more kinds
 * of requests count: own requests that outlive their call, and requests of other threads that carry data of the
 * transactions. With `calls`, only requests count for which these own calls waited.
 */
export function requestTimes(
  model: LanesModel,
  span: TimeSpan,
  calls: readonly number[] = CALL_TYPES.flatMap((type) => ownCalls(model, type)),
): Map<number, RequestTimes> {
  const { columns, shares, queued: isQueued, starts, ends, deviceOf, devices } = model;
  const lists = new Map<
    number,
    { queued: [own: number[], others: number[]]; whole: [own: number[], others: number[]]; unknown: number[] }
  >();
  const findThreadCalls = createThreadCallsFinder(model, calls);
  for (let row = 0; row < columns.count; row++) {
    const device = deviceOf[row]!;
    const isOwn = shares[row] === OWN || isQueued[row] === 1;
    if (device < 0 || (shares[row] === OTHER && !isOwn)) continue;
    if (!lists.has(device)) lists.set(device, { queued: [[], []], whole: [[], []], unknown: [] });
    const { queued, whole, unknown } = lists.get(device)!;
    const start = starts[row]!;
    const end = ends[row]!;
    const sent = columns.queue[row]! > 0 ? Math.min(start + columns.queue[row]!, end) : start;
    const wait = isOwn ? findRequestWait(findThreadCalls(row), start, end) : { kind: WAITS.nobody, untilNs: start };
    if (wait.kind === WAITS.unknown) unknown.push(start, end);
    else {
      const until = wait.untilNs;
      queued[0].push(start, Math.min(sent, until));
      whole[0].push(start, Math.min(end, until));
      queued[1].push(until, sent);
      whole[1].push(until, end);
    }
  }
  const syncs = collectSyncTimes(model, calls);
  const within = Float64Array.of(span.fromNs, span.toNs);
  return new Map(
    [...lists].map(([index, { queued, whole, unknown }]) => {
      const device = devices[index]!;
      const waits = syncs.get(device.node) ?? new Float64Array(0);
      const computeTimes = ([own, others]: readonly [number[], number[]]) =>
        intersectSets(mergeIntervals([own, intersectSets(uniteIntervals(others), waits)]), within);
      const times = {
        device,
        queued: computeTimes(queued),
        whole: computeTimes(whole),
        exact: { queued: computeTimes([queued[0], []]), whole: computeTimes([whole[0], []]) },
        unknown: computeTimes([unknown, []]),
      };
      return [index, times];
    }),
  );
}

const CALL_TYPES = ['sys_write', 'sys_sync'];

/** Returns a function that takes a row and returns the calls of its thread. */
function createThreadCallsFinder(
  { columns, starts, ends }: LanesModel,
  calls: readonly number[],
): (row: number) => CallTimes | undefined {
  const threads = numberThreads(columns);
  const lists: number[][] = [];
  for (const row of calls) {
    const thread = threads[columns.thread[row]!]!;
    lists[thread] ??= [];
    lists[thread].push(starts[row]!, ends[row]!);
  }
  const known: CallTimes[] = [];
  return (row) => {
    const thread = threads[columns.thread[row]!]!;
    if (!lists[thread]) return undefined;
    known[thread] ??= toCallTimes(lists[thread]);
    return known[thread];
  };
}

/**
 * Returns a number for each thread. Threads with the same node and thread id have the same number, even if their
 * command names differ.
 */
export function numberThreads({ threads, recordings }: LanesModel['columns']): number[] {
  const known = new Map<string, number>();
  return threads.map(({ recording, tid }, at) => {
    const key = `${tid} ${recordings[recording]!.node}`;
    if (!known.has(key)) known.set(key, at);
    return known.get(key)!;
  });
}

/** Returns, for each node, the times at which syncs among the calls ran. */
function collectSyncTimes(model: LanesModel, calls: readonly number[]): Map<string, TimeSet> {
  const { columns } = model;
  const syncs = calls.filter((row) => columns.types.get(columns.type[row]!) === 'sys_sync');
  const byNode = Map.groupBy(syncs, (row) => getRecording(columns, row).node);
  return new Map([...byNode].map(([node, rows]) => [node, uniteIntervals(collectIntervals(model, rows))]));
}

/** Returns the starts and ends of rows, alternating. */
export function collectIntervals({ starts, ends }: LanesModel, rows: readonly number[]): Float64Array {
  const times = new Float64Array(2 * rows.length);
  for (let i = 0; i < rows.length; i++) {
    times[2 * i] = starts[rows[i]!]!;
    times[2 * i + 1] = ends[rows[i]!]!;
  }
  return times;
}

/** Returns the rows of own calls that have the given type. */
export function ownCalls({ columns, shares }: LanesModel, type: string): number[] {
  const rows: number[] = [];
  const isOfType = Array.from({ length: 256 }, (_, id) => columns.types.get(id) === type);
  for (let row = 0; row < columns.count; row++) if (shares[row] === OWN && isOfType[columns.type[row]!]) rows.push(row);
  return rows;
}
