/** The summary of one transaction across several recordings. */
import { joinParts, type Part } from '../joined_transaction.ts';
import type { TransactionSummary } from '../store.ts';
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';

export function transactionIn(
  recordings: readonly OpenRecording[],
  transactionId: string,
): TransactionSummary | undefined {
  const parts = partsOf(recordings, transactionId);
  return parts.length === 0 ? undefined : joinParts(parts);
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
