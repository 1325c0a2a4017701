/** How one recording is. */
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import type { RecordingState } from './store.ts';

export function recordingState({ file, reader, recordingId, node }: OpenRecording): RecordingState {
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
      lastWriter: reader.lastWriter(),
      lost: reader.lossTotals(),
    };
  });
}
