/** The messages between the main thread and the scan threads. */

import type { ThreadFailure } from '../../../base/thread_failure.ts';
import type { PassName, PassRequest } from '../../passes.ts';
import type { Store } from '../../store.ts';
import type { Findings } from '../recording_files.ts';

export type ScanQuestion =
  | { [Name in PassName]: { pass: Name; request: PassRequest<Name> } }[PassName]
  | { pass: 'json'; request: Parameters<Store['scanJson']>[0] };

/** Result of the pass; undefined for a stream or a cancelled scan. */
export type ScanAnswer = unknown;

/**
 * Number of chunks that a thread may send in advance, so that it writes one chunk while another chunk is sent to the
 * client.
 */
export const CHUNKS_AHEAD = 2;

/** Messages to a scan thread; the main thread assigns a number to each scan. */
export type ToScanThread = { id: number } & (
  | { kind: 'begin'; question: ScanQuestion }
  /** Requests another chunk. `spent` is the memory of an earlier chunk, which the thread reuses. */
  | { kind: 'more'; spent: ArrayBuffer | undefined }
  | { kind: 'cancel' }
);

/** Messages from a scan thread: each scan, even a cancelled one, ends with `done` or `failed`. */
export type FromScanThread = { id: number } & (
  | { kind: 'chunk'; bytes: Uint8Array<ArrayBuffer> }
  | { kind: 'done'; answer: ScanAnswer; findings: Findings }
  | { kind: 'failed'; failure: ThreadFailure; findings: Findings }
);
