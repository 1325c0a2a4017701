/**
 * The replay's own time line. Extra latency lengthens every event and moves each later event of the same thread back by
 * the sum added before it on that thread:
 *
 *   recorded   thread 1  |--a--|   |-c-|          extra latency ==
 *              thread 2      |-b-|    |--d--|
 *
 *   projected  thread 1  |--a--==|   |-c-==|      c starts 1 == later, ends 2 == later
 *              thread 2      |-b-==|    |--d--==|
 *
 * Within a thread the order stays what it was, so the projected order is a merge of threads: by projected start, ties by
 * recorded order.
 */
import { createHeap, type HeapItem } from './heap.ts';
import type { Breathe, Timeline } from './timeline.ts';

export interface Projection {
  /** By projected index: where the event is in recorded order. Null: the two orders are one. */
  order: Uint32Array | null;
  /** By projected index, ascending, from the first event's start. */
  startNs: BigUint64Array;
  /** From the first start to the last end. */
  durationNs: bigint;
  /** Projected index of the first event that ends after the timeout; null when all are in time. */
  timeoutIndex: number | null;
}

export interface ProjectionOptions {
  extraLatencyNs: bigint;
  timeoutNs: bigint | null;
}

/** Merged between two turns of the event loop: a few milliseconds. */
const MERGE_SLICE_EVENTS = 8192;

export async function project(
  timeline: Timeline,
  { extraLatencyNs, timeoutNs }: ProjectionOptions,
  breathe: Breathe,
): Promise<Projection> {
  if (extraLatencyNs === 0n) return asRecorded(timeline, timeoutNs);
  const { count, durationsNs } = timeline;
  const order = new Uint32Array(count);
  const startNs = new BigUint64Array(count);
  let durationNs = 0n;
  let timeoutIndex: number | null = null;

  const threads = threadsOf(timeline, extraLatencyNs);
  for (let index = 0; index < count; index++) {
    const thread = threads.first();
    const endNs = thread.startNs + durationsNs[thread.recorded]! + extraLatencyNs;
    order[index] = thread.recorded;
    startNs[index] = thread.startNs;
    if (endNs > durationNs) durationNs = endNs;
    if (timeoutIndex === null && timeoutNs !== null && endNs > timeoutNs) timeoutIndex = index;
    threads.advance(thread);
    if (index % MERGE_SLICE_EVENTS === MERGE_SLICE_EVENTS - 1) await breathe();
  }
  return { order, startNs, durationNs, timeoutIndex };
}

function asRecorded({ startNs, durationsNs, durationNs }: Timeline, timeoutNs: bigint | null): Projection {
  const late = timeoutNs !== null && durationNs > timeoutNs;
  const timeoutIndex = late ? startNs.findIndex((start, index) => start + durationsNs[index]! > timeoutNs) : null;
  return { order: null, startNs, durationNs, timeoutIndex };
}

/** A thread that waits to be merged: its next event. */
interface Thread extends HeapItem {
  recorded: number;
  startNs: bigint;
  /** Added on this thread so far. */
  shiftNs: bigint;
}

const NONE = 0xffff_ffff;

function threadsOf({ count, startNs, thread, threadCount }: Timeline, extraLatencyNs: bigint) {
  const next = new Uint32Array(count);
  const head = new Uint32Array(threadCount).fill(NONE);
  for (let recorded = count - 1; recorded >= 0; recorded--) {
    next[recorded] = head[thread[recorded]!]!;
    head[thread[recorded]!] = recorded;
  }
  const heap = createHeap<Thread>(
    (a, b) => a.startNs < b.startNs || (a.startNs === b.startNs && a.recorded < b.recorded),
  );
  for (const recorded of head) heap.push({ slot: -1, recorded, startNs: startNs[recorded]!, shiftNs: 0n });

  return {
    first: () => heap.peek()!,
    advance(thread: Thread): void {
      thread.recorded = next[thread.recorded]!;
      if (thread.recorded === NONE) {
        heap.remove(thread);
        return;
      }
      thread.shiftNs += extraLatencyNs;
      thread.startNs = startNs[thread.recorded]! + thread.shiftNs;
      heap.moved(thread);
    },
  };
}

/** Where the event at a projected index is in recorded order. */
export function recordedIndex({ order }: Projection, index: number): number {
  return order ? order[index]! : index;
}

/** The other way round. */
export function projectedIndex({ order }: Projection, recorded: number): number {
  return order ? order.indexOf(recorded) : recorded;
}
