/** What the two threads of a writer tell each other. One batch is under way at a time. */

import type { RecordingErrorCode } from '../format/errors.ts';
import type { Batch, ContextRow, OpenedRecording } from './batch.ts';
import type { CommitterOptions, LeftBehind } from './committer.ts';

export interface WriterThreadData extends CommitterOptions {
  /** The blocks that events gather in, seen by both. */
  blocks: readonly SharedArrayBuffer[];
}

export type ToWriterThread =
  | {
      kind: 'write';
      batch: Omit<Batch, 'contexts'>;
      /** JSON of the batch's new contexts: of thousands of small lists a clone costs a quarter more. */
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

/** Errors lose their class on the way. */
export interface FailureMessage {
  /** Undefined for what is not the recording's failure but ours. */
  code: RecordingErrorCode | undefined;
  message: string;
}

export type FromWriterThread =
  | { kind: 'opened'; opened: OpenedRecording }
  | { kind: 'not_opened'; failure: FailureMessage }
  | { kind: 'written'; seconds: number }
  | { kind: 'failed'; failure: FailureMessage }
  /** Nothing was written: another recording has been copied over the file. */
  | { kind: 'overwritten' }
  /** Retention came upon a part that cannot be read: nothing would ever be removed again. */
  | { kind: 'damaged'; failure: FailureMessage }
  /** Retention cannot keep the limit; without a reason: because of what must be kept. */
  | { kind: 'not_retained'; reason: string | undefined }
  | { kind: 'closed'; left: LeftBehind | undefined; failure: FailureMessage | undefined };
