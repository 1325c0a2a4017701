/** Where a seek goes. */
import { Problem } from '../errors.ts';
import { type Projection, projectedIndex } from './projection.ts';
import { lowerBound, recordedIndexOf, type Timeline } from './timeline.ts';

/** Exactly one of them. */
export type SeekTarget =
  | { position_ns: bigint }
  | { timestamp_ns: bigint }
  | { event_id: string }
  | { event_index: bigint };

export interface Place {
  positionNs: bigint;
  /** Projected index of the next event; the event count when none is left. */
  index: number;
}

/** Null: past the end. Before the start is the start. */
export function placeOf(target: SeekTarget, timeline: Timeline, projection: Projection): Place | null {
  if ('position_ns' in target) return atPosition(target.position_ns, projection);
  if ('timestamp_ns' in target) return atTimestamp(target.timestamp_ns, timeline, projection);
  if ('event_index' in target) return atIndex(target.event_index, projection);
  return atEvent(target.event_id, timeline, projection);
}

function atPosition(positionNs: bigint, { startNs, durationNs }: Projection): Place | null {
  if (positionNs <= 0n) return { positionNs: 0n, index: 0 };
  const index = lowerBound(startNs, positionNs);
  // On the very end nothing is left either, unless the last event is a moment there.
  const left = positionNs < durationNs || (positionNs === durationNs && index < startNs.length);
  return left ? { positionNs, index } : null;
}

function atIndex(index: bigint, { startNs }: Projection): Place | null {
  const clamped = index < 0n ? 0n : index;
  if (clamped >= BigInt(startNs.length)) return null;
  return { positionNs: startNs[Number(clamped)]!, index: Number(clamped) };
}

function atEvent(eventId: string, timeline: Timeline, projection: Projection): Place | null {
  const recorded = recordedIndexOf(timeline, eventId);
  if (recorded === undefined) throw new Problem('event_not_found', `the session has no event ${eventId}`);
  return atIndex(BigInt(projectedIndex(projection, recorded)), projection);
}

/**
 * A moment of the recorded time line: the next event is the first recorded at or after it. The wait for it is as long
 * as recorded, unless extra latency has put another event in between.
 */
function atTimestamp(timestampNs: bigint, timeline: Timeline, projection: Projection): Place | null {
  const recordedNs = timestampNs - timeline.firstTimestampNs;
  if (recordedNs <= 0n) return { positionNs: 0n, index: 0 };
  const recorded = lowerBound(timeline.startNs, recordedNs);
  if (recorded === timeline.count) {
    // In the last event, or after it.
    const beforeEndNs = timeline.durationNs - recordedNs;
    if (beforeEndNs <= 0n) return null;
    const lastNs = projection.startNs.at(-1)!;
    return { positionNs: larger(projection.durationNs - beforeEndNs, lastNs), index: timeline.count };
  }
  const index = projectedIndex(projection, recorded);
  const waitNs = timeline.startNs[recorded]! - recordedNs;
  const earliestNs = index === 0 ? 0n : projection.startNs[index - 1]!;
  return { positionNs: larger(projection.startNs[index]! - waitNs, earliestNs), index };
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
