/**
 * Reads events as JSON, ready to be sent, in chunks of neighbours. Threads that have drifted apart read from different
 * chunks, so several chunks are cached.
 */
import { Problem } from '../../base/problem.ts';
import { keyOf } from '../../store/blocks/event.ts';
import { rowsAsJson } from '../../store/blocks/event_json.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import type { PageCache } from './page_cache.ts';
import type { Recorded } from './recorded.ts';

/** Events read at once: reading takes 4.5 us per event with 512, 3.4 with 1024, 3.0 with 2048. Some 500 KB. */
export const CHUNK_EVENTS = 1024;
const CHUNK_EVENTS_MIN = 128;
/** Number of plans with the largest chunks; as many have chunks of half the size, then twice as many of a quarter. */
const LARGEST_CHUNKS = 64;

/** Memory that every chunk is written to before it has its own: the garbage collector counts all that is allocated. */
const scratch: { block: Buffer; chunk: Buffer } = { block: Buffer.alloc(0), chunk: Buffer.alloc(0) };

/** The memory for a chunk, with room for more; keeps the bytes that it has. */
function scratchFor(bytes: number, used: number): Buffer {
  if (bytes <= scratch.chunk.length) return scratch.chunk;
  const larger = Buffer.allocUnsafeSlow(bytes * 2);
  scratch.chunk.copy(larger, 0, 0, used);
  scratch.chunk = larger;
  return larger;
}

/** Events that a plan reads at once beside others: the chunks of a thousand plans fit into the cache. */
export function chunkEventsBeside(plans: number): number {
  let events = CHUNK_EVENTS;
  for (let limit = LARGEST_CHUNKS; plans >= limit && events > CHUNK_EVENTS_MIN; limit *= 2) events /= 2;
  return events;
}

/** A run of events in recorded order. */
export interface Chunk {
  bytes: Buffer;
  /** The end offset of each event. */
  ends: Uint32Array;
}

export interface Bodies {
  /** Reads an event and its neighbours ahead. */
  readAhead(recorded: number): void;
  /**
   * Finds the bytes of events and sets the end offset of each, as if they followed each other from 0 on. The pieces
   * belong to the cache. Throws a Problem when one is not recorded any more.
   */
  gather(recorded: Uint32Array, ends: Uint32Array): Uint8Array[];
  close(): void;
}

export function createBodies(
  recordings: Recordings,
  transactionId: string,
  recorded: Recorded,
  cache: PageCache<Chunk>,
  chunkEventsMax = CHUNK_EVENTS,
): Bodies {
  const owner = {};
  /** A page of the recorded order consists of whole chunks. */
  const chunkEvents = Math.min(chunkEventsMax, recorded.pageEvents);

  function load(first: number): Chunk {
    const count = Math.min(chunkEvents, recorded.known - first);
    const ends = new Uint32Array(count);
    let [found, bytes] = [0, 0];
    const lastNs = recorded.keyAt(first + count - 1).timestamp_ns;
    let after = first > 0 ? recorded.keyAt(first - 1) : undefined;
    while (found < count) {
      const before = after;
      const request = { filter: { transactionId, toNs: lastNs + 1n }, order: 'asc', limit: count } as const;
      for (const scanned of recordings.scan({ ...request, ...(after && { after }) })) {
        const { rowCount } = scanned.block;
        if (rowCount === 0) continue;
        const json = rowsAsJson(scanned, scratch.block);
        if (json.bytes.length > scratch.block.length) scratch.block = json.bytes;
        for (let row = 0; row < rowCount; ) {
          // Events recorded later are not part of the snapshot.
          const rows = recorded.sharedRows(first + found, scanned, row, count - found);
          if (rows === 0) {
            row++;
            continue;
          }
          const start = row === 0 ? 0 : json.ends[row - 1]!;
          for (const end of json.ends.subarray(row, row + rows)) ends[found++] = bytes + end - start;
          const all = scratchFor(ends[found - 1]!, bytes);
          bytes += json.bytes.copy(all, bytes, start, json.ends[row + rows - 1]);
          row += rows;
        }
        after = keyOf(scanned, rowCount - 1);
        if (found === count) break;
      }
      if (after === before) break;
    }
    if (found === count) return { bytes: Buffer.from(scratch.chunk.subarray(0, bytes)), ends };
    const { event_id } = recorded.keyAt(first + found);
    throw new Problem('event_not_found', `event ${event_id} is no longer recorded: make a new session`);
  }

  const chunk = (number: number) => cache.get(owner, number, () => load(number * chunkEvents));

  return {
    readAhead: (index) => void chunk(Math.floor(index / chunkEvents)),
    gather(indexes, ends) {
      const pieces: Uint8Array[] = [];
      let length = 0;
      for (let from = 0; from < indexes.length; ) {
        const number = Math.floor(indexes[from]! / chunkEvents);
        const known = chunk(number);
        const first = number * chunkEvents;
        // Neighbours are copied together.
        let at = indexes[from]! - first;
        const start = at === 0 ? 0 : known.ends[at - 1]!;
        do ends[from++] = length + known.ends[at++]! - start;
        while (at < known.ends.length && indexes[from] === first + at);
        pieces.push(known.bytes.subarray(start, known.ends[at - 1]));
        length = ends[from - 1]!;
      }
      return pieces;
    },
    close: () => cache.forget(owner),
  };
}
