/**
 * Explains where the time of transactions went: the parts of the time, the calls that took most of it, and the waits of
 * these calls. Also lists the requests of others on the same devices, and the calls that failed. The page, the API and
 * `kreplay show` use these explanations.
 */
import { getErrorName, getRecording, getThread, getWhat } from '../columns/event_columns.ts';
import { type Breakdown, type BreakdownPart, computeBreakdown } from '../lanes/breakdown.ts';
import { intersectSets, NO_TIME, sumLengthNs, type TimeSet, uniteIntervals, uniteSets } from '../lanes/intervals.ts';
import { callName, type Device, type LanesModel, type TimeSpan } from '../lanes/model.ts';
import { collectNeighbours, type Neighbour } from '../lanes/neighbours.ts';
import { collectIntervals, ownCalls, type RequestTimes, requestTimes } from '../lanes/request_times.ts';
import { OTHER, OWN } from '../lanes/shares.ts';
import { type Burst, findBursts } from './bursts.ts';

/** A call that an explanation names. */
export interface NamedCall {
  row: number;
  call: string;
  /** Path of the file; null if the call has no file or its path is not known. */
  file: string | null;
  comm: string;
  durationNs: number;
}

/** Calls in which most of the recorded waiting took place. */
export interface CallGroup {
  /** Name of the calls, such as `fsync`; null if they have several names. */
  call: string | null;
  /** Path of the calls' file; null if the calls have several files or an unknown file. */
  file: string | null;
  /** Number of different files with a known path; files of different nodes count separately. */
  fileCount: number;
  /** Command names of the threads that made calls without a known file. */
  unknownComms: string[];
  count: number;
  /** Nanoseconds in which at least one of the calls was in progress. */
  timeNs: number;
  /** Time from the first start to the last end of these calls. */
  span: TimeSpan;
  longest: NamedCall;
}

/** The part of the breakdown that took most of the calls' time, and the device where it was spent. */
export interface Wait {
  part: Exclude<BreakdownPart, 'request' | 'untraced'>;
  timeNs: number;
  /** Device with most of the time of the parts `queue` and `service`; null for other parts. */
  device: Device | null;
  /** Nanoseconds of the part at that device; 0 if `device` is null. */
  deviceNs: number;
  /**
   * Whether it is only likely that the calls waited for these requests: others queued them, with data of the
   * transactions, while a sync ran.
   */
  isInferred: boolean;
}

export interface FailedCalls {
  call: string;
  comm: string;
  error: string;
  count: number;
}

export interface Explanation {
  service: string;
  breakdown: Breakdown;
  /** The calls that took most of the time in calls; null if the transactions made no call. */
  calls: CallGroup | null;
  /** The part that took most of the time of these calls; null without calls. */
  wait: Wait | null;
  /** Device with the longest time of requests outside of calls; null without such requests. */
  outside: Device | null;
  /** The kind of time that is longest; the sentence names it first. */
  most: 'calls' | 'outside' | 'untraced';
  /**
   * Requests of others on devices of the transactions, counted while the calls were in progress on the device's node.
   * If `most` is `outside`, counted while the requests outside of calls were under way. The largest number comes first.
   */
  neighbours: Neighbour[];
  /** Number of nodes with own events. */
  nodeCount: number;
  /** Failed calls, the most frequent first. */
  failures: FailedCalls[];
  /**
   * Periods of own events; each pause between them is longer than a second and longer than all own events took
   * together. Most transactions have one burst.
   */
  bursts: Burst[];
}

/** Explains the time of the transactions; returns null if they have no own events. */
export function explain(model: LanesModel): Explanation | null {
  const { ownSpan, columns } = model;
  if (!ownSpan) return null;
  const byDevice = requestTimes(model, ownSpan);
  const devices = [...byDevice.values()];
  const breakdown = computeBreakdown(model, devices)!;
  const chosen = chooseGroup(model);
  const calls = chosen && describeGroup(model, chosen);
  const outside = findOutsideDevice(devices);
  const most = findMost(breakdown, calls !== null, outside !== null);
  return {
    service: getThread(columns, calls?.longest.row ?? findFirstOwn(model)).service,
    breakdown,
    calls,
    wait: chosen && findWait(model, chosen, ownSpan),
    outside,
    most,
    neighbours: collectNeighbours(
      model,
      most === 'outside'
        ? new Map([...byDevice].map(([device, { unknown }]) => [device, unknown]))
        : collectTimesByDevice(model, chosen?.rows ?? []),
    ),
    nodeCount: countOwnNodes(model),
    failures: collectFailures(model),
    bursts: findBursts(model),
  };
}

function findMost({ durationNs, parts }: Breakdown, hasCalls: boolean, hasOutside: boolean): Explanation['most'] {
  const inCallsNs = durationNs - parts.untraced - parts.request;
  if (hasOutside && parts.request >= inCallsNs && parts.request >= parts.untraced) return 'outside';
  return hasCalls && inCallsNs >= parts.untraced ? 'calls' : 'untraced';
}

