/**
 * Divides the time of a transaction into parts, using its kept events, and finds the requests of others for which it
 * waited.
 */

import { toWords } from '../../../agent/recording/words64.ts';
import { findFirstPlace } from '../../base/binary_search.ts';
import { type CallTimes, findRequestWait, toCallTimes, WAITS } from '../../model/lanes/request_waits.ts';
import { PARTS } from './comparison.ts';
import { type EventRows, type ExactTimes, type KeptEvents, ROLES } from './kept_events.ts';
import type { ProfileColumns } from './profile_columns.ts';
import type { SideSums } from './side_sums.ts';
import { computeDurationMax, createIntervals, KINDS } from './time_parts.ts';

const WORD = 2 ** 32;

export interface TransactionParts {
  /**
   * Adds the parts of a transaction's time to the sums of a side. Calls `onWaited` for each request of others for which
   * the transaction waited, with the device, the profile and the start of the wait. If the times of the rows were
   * replaced by ranks, returns the times by rank.
   */
  add(rows: EventRows, transaction: number, side: SideSums, onWaited: OnWaited): readonly bigint[] | undefined;
}

type OnWaited = (device: number, profile: number, from: number) => void;

export function createTransactionParts(
  columns: ProfileColumns,
  kept: Pick<KeptEvents, 'readExactTimes'>,
  durationsNs: BigUint64Array,
): TransactionParts {
  const lengths = toWords(durationsNs);
  const intervals = createIntervals();
  const sums = new Float64Array(PARTS.length);
  const nodesOf = createNodeNumbers(columns);
  /** For each node, the times at which syncs of the transaction ran: starts and ends, alternating and in order. */
  const syncs: number[][] = [];

  const addTime = (part: number, from: number, to: number) => {
    sums[part]! += to - from;
  };
  const addSync = (node: number, from: number, to: number) => {
    syncs[node]!.push(from, to);
  };
  const ignore = () => {};

  function addIntervals(rows: EventRows): void {
    const { profiles, roles, starts, ends } = rows;
    const findThreadCalls = createThreadCallFinder(rows, columns, nodesOf.of);
    for (let row = 0; row < rows.length; row++) {
      const kind = columns.kinds[profiles[row]!]!;
      const node = nodesOf.of(profiles[row]!);
      if (kind === KINDS.write || kind === KINDS.sync) intervals.add(kind, node, starts[row]!, ends[row]!);
      else if (kind === KINDS.ownQueue && roles[row] === ROLES.carried) addCarried(rows, row, node, starts[row]!);
      else if (kind === KINDS.ownQueue) addQueued(rows, row, node, findThreadCalls(row));
    }
  }

  function addQueued({ starts, sent, ends }: EventRows, row: number, node: number, calls: CallTimes | undefined): void {
    const { kind, untilNs } = findRequestWait(calls, starts[row]!, ends[row]!);
    if (kind === WAITS.unknown) intervals.add(KINDS.unknown, node, starts[row]!, ends[row]!);
    else {
      // The caller waits for the request until the call that queued it ends; if no call queued it (`WAITS.nobody`),
      // the caller does not wait.
      intervals.add(KINDS.ownQueue, node, starts[row]!, Math.min(sent[row]!, untilNs));
      intervals.add(KINDS.ownService, node, sent[row]!, Math.min(ends[row]!, untilNs));
      addCarried({ starts, sent, ends }, row, node, untilNs);
    }
  }

  /** Adds the intervals of a request, beginning at `from`; the transaction waits for the request while a sync runs. */
  function addCarried({ sent, ends }: TimeColumns, row: number, node: number, from: number): void {
    intervals.add(KINDS.itsQueue, node, from, sent[row]!);
    intervals.add(KINDS.itsService, node, Math.max(sent[row]!, from), ends[row]!);
  }

  function passWaited(rows: EventRows, onWaited: OnWaited): void {
    for (let row = 0; row < rows.length; row++) {
      const profile = rows.profiles[row]!;
      if (rows.roles[row] === ROLES.own || columns.devices[profile]! < 0) continue;
      const start = rows.starts[row]!;
      const end = rows.ends[row]!;
      const isQueued = rows.roles[row] === ROLES.queued;
      const from = isQueued ? start : findOverlapStart(syncs[nodesOf.of(profile)]!, start, end);
      if (from !== undefined) onWaited(columns.devices[profile]!, profile, from);
    }
  }

  return {
    add(rows, transaction, { parts, medianParts }, onWaited) {
      const nodes = nodesOf.begin(rows);
      const duration = lengths[transaction * 2 + 1]! * WORD + lengths[transaction * 2]!;
      const isLong = duration > computeDurationMax(nodes);
      const exact = isLong ? replaceByRanks(rows, durationsNs[transaction]!, kept) : undefined;
      const hasOthers = rows.roles.subarray(0, rows.length).some((role) => role !== ROLES.own);
      if (hasOthers) for (let node = 0; node < nodes; node++) syncs[node] = [];
      intervals.begin(nodes, exact ? exact.length - 1 : duration);
      addIntervals(rows);
      sums.fill(0);
      const large = exact && createLargeSums(exact);
      intervals.sweep(large ? large.add : addTime, hasOthers ? addSync : ignore);
      for (let part = 0; part < sums.length; part++) {
        const largeNs = large?.sums[part] ?? 0n;
        if (largeNs > 0n) parts[part]!.addLarge(largeNs);
        if (largeNs > 0n) medianParts[part]!.add(Number(largeNs));
        if (sums[part]! > 0) parts[part]!.add(sums[part]!);
        if (sums[part]! > 0) medianParts[part]!.add(sums[part]!);
      }
      if (hasOthers) passWaited(rows, onWaited);
      return exact;
    },
  };
}

