/** Reads the events of a store as objects. */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { readBlockEvents } from '../../../daemon/store/blocks/event.ts';
import type { Recordings } from '../../../daemon/store/embedded/recordings.ts';
import type { ScanRequest } from '../../../daemon/store/store.ts';

/** Returns at most `limit` events, in order. Holds nothing open afterwards. */
export function readEvents(store: Recordings, request: ScanRequest & { limit: number }): ApiEvent[] {
  const events: ApiEvent[] = [];
  for (const scanned of store.scan(request)) events.push(...readBlockEvents(scanned));
  return events;
}
