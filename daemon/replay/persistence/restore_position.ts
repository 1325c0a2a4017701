/** Finds the position at which a kept session continues. */
import { I64_MAX } from '../../base/bigints.ts';
import type { Outline, SeekResult } from '../plan/plan.ts';
import type { ReplayPlan } from '../plan/planner.ts';
import type { KeptSession } from './kept_session.ts';

/** A position past the end of any replay. */
const END_NS = I64_MAX;

/** Returns null if the session is at the end. */
export async function restorePosition(kept: KeptSession, plan: ReplayPlan): Promise<SeekResult | null> {
  const { state, eventIndex, positionNs, outline } = kept;
  if (isOfSameEvents(outline, plan.outline)) return { positionNs, index: eventIndex };
  // Events have been recorded or removed in the meantime, so the next event at the same time may have another index.
  const momentNs = outline.firstTimestampNs + BigInt(positionNs) - plan.outline.firstTimestampNs;
  const wantedNs = state === 'finished' ? END_NS : positionNs === 0 ? 0n : momentNs;
  return plan.place({ position_ns: wantedNs });
}

function isOfSameEvents(one: Outline, other: Outline): boolean {
  return (
    one.eventCount === other.eventCount &&
    one.firstTimestampNs === other.firstTimestampNs &&
    one.recordedDurationNs === other.recordedDurationNs
  );
}
