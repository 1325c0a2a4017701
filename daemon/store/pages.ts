/** Events in pages, for readers that keep a place in the total order and come back. */
import type { ApiEvent } from '../../bpf/schema/api.ts';
import { eventsOf } from './event.ts';
import type { EventKey, ScanRequest, Store } from './store.ts';

/** At most `limit` events, in order. Holds nothing open afterwards. */
export function readEvents(store: Store, request: ScanRequest & { limit: number }): ApiEvent[] {
  const events: ApiEvent[] = [];
  for (const scanned of store.scan(request)) events.push(...eventsOf(scanned));
  return events;
}

/** The next page of a transaction's events after `after`, which may be the last event of the page before. */
export function readTransaction(
  store: Store,
  transactionId: string,
  after: EventKey | undefined,
  limit: number,
): ApiEvent[] {
  return readEvents(store, { filter: { transactionId }, order: 'asc', ...(after && { after }), limit });
}