/** Maps the index of each device of the transactions to the times of the calls on the device's node. */
function collectTimesByDevice(model: LanesModel, calls: readonly number[]): Map<number, TimeSet> {
  const byNode = Map.groupBy(calls, (row) => getRecording(model.columns, row).node);
  const times = new Map([...byNode].map(([node, rows]) => [node, collectTimes(model, rows)]));
  return new Map(listOwnDevices(model).map((device) => [device, times.get(model.devices[device]!.node) ?? NO_TIME]));
}

function countOwnNodes({ columns, shares }: LanesModel): number {
  const isOwn = new Uint8Array(columns.threads.length);
  for (let row = 0; row < columns.count; row++) if (shares[row] === OWN) isOwn[columns.thread[row]!] = 1;
  const recordings = columns.threads.filter((_, thread) => isOwn[thread] === 1).map(({ recording }) => recording);
  return new Set(recordings.map((recording) => columns.recordings[recording]!.node)).size;
}

const collectTimes = (model: LanesModel, rows: readonly number[]) => uniteIntervals(collectIntervals(model, rows));

interface Groups {
  all: number[];
  byName: number[][];
  byFile: number[][];
}

/** Groups own calls in two ways: by name alone, and by name and file. */
function groupCalls(model: LanesModel): Groups {
  const { columns } = model;
  const all = ['sys_write', 'sys_sync'].flatMap((type) => ownCalls(model, type));
  // Numbers stand for names and files, because text keys for a million calls would take longer than building their
  // lanes.
  const [names, files] = [new Map<string, number[]>(), new Map<string, number[]>()];
  const known = new Map<number, [name: number[], file: number[]]>();
  for (const row of all) {
    const place = columns.threads[columns.thread[row]!]!.recording * columns.whats.length + columns.what[row]!;
    let lists = known.get(place);
    if (!lists) {
      const name = callName(columns, row);
      const { target } = getWhat(columns, row);
      // Calls on unknown files are grouped by the command name of their thread.
      const file = target ?? [getThread(columns, row).comm];
      const key = JSON.stringify([name, getRecording(columns, row).node, file]);
      lists = [getOrCreate(names, name), getOrCreate(files, key)];
      if (target !== null) known.set(place, lists);
    }
    lists[0].push(row);
    lists[1].push(row);
  }
  return { all, byName: [...names.values()], byFile: [...files.values()] };
}

function getOrCreate(lists: Map<string, number[]>, key: string): number[] {
  const list = lists.get(key) ?? [];
  lists.set(key, list);
  return list;
}

interface ChosenGroup {
  rows: readonly number[];
  /** Times at which one of the calls was in progress. */
  times: TimeSet;
}

/**
 * Chooses the narrowest group of calls that was in progress for at least half of the time of all calls; null without
 * calls.
 */
function chooseGroup(model: LanesModel): ChosenGroup | null {
  const { all, byName, byFile } = groupCalls(model);
  if (all.length === 0) return null;
  const allTimes = collectTimes(model, all);
  const halfNs = sumLengthNs(allTimes) / 2;
  for (const groups of [byFile, byName]) {
    const longest = findLongestGroup(model, groups, halfNs);
    if (longest) return longest;
  }
  return { rows: all, times: allTimes };
}

/** Finds the group that was in progress for the longest time; returns null if this time is below `leastNs`. */
function findLongestGroup(model: LanesModel, groups: readonly number[][], leastNs: number): ChosenGroup | null {
  const { starts, ends } = model;
  const sumNs = (rows: readonly number[]) => rows.reduce((sum, row) => sum + ends[row]! - starts[row]!, 0);
  // A group is in progress for at most the sum of its durations, which takes less time to compute than a union.
  const bySum = groups.map((rows) => ({ rows, sumNs: sumNs(rows) })).sort((a, b) => b.sumNs - a.sumNs);
  let [longest, longestNs]: [ChosenGroup | null, number] = [null, -1];
  for (const { rows, sumNs } of bySum) {
    if (sumNs < leastNs || sumNs <= longestNs) break;
    const times = collectTimes(model, rows);
    const timeNs = sumLengthNs(times);
    if (timeNs >= leastNs && timeNs > longestNs) [longest, longestNs] = [{ rows, times }, timeNs];
  }
  return longest;
}

function describeGroup(model: LanesModel, { rows, times }: ChosenGroup): CallGroup {
  const { columns, starts, ends } = model;
  const getDurationNs = (row: number) => ends[row]! - starts[row]!;
  const longest = rows.reduce((most, row) => (getDurationNs(row) > getDurationNs(most) ? row : most));
  const [names, files, comms] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const seen = new Set<number>();
  for (const row of rows) {
    const place = columns.thread[row]! * columns.whats.length + columns.what[row]!;
    if (seen.has(place)) continue;
    seen.add(place);
    names.add(callName(columns, row));
    const { target } = getWhat(columns, row);
    if (target === null) comms.add(getThread(columns, row).comm);
    else files.add(JSON.stringify([getRecording(columns, row).node, target]));
  }
  const { target } = getWhat(columns, longest);
  return {
    call: names.size === 1 ? callName(columns, longest) : null,
    file: files.size === 1 && comms.size === 0 ? target : null,
    fileCount: files.size,
    unknownComms: [...comms],
    count: rows.length,
    timeNs: sumLengthNs(times),
    span: { fromNs: times[0] ?? starts[longest]!, toNs: times.at(-1) ?? ends[longest]! },
    longest: {
      row: longest,
      call: callName(columns, longest),
      file: target,
      comm: getThread(columns, longest).comm,
      durationNs: getDurationNs(longest),
    },
  };
}

