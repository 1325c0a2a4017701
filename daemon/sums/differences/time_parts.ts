/**
 * Divides the time of one transaction into parts. Each moment belongs to the first part that applies to it.
 *
 *   queue     a request of the transaction's own threads waits, and the call that queued it still runs; or, while a
 *             sync of the transaction runs: such a request waits outside its call, or a request of others with the
 *             transaction's data waits
 *   service   a device works on such a request
 *   sync      one of its syncs runs
 *   write     one of its writes runs
 *   request   a request that its threads queued outside calls is under way: whether a thread waits for it is not known
 *   untraced  the rest
 */
import { growArray } from '../../base/growing_array.ts';
import { PARTS } from './comparison.ts';

/** Kinds of intervals. Requests of others count while a sync runs on the same node. */
export const KINDS = { write: 0, sync: 1, ownQueue: 2, ownService: 3, itsQueue: 4, itsService: 5, unknown: 6 } as const;

const [SYNC, WRITE, REQUEST] = (['sync', 'write', 'request'] as const).map((part) => PARTS.indexOf(part)) as [
  number,
  number,
  number,
];
const UNTRACED = PARTS.indexOf('untraced');
/** Number of bits for the kind of an interval; the bits above contain the node. */
const KIND_BITS = 3;

export interface Intervals {
  /**
   * Removes all intervals and begins a transaction. Times are whole numbers from 0 to `duration`, which is at most
   * `computeDurationMax(nodes)`.
   */
  begin(nodes: number, duration: number): void;
  /** Adds an interval. `node` is below the number of nodes, and time outside [0, duration) is left out. */
  add(kind: number, node: number, start: number, end: number): void;
  /**
   * Divides the whole time: calls `onPart` with each part and its time, and `onSync` with the node and the time of each
   * sync. Each callback is called in order of time.
   */
  sweep(onPart: OnTime, onSync: OnTime): void;
}

type OnTime = (partOrNode: number, from: number, to: number) => void;

/**
 * Returns the longest duration that can be encoded. Both ends of an interval are numbers that sort by time: the lowest
 * bits contain the node, the kind, and whether the number is a start or an end.
 */
export function computeDurationMax(nodes: number): number {
  return 2 ** 52 / computeScale(nodes);
}

function computeScale(nodes: number): number {
  return 2 ** (Math.ceil(Math.log2(nodes)) + KIND_BITS + 1);
}

export function createIntervals(): Intervals {
  let ends = new Float64Array(256);
  let count = 0;
  let [scale, duration] = [1, 0];
  let running = createRunningParts(1);

  return {
    begin(nodes, until) {
      count = 0;
      duration = until;
      scale = computeScale(nodes);
      if (nodes > running.nodes) running = createRunningParts(nodes * 2);
    },
    add(kind, node, start, end) {
      const from = Math.max(start, 0);
      const to = Math.min(end, duration);
      if (to <= from) return;
      if (count + 2 > ends.length) ends = growArray(ends);
      const mark = ((node << KIND_BITS) + kind) * 2;
      ends[count++] = from * scale + mark;
      ends[count++] = to * scale + mark + 1;
    },
    sweep(onPart, onSync) {
      sort(ends, count);
      let reached = 0;
      for (let i = 0; i < count; i++) {
        const time = Math.floor(ends[i]! / scale);
        const mark = ends[i]! - time * scale;
        if (time > reached) onPart(running.findPart(), reached, time);
        reached = time;
        running.change(mark >>> 1, (mark & 1) === 0 ? 1 : -1, time, onSync);
      }
      if (duration > reached) onPart(UNTRACED, reached, duration);
    },
  };
}

/** Counts the intervals that run at the current time of a sweep; at the end of the sweep, all intervals have ended. */
function createRunningParts(nodes: number) {
  const counts = new Int32Array(nodes << KIND_BITS);
  const partOfNode = new Uint8Array(nodes).fill(UNTRACED);
  const syncSince = new Float64Array(nodes);
  /** Number of nodes that currently spend time on each part. */
  const nodesIn = new Int32Array(PARTS.length);

  function choosePart(node: number): number {
    const at = node << KIND_BITS;
    const syncs = counts[at + KINDS.sync]! > 0;
    if (counts[at + KINDS.ownQueue]! > 0 || (syncs && counts[at + KINDS.itsQueue]! > 0)) return 0;
    if (counts[at + KINDS.ownService]! > 0 || (syncs && counts[at + KINDS.itsService]! > 0)) return 1;
    if (syncs) return SYNC;
    if (counts[at + KINDS.write]! > 0) return WRITE;
    return counts[at + KINDS.unknown]! > 0 ? REQUEST : UNTRACED;
  }

  return {
    nodes,
    findPart(): number {
      let part = 0;
      while (part < UNTRACED && nodesIn[part] === 0) part++;
      return part;
    },
    change(at: number, by: number, time: number, onSync: OnTime): void {
      const node = at >>> KIND_BITS;
      counts[at]! += by;
      if ((at & (2 ** KIND_BITS - 1)) === KINDS.sync) {
        if (by > 0 && counts[at] === 1) syncSince[node] = time;
        if (counts[at] === 0) onSync(node, syncSince[node]!, time);
      }
      nodesIn[partOfNode[node]!]!--;
      partOfNode[node] = choosePart(node);
      nodesIn[partOfNode[node]!]!++;
    },
  };
}

/**
 * Maximum number of intervals sorted by insertion, which is fastest because most transactions have few intervals that
 * are mostly in order.
 */
const INSERTED_MAX = 64;

function sort(values: Float64Array, count: number): void {
  if (count > INSERTED_MAX) {
    values.subarray(0, count).sort();
    return;
  }
  for (let i = 1; i < count; i++) {
    const value = values[i]!;
    let at = i;
    for (; at > 0 && values[at - 1]! > value; at--) values[at] = values[at - 1]!;
    values[at] = value;
  }
}
