/** Queries that read much of the recordings. They are answered in steps, in the calling thread or in other threads. */

import { encodeJsonChunks, type NextBuffer } from '../blocks/event_json.ts';
import { type BlockSource, createPasses, type Passes } from '../passes.ts';
import type { ScanRequest, Store } from '../store.ts';
import type { Recordings } from './recordings.ts';

export interface Scans extends Passes, Pick<Store, 'scanJson'> {
  close(): Promise<void>;
}

/** Creates scans that read in the calling thread. */
export function createScans(recordings: Recordings): Scans {
  return {
    ...createPasses(createBlockSource(recordings)),
    scanJson: (request) => scanAsJson(recordings, request),
    close: async () => {},
  };
}

export function createBlockSource(recordings: Recordings): BlockSource {
  return {
    read({ isOrdered, ...request }) {
      return isOrdered
        ? recordings.scan({ ...request, order: 'asc', reusesMemory: true })
        : recordings.scanUnordered({ ...request, reusesMemory: true });
    },
  };
}

/**
 * Returns the same values as promises. `yield*` in an asynchronous generator would take three times as many microtasks.
 * The microtasks of each block cost the most if every block has a single row. Blocks are that small where the rows of
 * several recordings alternate.
 */
export function toAsyncGenerator<Value>(values: Generator<Value, void>): AsyncGenerator<Value, void> {
  return {
    next: async () => values.next(),
    return: async () => values.return(),
    throw: async (error) => values.throw(error),
    [Symbol.asyncIterator]() {
      return this;
    },
    async [Symbol.asyncDispose]() {
      values.return();
    },
  };
}

export function scanAsJson(
  recordings: Recordings,
  request: ScanRequest,
  nextBuffer?: NextBuffer,
): AsyncGenerator<Uint8Array, void> {
  // Blocks may reuse memory, because each block is written as JSON before the next block is read.
  return encodeJsonChunks(toAsyncGenerator(recordings.scan({ ...request, reusesMemory: true })), '\n', nextBuffer);
}