/**
 * Finds the part that took most of the calls' time. Requests that other tasks queued are considered only if the longest
 * part contains no requests of the calls' threads. These requests must then take at least half of the time.
 */
function findWait(model: LanesModel, { rows, times }: ChosenGroup, span: TimeSpan): Wait {
  const syncs = rows.filter((row) => model.columns.types.get(model.columns.type[row]!) === 'sys_sync');
  const inSyncs = collectTimes(model, syncs);
  const all = [...requestTimes(model, span, rows).values()];
  const exact = all.map((one) => ({ device: one.device, ...one.exact }));
  const wait = findLongestPart(exact, times, inSyncs);
  if (wait.device !== null) return wait;
  const inferred = findLongestPart(all, times, inSyncs);
  const isLong = inferred.device !== null && 2 * inferred.timeNs >= sumLengthNs(times);
  return isLong ? { ...inferred, isInferred: true } : wait;
}

type WaitedTimes = Pick<RequestTimes, 'device' | 'queued' | 'whole'>;

function findLongestPart(devices: readonly WaitedTimes[], times: TimeSet, inSyncs: TimeSet): Wait {
  const queued = devices.map((one) => one.queued).reduce(uniteSets, NO_TIME);
  const inOrder: readonly (readonly [Wait['part'], TimeSet])[] = [
    ['queue', queued],
    ['service', devices.map(({ whole }) => whole).reduce(uniteSets, NO_TIME)],
    ['sync', inSyncs],
    ['write', times],
  ];
  let covered = NO_TIME;
  let coveredNs = 0;
  let most: Pick<Wait, 'part' | 'timeNs'> = { part: 'write', timeNs: 0 };
  for (const [part, some] of inOrder) {
    covered = uniteSets(covered, intersectSets(some, times));
    const ns = sumLengthNs(covered) - coveredNs;
    coveredNs += ns;
    if (ns > most.timeNs) most = { part, timeNs: ns };
  }
  const isOfDevice = most.part === 'queue' || most.part === 'service';
  const computeNs = ({ queued, whole }: WaitedTimes) => {
    const queuedNs = sumLengthNs(intersectSets(queued, times));
    return most.part === 'queue' ? queuedNs : sumLengthNs(intersectSets(whole, times)) - queuedNs;
  };
  const busiest = isOfDevice ? findBusiest(devices, computeNs) : null;
  return { ...most, device: busiest?.device ?? null, deviceNs: busiest?.ns ?? 0, isInferred: false };
}

function findOutsideDevice(devices: readonly RequestTimes[]): Device | null {
  const some = devices.filter(({ unknown }) => unknown.length > 0);
  return findBusiest(some, ({ unknown }) => sumLengthNs(unknown))?.device ?? null;
}

function findBusiest<Times extends Pick<RequestTimes, 'device'>>(
  devices: readonly Times[],
  computeNs: (times: Times) => number,
): { device: Device; ns: number } | undefined {
  const [most] = devices.map((one) => ({ device: one.device, ns: computeNs(one) })).sort((a, b) => b.ns - a.ns);
  return most;
}

/** Returns the indexes of devices that got requests from the transactions, or requests with their data. */
function listOwnDevices({ columns, shares, queued, deviceOf }: LanesModel): number[] {
  const devices = new Set<number>();
  for (let row = 0; row < columns.count; row++)
    if (deviceOf[row]! >= 0 && (shares[row] !== OTHER || queued[row] === 1)) devices.add(deviceOf[row]!);
  return [...devices];
}

function findFirstOwn({ shares, starts }: LanesModel): number {
  let first = -1;
  for (let row = 0; row < shares.length; row++)
    if (shares[row] === OWN && (first === -1 || starts[row]! < starts[first]!)) first = row;
  return first;
}

function collectFailures({ columns, shares, deviceOf }: LanesModel): FailedCalls[] {
  const found = new Map<string, FailedCalls>();
  for (let row = 0; row < columns.count; row++) {
    if (shares[row] !== OWN || deviceOf[row]! >= 0 || columns.result[row]! >= 0) continue;
    const [call, { comm }, error] = [callName(columns, row), getThread(columns, row), getErrorName(columns, row)!];
    const key = JSON.stringify([call, comm, error]);
    const failed = found.get(key) ?? { call, comm, error, count: 0 };
    failed.count++;
    found.set(key, failed);
  }
  return [...found.values()].sort((a, b) => b.count - a.count);
}
