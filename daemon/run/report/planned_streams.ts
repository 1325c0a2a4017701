/** Finds the stream of an event in the plan, and sums the planned time of each stream. */
import { findFirstAbove } from '../../base/binary_search.ts';
import type { DelayPlan } from '../plan/compile.ts';

export function findEventStream({ slots }: DelayPlan, event: number): number {
  return slots.stream[findFirstAbove(slots.firstEvent, event, 1, slots.tid.length) - 1]!;
}

/** Returns the sum of each stream's targets in nanoseconds. */
export function sumPlannedByStream({ slots, streams, events }: DelayPlan): Float64Array {
  const planned = new Float64Array(streams.length);
  for (const [slot, stream] of slots.stream.entries()) {
    const first = slots.firstEvent[slot]!;
    for (let event = first; event < first + slots.eventCount[slot]!; event++)
      planned[stream]! += events.target_ns[event]!;
  }
  return planned;
}
