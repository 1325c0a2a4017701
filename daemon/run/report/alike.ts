/**
 * Threads that do the same work on one file, at once: executors of a pool that append to one log. Which of them makes
 * which call differs from run to run, the order in the file does too, and nothing else distinguishes their calls. So a
 * call that got an event of such a thread may not be the one that the event belongs to.
 */
import { STREAM_FLAGS } from '../format/plan_file.ts';
import type { DelayPlan, PlannedStream } from '../plan/compile.ts';
import { fileKeyOf } from '../plan/file_order.ts';
import { roleOf } from './names.ts';
import { type Deliveries, OUTCOME_NUMBERS } from './outcomes.ts';

/**
 * Returns how much of the delivered time may have gone to another call: the part of each event that exceeds the
 * shortest of those that it may have been taken for.
 */
export function uncertainByThreadNs(plan: DelayPlan, { fate }: Deliveries, thresholdNs: number): number {
  const { slots, events } = plan;
  let uncertain = 0;
  for (const alike of slotsAlike(plan)) {
    const targets = alike.flatMap((slot) => {
      const first = slots.firstEvent[slot]!;
      return Array.from({ length: slots.eventCount[slot]! }, (_, at) => first + at);
    });
    const least = targets.reduce((ns, event) => Math.min(ns, events.target_ns[event]!), Number.POSITIVE_INFINITY);
    for (const event of targets)
      if (fate[event] === OUTCOME_NUMBERS.delivered && events.target_ns[event]! >= thresholdNs)
        uncertain += events.target_ns[event]! - least;
  }
  return uncertain;
}

/** Groups the slots of several threads of one role that call on one file, not one after the other. */
function slotsAlike({ slots, streams }: DelayPlan): number[][] {
  const found = Map.groupBy(slots.stream.keys(), (slot) => roleOnFile(streams[slots.stream[slot]!]!));
  found.delete('');
  return [...found.values()].filter((alike) => new Set(alike.map((slot) => slots.tid[slot]!)).size > 1);
}

function roleOnFile(stream: PlannedStream): string {
  if (stream.flags & STREAM_FLAGS.in_order) return '';
  return `${fileKeyOf(stream)} ${roleOf(stream.comm)}`;
}
