/** The messages between the main thread and those that scan. */

import type { ThreadFailure } from '../../../base/thread_failure.ts';
import type { Comparison } from '../../../sums/differences/comparison.ts';
import type { Heatmap } from '../../../sums/heatmap.ts';
import type { SlowestPage } from '../../../sums/slowest.ts';
import type { StatsTable } from '../../../sums/stats.ts';
import type { SlowestRequest, StatsRequest, Store } from '../../store.ts';
import type { Findings } from '../recording_files.ts';
import type { ChoiceScan, CompareScan, EventHeatmapRequest } from '../scans.ts';

export type Question =
  | { kind: 'stats'; request: StatsRequest }
  | { kind: 'slowest'; request: SlowestRequest }
  | { kind: 'heatmap'; request: EventHeatmapRequest }
  | { kind: 'compare'; request: CompareScan }
  | { kind: 'choose'; request: ChoiceScan }
  | { kind: 'json'; request: Parameters<Store['scanJson']>[0] };

/** Undefined for a stream, and for a scan that was cancelled. */
export type Answer = StatsTable | SlowestPage | Heatmap | Comparison | Uint8Array | undefined;

/** Pieces that a thread may send before the first one is used: it writes one while the other is sent. */
export const PIECES_AHEAD = 2;

/** The main thread numbers the scans. */
export type ToScanThread = { id: number } & (
  | { kind: 'begin'; question: Question }
  /** Asks for another piece. `spent` is the memory of an earlier one. */
  | { kind: 'more'; spent: ArrayBuffer | undefined }
  | { kind: 'cancel' }
);

/** Each scan ends with `done` or `failed`, also one that was cancelled. */
export type FromScanThread = { id: number } & (
  | { kind: 'piece'; bytes: Uint8Array<ArrayBuffer> }
  | { kind: 'done'; answer: Answer; findings: Findings }
  | { kind: 'failed'; failure: ThreadFailure; findings: Findings }
);
