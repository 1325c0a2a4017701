/** The state of one recording. */
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import type { RecordingState } from './store.ts';
import { writtenSpan } from './writer_state.ts';

export function recordingState(recording: OpenRecording): RecordingState {
  const { file, reader, recordingId, node } = recording;
  return withFailuresOf(file, () => {
    const { retainBytes, eventCount, firstTimestampNs, lastTimestampNs } = reader.info();
    return {
      recordingId,
      node,
      source: file.source,
      sizeBytes: reader.sizeBytes(),
      limitBytes: retainBytes,
      eventCount,
      firstTimestampNs,
      lastTimestampNs,
      lastWriter: reader.isWritten() ? (writtenSpan(recording) ?? null) : null,
      lost: reader.lossTotals(),
    };
  });
}
