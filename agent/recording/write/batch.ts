/**
 * The content of one commit. The gatherer (event_buffer.ts) makes a batch, and the committer (committer.ts) writes it
 * to the database. The two may run in different threads, so a batch is plain data, and refers to events by the slot of
 * their block.
 */
import type { Block } from '../../../bpf/schema/block.ts';
import type { FileKind } from '../../../bpf/schema/owner.ts';
import type { BlockRange } from '../codec/encode_segment.ts';
import type { NextIds } from '../format/ids.ts';
import type { Unlisted } from '../format/in_progress.ts';
import type { ClockStep, Loss } from '../format/losses.ts';

export interface RowsToWrite {
  slot: number;
  /** Event number of the block's first row. */
  firstNumber: number;
  /** The next dictionary ids when the block's first row was gathered. */
  idsFrom: NextIds;
  /** The next dictionary ids when this batch was made. */
  idsEnd: NextIds;
  /** Rows that no earlier batch has written as a part. */
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

/** Rows are arrays: sending objects with named properties to another thread costs several times as much. */
export type FileRow = readonly [path: string, kind: FileKind];
export type ContextRow = readonly [
  transactionKey: number,
  transactionId: string | null,
  traceId: string | null,
  spanId: string | null,
];

/** Calls and requests that have begun but not ended. */
export interface UnendedRows {
  /**
   * Rows by importance, the most important first. Their durations and results are 0. The block shares no arrays with
   * other blocks.
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
  /** Wall-clock time at which the batch was made. It proves that the writer was alive then. */
  nowNs: bigint;
}

/** State of the file that a gatherer needs before it accepts events. */
export interface OpenedRecording {
  nextNumber: number;
  lastNameId: number;
  lastFileId: number;
  lastContextId: number;
  /** The newest entries, oldest first. */
  names: StoredEntries<string>;
  files: StoredEntries<FileRow>;
  contexts: StoredEntries<ContextRow>;
}
