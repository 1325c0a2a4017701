/**
 * What one commit writes. The half of a writer that gathers events makes it, the half that owns the database writes
 * it; they may be in two threads, so it is plain data, and events are named by the block that they are in.
 */
import type { FileKind } from '../../../bpf/schema/owner.ts';
import type { BlockRange } from '../codec/encode_segment.ts';
import type { NextIds } from '../format/ids.ts';
import type { ClockStep, Loss } from '../format/losses.ts';

export interface RowsToWrite {
  slot: number;
  /** Number of the block's first row. */
  firstNumber: number;
  /** When the block's first row was gathered, and now. */
  idsFrom: NextIds;
  idsEnd: NextIds;
  /** Rows that no part holds yet. */
  unwritten: BlockRange;
  /** Whether all rows of the block, [0, unwritten.to), become a sealed segment now. */
  seal: boolean;
}

/** New entries of a dictionary; their ids follow each other. */
export interface NewEntries<Entry> {
  firstId: number;
  entries: readonly Entry[];
}

/** Entries of a dictionary, with their ids. */
export type StoredEntries<Entry> = readonly { id: number; entry: Entry }[];

/** Lists, because properties with names cost several times as much on the way to another thread. */
export type FileRow = readonly [path: string, kind: FileKind];
export type ContextRow = readonly [
  transactionKey: number,
  transactionId: string | null,
  traceId: string | null,
  spanId: string | null,
];

export interface Batch {
  /** Oldest first. */
  rows: readonly RowsToWrite[];
  names: NewEntries<string>;
  files: NewEntries<FileRow>;
  contexts: NewEntries<ContextRow>;
  losses: readonly Loss[];
  clockSteps: readonly ClockStep[];
  /** Wall clock when it was made: the writer was alive. */
  nowNs: bigint;
}

/** What a writer has to know of the file before it can gather. */
export interface OpenedRecording {
  /** Number of the next event. */
  nextNumber: number;
  lastNameId: number;
  lastFileId: number;
  lastContextId: number;
  /** The newest entries, oldest first. */
  names: StoredEntries<string>;
  files: StoredEntries<FileRow>;
  contexts: StoredEntries<ContextRow>;
}
