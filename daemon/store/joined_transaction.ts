/** Joins the parts of a transaction that several recordings contain. */

import {
  chooseSlower,
  computeFirstStartNs,
  computeLastEndNs,
  joinWrittenBack,
  type RecordingTransaction,
} from '../../agent/recording/read/transactions.ts';
import { formatEventId } from '../base/event_id.ts';
import type { NodeRecording } from './blocks/scanned_block.ts';
import type { TransactionSummary } from './store.ts';

/** The part of the transaction that one recording contains. */
export interface RecordingPart {
  recording: NodeRecording;
  summary: RecordingTransaction;
}

/** Returns the names sorted and without duplicates. */
function mergeNames(names: readonly string[]): string[] {
  return [...new Set(names)].sort();
}

/** Joins the parts of a transaction. There must be at least one part. */
export function joinParts(unordered: readonly RecordingPart[]): TransactionSummary {
  const parts = unordered.toSorted((a, b) => (a.summary.firstTimestampNs < b.summary.firstTimestampNs ? -1 : 1));
  const summaries = parts.map(({ summary }) => summary);
  const firstTimestampNs = computeFirstStartNs(summaries);
  const slower = summaries.reduce(chooseSlower);
  const slowest = parts.find(({ summary }) => summary === slower)!;
  return {
    transactionId: summaries[0]!.transactionId,
    traceId: summaries.find(({ traceId }) => traceId !== null)?.traceId ?? null,
    firstTimestampNs,
    lastEndNs: computeLastEndNs(summaries, firstTimestampNs),
    writtenBack: joinWrittenBack(summaries),
    eventCount: summaries.reduce((sum, { eventCount }) => sum + eventCount, 0),
    errorCount: summaries.reduce((sum, { errorCount }) => sum + errorCount, 0),
    slowestNs: slower.slowestDurationNs,
    slowestEventId: formatEventId(slowest.recording.recordingId, slowest.summary.slowestNumber),
    services: mergeNames(summaries.flatMap(({ services }) => services)),
    nodes: mergeNames(parts.map(({ recording }) => recording.node)),
  };
}
