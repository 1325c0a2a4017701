/** Resolves the target of a seek to a place in a plan. */
import { Problem } from '../../base/problem.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import type { SeekTarget } from '../target.ts';
import { type Recorded, SPAN_NS_MAX } from './recorded.ts';
import type { Schedule } from './schedule.ts';

export interface SeekResult {
  positionNs: number;
  /** Projected index of the next event; the event count when none is left. */
  index: number;
}

/** A plan whose survey is done. */
export interface Surveyed {
  recordings: Pick<Recordings, 'event'>;
  recorded: Recorded;
  schedule: Schedule;
  eventCount: number;
  /** When the last event ended, by the clock of its node. */
  lastEndNs: bigint;
}

/** It returns null for a target past the end; a target before the start is the start. */
export function placeIn(plan: Surveyed, target: SeekTarget): SeekResult | null {
  if ('position_ns' in target) return atPosition(plan, clamped(target.position_ns));
  if ('timestamp_ns' in target) return atTimestamp(plan, target.timestamp_ns);
  if ('event_index' in target) return atIndex(plan, clamped(target.event_index));
  return atEvent(plan, target.event_id);
}

/** Clamps values beyond the range of any plan, which are all equivalent. */
function clamped(value: bigint): number {
  return Math.min(Math.max(Number(value), -1), SPAN_NS_MAX);
}

function atPosition({ schedule, eventCount }: Surveyed, positionNs: number): SeekResult | null {
  if (positionNs <= 0) return { positionNs: 0, index: 0 };
  const { endNs } = schedule.survey!;
  const index = schedule.indexAtPosition(positionNs);
  // At the very end no event is left, unless the last one has no duration and starts there.
  const isLeft = positionNs < endNs || (positionNs === endNs && index < eventCount);
  return isLeft ? { positionNs, index } : null;
}

function atIndex(plan: Surveyed, index: number): SeekResult | null {
  const clampedIndex = Math.max(index, 0);
  if (clampedIndex >= plan.eventCount) return null;
  return { positionNs: startAt(plan, clampedIndex), index: clampedIndex };
}

function atEvent(plan: Surveyed, eventId: string): SeekResult | null {
  const event = plan.recordings.event(eventId);
  const index = event && plan.recorded.indexOf(event);
  if (index === undefined) throw new Problem('event_not_found', `the session has no event ${eventId}`);
  return atIndex(plan, plan.schedule.indexOfRecorded(index));
}

/**
 * Resolves a timestamp, which is compared with each event by the clock of the event's own node: the next event is the
 * first recorded at or after it. The wait for that event is as long as recorded, unless another event lies in between.
 */
function atTimestamp(plan: Surveyed, timestampNs: bigint): SeekResult | null {
  const { recorded, schedule, eventCount, lastEndNs } = plan;
  if (timestampNs < recorded.firstTimestampNs) return { positionNs: 0, index: 0 };
  const wanted = recorded.indexAtTimestamp(timestampNs);
  if (wanted === recorded.known) {
    // The timestamp is in the last event or after it.
    const beforeEndNs = Number(lastEndNs - timestampNs);
    if (beforeEndNs <= 0) return null;
    const positionNs = schedule.survey!.endNs - beforeEndNs;
    return { positionNs: Math.max(positionNs, startAt(plan, eventCount - 1)), index: eventCount };
  }
  const index = schedule.indexOfRecorded(wanted);
  const waitNs = Number(recorded.keyAt(wanted).timestamp_ns - timestampNs);
  const earliestNs = index === 0 ? 0 : startAt(plan, index - 1);
  return { positionNs: Math.max(startAt(plan, index) - waitNs, earliestNs), index };
}

function startAt({ schedule }: Surveyed, index: number): number {
  return schedule.page(index, 1).startNs[0]!;
}
