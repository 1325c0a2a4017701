/** Refuses answers that may be incomplete while a shard of a fleet is unreachable, but have no field to say so. */
import { Problem } from '../../base/problem.ts';
import type { ShardWatch } from '../../store/fleet_state.ts';

/** Throws a Problem if a shard is unreachable: `what`, which was not found on the other shards, may be there. */
export function refuseIfPartial(shards: ShardWatch | undefined, what: string): void {
  if (!shards?.isPartial()) return;
  const detail = `${what} may be on a shard of which no replica answers: /readyz says when all do again`;
  throw new Problem('recording_unavailable', detail);
}
