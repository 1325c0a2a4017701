/** The messages between the two threads of a writer. One batch is under way at a time. */

import type { RecordingErrorCode } from '../format/errors.ts';
import type { Batch, ContextRow, OpenedRecording } from './batch.ts';
import type { CommitterOptions, LeftBehind } from './committer.ts';

export interface WriterThreadData extends CommitterOptions {
  /** The blocks in which events gather, shared by both threads. */
  blocks: readonly SharedArrayBuffer[];
}

export type ToWriterThread =
  | {
      kind: 'write';
      batch: Omit<Batch, 'contexts'>;
      /** JSON of the batch's new contexts: cloning thousands of small lists costs a quarter more. */
      contexts: { firstId: number; entries: string };
    }
  | { kind: 'close'; endedNs: bigint | undefined };

export function toMessage({ contexts: { firstId, entries }, ...batch }: Batch): ToWriterThread {
  return { kind: 'write', batch, contexts: { firstId, entries: JSON.stringify(entries) } };
}

export function batchOf({ batch, contexts }: Extract<ToWriterThread, { kind: 'write' }>): Batch {
  const entries = JSON.parse(contexts.entries) as ContextRow[];
  return { ...batch, contexts: { firstId: contexts.firstId, entries } };
}

/** A failure as plain data: errors lose their class between threads. */
export interface FailureMessage {
  /** Undefined for an unexpected error, which is a bug rather than a failure of the recording. */
  code: RecordingErrorCode | undefined;
  message: string;
}

export type FromWriterThread =
  | { kind: 'opened'; opened: OpenedRecording }
  | { kind: 'not_opened'; failure: FailureMessage }
  /** `unsyncedSinceNs`: when the first commit was made that may not be on the disk yet, by CLOCK_MONOTONIC. */
  | { kind: 'written'; seconds: number; unsyncedSinceNs: bigint | undefined }
  /** A sync of the log has ended. */
  | { kind: 'synced'; unsyncedSinceNs: bigint | undefined; failure: FailureMessage | undefined }
  | { kind: 'failed'; failure: FailureMessage }
  /** Nothing was written: another recording has been copied over the file. */
  | { kind: 'overwritten' }
  /** Retention found a part that cannot be read, so that nothing would ever be removed again. */
  | { kind: 'damaged'; failure: FailureMessage }
  /** Retention cannot keep the limit; if there is no reason, because of segments that must be kept. */
  | { kind: 'not_retained'; reason: string | undefined }
  | { kind: 'closed'; left: LeftBehind | undefined; failure: FailureMessage | undefined };
