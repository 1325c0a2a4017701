/** Event bodies, read from the recording in chunks ahead of their time; only so many are held, whatever is replayed. */
import type { ApiEvent } from '../../bpf/schema/api.ts';
import { Problem } from '../errors.ts';
import { readTransaction } from '../store/pages.ts';
import type { Store } from '../store/store.ts';
import { eventKey, type Timeline } from './timeline.ts';

/** Events read at once: a read costs 0.4 ms whether it brings 32 of them or 256. */
export const CHUNK_EVENTS = 128;
/** Held for all sessions together, about 90 MB: enough for each of a thousand sessions to have a chunk. */
export const HELD_EVENTS_MAX = 131_072;

/** Which events of which snapshot. */
export interface BodySource {
  transactionId: string;
  timeline: Timeline;
}

export interface Bodies {
  /** By recorded index. Throws a Problem when the recording no longer has it. */
  read(source: BodySource, recorded: number): ApiEvent;
}

export function createBodies(store: Store, heldEventsMax = HELD_EVENTS_MAX): Bodies {
  /** The one used longest ago is the first. */
  const chunks = new Map<string, ApiEvent[]>();
  let heldEvents = 0;

  function load(key: string, source: BodySource, first: number, end: number): ApiEvent[] {
    const events = readChunk(store, source, first, end);
    heldEvents += events.length - (chunks.get(key)?.length ?? 0);
    chunks.delete(key);
    chunks.set(key, events);
    for (const [oldest, { length }] of chunks) {
      if (heldEvents <= heldEventsMax) break;
      chunks.delete(oldest);
      heldEvents -= length;
    }
    return events;
  }

  return {
    read(source, recorded) {
      const first = recorded - (recorded % CHUNK_EVENTS);
      const end = Math.min(first + CHUNK_EVENTS, source.timeline.count);
      const key = chunkKey(source, first, end);
      const held = chunks.get(key);
      const event = held?.[recorded - first];
      if (!held || event?.event_id !== eventKey(source.timeline, recorded).event_id)
        return load(key, source, first, end)[recorded - first]!;
      chunks.delete(key);
      chunks.set(key, held);
      return event;
    },
  };
}

/**
 * Sessions share what they both saw. A recording only grows, or loses its oldest: as many events between the same two
 * are the same events, unless a recording has come and another gone in between.
 */
function chunkKey({ transactionId, timeline }: BodySource, first: number, end: number): string {
  const [firstId, lastId] = [first, end - 1].map((recorded) => eventKey(timeline, recorded).event_id);
  return `${firstId} ${lastId} ${end - first} ${transactionId}`;
}

/** The recording may have grown since the snapshot: what the snapshot does not know is passed over. */
function readChunk(store: Store, { transactionId, timeline }: BodySource, first: number, end: number): ApiEvent[] {
  let after = first > 0 ? eventKey(timeline, first - 1) : undefined;
  const events: ApiEvent[] = [];
  for (;;) {
    const page = readTransaction(store, transactionId, after, end - first);
    for (const event of page) {
      const recorded = first + events.length;
      if (recorded < end && event.event_id === eventKey(timeline, recorded).event_id) events.push(event);
    }
    if (first + events.length === end) return events;
    after = page.at(-1);
    if (!after || after.timestamp_ns > eventKey(timeline, end - 1).timestamp_ns) {
      const { event_id } = eventKey(timeline, first + events.length);
      throw new Problem('event_not_found', `event ${event_id} is no longer recorded; create a new session`);
    }
  }
}
