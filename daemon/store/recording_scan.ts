/** A scan of one recording: the store's keys and blocks on one side, the recording's on the other. */
import { parseEventId } from '../../agent/recording/event_id.ts';
import type { EventKey as RecordingKey } from '../../agent/recording/reader.ts';
import { failureOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import type { Dictionary, EventKey, ScannedBlock, ScanRequest } from './store.ts';

export function* scanRecording(
  recording: OpenRecording,
  { after, ...request }: ScanRequest,
): Generator<ScannedBlock, void> {
  const dictionary = dictionaryOf(recording);
  const key = after && { after: keyIn(recording.recordingId, after) };
  try {
    for (const block of recording.reader.scan({ ...request, ...key })) yield { block, dictionary };
  } catch (error) {
    throw failureOf(recording.file, error);
  }
}

export function dictionaryOf({ reader, recordingId, node }: OpenRecording): Dictionary {
  return { recordingId, node, name: reader.name, file: reader.file, context: reader.context };
}

/** The place of any event among those of this recording: ids order events of one time, whichever recording they are of. */
function keyIn(recordingId: string, { timestamp_ns, event_id }: EventKey): RecordingKey {
  const id = parseEventId(event_id);
  if (id?.recordingId === recordingId) return { timestampNs: timestamp_ns, number: id.number };
  return { timestampNs: timestamp_ns, number: event_id < recordingId ? -1n : 2n ** 64n };
}
