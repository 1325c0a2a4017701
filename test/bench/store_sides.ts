/** What a store of events does: kreplay's recording and its peer, each in its own way, for the same events. */
import type { RecordingWriter } from '../../agent/recording/write/writer.ts';
import { openKreplayReads, openKreplayWriter } from './kreplay_store.ts';
import { openRowReads, openRowWriter } from './row_store.ts';

export interface StoreWriter extends Pick<RecordingWriter, 'nameId' | 'fileId' | 'contextId' | 'append'> {
  /** Commits what was appended. */
  flush(): void;
  close(): void;
}

/** Every method gives how many events it found, all columns of each. */
export interface StoreReads {
  /** In order of time. */
  transaction(id: string): number;
  rareEvents(by: RareFilter): number;
  /** The few that take longest of all. */
  slowest(): number;
  /** The first events that started at `fromNs` or later, in order of time, as a client gets them that pages. */
  page(fromNs: bigint, limit: number): number;
  /** Of [fromNs, toNs), in order of time. */
  window(fromNs: bigint, toNs: bigint): number;
  /** The last events, from the newest on. */
  latest(limit: number): number;
  /** Two columns of every event. */
  twoColumns(): number;
  /** In order of time; gives counts as it reads, and keeps no event. */
  everything(): Iterable<number>;
  close(): void;
}

/** Each matches about four in every 4096 events, and the last none. */
export type RareFilter = 'duration' | 'pid' | 'service' | 'nothing';

interface Side {
  /** `nowNs`: the wall clock of what is written. */
  openWriter(path: string, nowNs: () => bigint): StoreWriter;
  openReads(path: string): StoreReads;
}

export const SIDES = {
  kreplay: { openWriter: openKreplayWriter, openReads: openKreplayReads },
  row_each: { openWriter: openRowWriter, openReads: openRowReads },
} as const satisfies Record<string, Side>;

export type SideName = keyof typeof SIDES;