type TimeColumns = Pick<EventRows, 'starts' | 'sent' | 'ends'>;

/** Returns a function that takes the row of a request and returns the calls of the thread that queued it. */
function createThreadCallFinder(
  { length, profiles, roles, threads, starts, ends }: EventRows,
  { kinds }: ProfileColumns,
  getNode: (profile: number) => number,
): (row: number) => CallTimes | undefined {
  const computeKey = (row: number) => getNode(profiles[row]!) * WORD + threads[row]!;
  const isQueued = (row: number) => kinds[profiles[row]!] === KINDS.ownQueue && roles[row] !== ROLES.carried;
  const calls = new Map<number, number[]>();
  const known = new Map<number, CallTimes>();
  // Most transactions have no requests, so their calls need not be gathered.
  for (let row = 0; row < length; row++) if (isQueued(row)) calls.set(computeKey(row), []);
  if (calls.size > 0)
    for (let row = 0; row < length; row++) {
      const kind = kinds[profiles[row]!];
      if (kind === KINDS.write || kind === KINDS.sync) calls.get(computeKey(row))?.push(starts[row]!, ends[row]!);
    }
  return (row) => {
    const key = computeKey(row);
    let times = known.get(key);
    if (!times) {
      times = toCallTimes(calls.get(key)!);
      known.set(key, times);
    }
    return times;
  };
}

/** Sums up times that were replaced by ranks. */
function createLargeSums(times: readonly bigint[]) {
  const sums = PARTS.map(() => 0n);
  return {
    sums,
    add(part: number, from: number, to: number): void {
      sums[part]! += times[to]! - times[from]!;
    },
  };
}

/** Numbers the nodes of one transaction from 0, because a transaction uses only a few of all nodes. */
function createNodeNumbers({ nodes, nodeCount }: ProfileColumns) {
  const numbers = new Int32Array(nodeCount);
  const seenBy = new Int32Array(nodeCount);
  let transaction = 0;
  return {
    /** Begins a transaction; returns its number of nodes. */
    begin({ profiles, length }: EventRows): number {
      let count = 0;
      transaction++;
      for (let row = 0; row < length; row++) {
        const node = nodes[profiles[row]!]!;
        if (seenBy[node] === transaction) continue;
        seenBy[node] = transaction;
        numbers[node] = count++;
      }
      return Math.max(count, 1);
    },
    of: (profile: number): number => numbers[nodes[profile]!]!,
  };
}

/** Returns the first time in `[start, end)` that is within one of the intervals, which must not overlap each other. */
function findOverlapStart(intervals: readonly number[], start: number, end: number): number | undefined {
  const first = findFirstPlace(0, intervals.length / 2, (place) => intervals[place * 2 + 1]! > start);
  if (first * 2 >= intervals.length) return undefined;
  const from = Math.max(intervals[first * 2]!, start);
  return from < Math.min(intervals[first * 2 + 1]!, end) ? from : undefined;
}

/**
 * Replaces times by their ranks, because doubles do not represent the times of a transaction of several days exactly.
 * Returns the times by rank, from 0 to the duration.
 */
function replaceByRanks(
  rows: EventRows,
  durationNs: bigint,
  { readExactTimes }: Pick<KeptEvents, 'readExactTimes'>,
): bigint[] {
  const clampTime = (ns: bigint) => (ns < 0n ? 0n : ns > durationNs ? durationNs : ns);
  const all = Array.from({ length: rows.length }, (_, row): ExactTimes => {
    const { start, sent, end } = readExactTimes(rows.places[row]!);
    return { start: clampTime(start), sent: clampTime(sent), end: clampTime(end) };
  });
  const times = new Set([0n, durationNs, ...all.flatMap(({ start, sent, end }) => [start, sent, end])]);
  const ordered = [...times].sort((a, b) => (a < b ? -1 : 1));
  const ranks = new Map(ordered.map((time, rank) => [time, rank]));
  for (const [row, { start, sent, end }] of all.entries()) {
    rows.starts[row] = ranks.get(start)!;
    rows.sent[row] = ranks.get(sent)!;
    rows.ends[row] = ranks.get(end)!;
  }
  return ordered;
}
