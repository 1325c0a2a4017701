/**
 * The content of one commit. The half of a writer that gathers events makes a batch, and the half that owns the
 * database writes it. The halves may be in two threads, so a batch is plain data, and refers to events by the block
 * that holds them.
 */
import type { Block } from '../../../bpf/schema/block.ts';
import type { FileKind } from '../../../bpf/schema/owner.ts';
import type { BlockRange } from '../codec/encode_segment.ts';
import type { NextIds } from '../format/ids.ts';
import type { Unlisted } from '../format/in_progress.ts';
import type { ClockStep, Loss } from '../format/losses.ts';

export interface RowsToWrite {
  slot: number;
  /** Number of the block's first row. */
  firstNumber: number;
  /** The next dictionary ids when the block's first row was gathered, and when this batch was made. */
  idsFrom: NextIds;
  idsEnd: NextIds;
  /** Rows that are in no part yet. */
  unwritten: BlockRange;
  /** Whether all rows of the block, [0, unwritten.to), become a sealed segment. */
  seal: boolean;
}

/** New entries of a dictionary, with consecutive ids. */
export interface NewEntries<Entry> {
  firstId: number;
  entries: readonly Entry[];
}

/** Entries of a dictionary, with their ids. */
export type StoredEntries<Entry> = readonly { id: number; entry: Entry }[];

/** Rows are arrays, because sending objects with named properties to another thread costs several times as much. */
export type FileRow = readonly [path: string, kind: FileKind];
export type ContextRow = readonly [
  transactionKey: number,
  transactionId: string | null,
  traceId: string | null,
  spanId: string | null,
];

/** Calls and requests that have begun and not ended. */
export interface UnendedRows {
  /**
   * Rows in the order of importance, the most important first. Durations and results are 0; the block shares no arrays.
   */
  block: Block;
  unlisted: Unlisted;
}

export interface Batch {
  /** Sorted from the oldest rows to the newest. */
  rows: readonly RowsToWrite[];
  names: NewEntries<string>;
  files: NewEntries<FileRow>;
  contexts: NewEntries<ContextRow>;
  losses: readonly Loss[];
  clockSteps: readonly ClockStep[];
  /** Calls and requests in progress; undefined if they have not changed since the last batch. */
  unended: UnendedRows | undefined;
  /** The time when the batch was made, by the wall clock. It shows that the writer was alive. */
  nowNs: bigint;
}

/** State of the file that a writer needs before it can gather events. */
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
