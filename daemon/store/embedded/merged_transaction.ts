/** The summary of one transaction across several recordings. */
import { formatEventId } from '../../../agent/recording/format/event_id.ts';
import type { RecordingReader } from '../../../agent/recording/read/reader.ts';
import { joinWrittenBack, lastEndOf, slowerOf } from '../../../agent/recording/read/transactions.ts';
import type { TransactionSummary } from '../store.ts';
import { withFailuresOf } from './failures.ts';
import { mergedNames } from './merged_info.ts';
import type { OpenRecording } from './recording_files.ts';

/** The part of the transaction that one recording contains. */
export interface Part {
  recording: OpenRecording;
  summary: NonNullable<ReturnType<RecordingReader['transaction']>>;
}

export function transactionIn(
  recordings: readonly OpenRecording[],
  transactionId: string,
): TransactionSummary | undefined {
  const parts = partsOf(recordings, transactionId);
  return parts.length === 0 ? undefined : joinParts(parts);
}

/** Joins one or more parts. */
export function joinParts(unordered: readonly Part[]): TransactionSummary {
  const parts = unordered.toSorted((a, b) => (a.summary.firstTimestampNs < b.summary.firstTimestampNs ? -1 : 1));
  const summaries = parts.map(({ summary }) => summary);
  const slower = summaries.reduce(slowerOf);
  const slowest = parts.find(({ summary }) => summary === slower)!;
  return {
    transactionId: summaries[0]!.transactionId,
    traceId: summaries.find(({ traceId }) => traceId !== null)?.traceId ?? null,
    firstTimestampNs: summaries[0]!.firstTimestampNs,
    lastEndNs: lastEndOf(summaries, summaries[0]!.firstTimestampNs),
    writtenBack: joinWrittenBack(summaries),
    eventCount: summaries.reduce((sum, { eventCount }) => sum + eventCount, 0),
    errorCount: summaries.reduce((sum, { errorCount }) => sum + errorCount, 0),
    slowestEventId: formatEventId(slowest.recording.recordingId, slowest.summary.slowestNumber),
    services: mergedNames(summaries.flatMap(({ services }) => services)),
    nodes: mergedNames(parts.map(({ recording }) => recording.node)),
  };
}

/** Returns one part per recording. How far copies overlap is unknown, so the copy with the most events counts. */
function partsOf(recordings: readonly OpenRecording[], transactionId: string): Part[] {
  const parts = new Map<string, Part>();
  for (const recording of recordings) {
    const summary = withFailuresOf(recording.file, () => recording.reader.transaction(transactionId));
    const known = parts.get(recording.recordingId)?.summary.eventCount ?? 0;
    if (summary && summary.eventCount > known) parts.set(recording.recordingId, { recording, summary });
  }
  return [...parts.values()];
}
