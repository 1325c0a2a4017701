/**
 * Defines the operations of a store of events, which kreplay's recording and its peer each implement in their own way.
 */
import type { RecordingWriter } from '../../agent/recording/write/writer.ts';
import { openKreplayReads, openKreplayWriter } from './kreplay_store.ts';
import { openRowReads, openRowWriter } from './row_store.ts';

export interface StoreWriter extends Pick<RecordingWriter, 'nameId' | 'fileId' | 'contextId' | 'append'> {
  /** Commits what was appended. */
  flush(): void;
  close(): void;
}

/** Every method returns the number of events that it found, having read all columns of each. */
export interface StoreReads {
  /** Finds the events of a transaction, in order of time. */
  transaction(id: string): number;
  rareEvents(by: RareFilter): number;
  /** Finds the few slowest events of all. */
  slowest(): number;
  /** Finds the first events that started at `fromNs` or later, in order of time, as a paging client gets them. */
  page(fromNs: bigint, limit: number): number;
  /** Finds the events in [fromNs, toNs), in order of time. */
  window(fromNs: bigint, toNs: bigint): number;
  /** Finds the last events, newest first. */
  latest(limit: number): number;
  /** Reads two columns of every event. */
  twoColumns(): number;
  /** Reads everything in order of time; yields counts as it reads, and keeps no event. */
  everything(): Iterable<number>;
  close(): void;
}

/** Each filter matches about four in every 4096 events, and the last none. */
export type RareFilter = 'duration' | 'pid' | 'service' | 'nothing';

interface Side {
  /** `nowNs` is the wall clock for what is written. */
  openWriter(path: string, nowNs: () => bigint): StoreWriter;
  openReads(path: string): StoreReads;
}

export const SIDES = {
  kreplay: { openWriter: openKreplayWriter, openReads: openKreplayReads },
  row_each: { openWriter: openRowWriter, openReads: openRowReads },
} as const satisfies Record<string, Side>;

export type SideName = keyof typeof SIDES;
