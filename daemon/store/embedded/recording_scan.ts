/**
 * Scans one recording. Converts the store's keys to keys of the recording, and the recording's blocks to blocks of the
 * store.
 */

import type { EventKey as RecordingKey, RecordingScanRequest } from '../../../agent/recording/read/reader.ts';
import { parseEventId } from '../../base/event_id.ts';
import {
  createRecordingDictionary,
  type EventKey,
  type RecordingBlock,
  type RecordingDictionary,
} from '../blocks/scanned_block.ts';
import type { ScanRequest } from '../store.ts';
import { toFileError } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';

export function* scanRecording(
  recording: OpenRecording,
  { after, ...request }: Omit<ScanRequest, 'order'> & Pick<RecordingScanRequest, 'order' | 'risingMinNs'>,
): Generator<RecordingBlock, void> {
  const dictionary = findOrCreateDictionary(recording);
  const key = after && { after: toRecordingKey(recording.recordingId, after) };
  try {
    for (const block of recording.reader.scan({ ...request, ...key })) yield { block, dictionary };
  } catch (error) {
    throw toFileError(recording.file, error);
  }
}

const dictionaries = new WeakMap<OpenRecording, RecordingDictionary>();

/**
 * Returns the same dictionary as long as the recording is open, because writers cache texts per dictionary. A cached
 * text stays valid, because ids are never reused.
 */
export function findOrCreateDictionary(recording: OpenRecording): RecordingDictionary {
  let dictionary = dictionaries.get(recording);
  if (!dictionary) {
    const { recordingId, node } = recording;
    const { name, file, context } = recording.reader;
    dictionary = createRecordingDictionary({ recordingId, node, name, file, context });
    dictionaries.set(recording, dictionary);
  }
  return dictionary;
}

/**
 * Converts the key of any event to a position among the events of this recording. Events of the same time are ordered
 * by id, even in different recordings.
 */
function toRecordingKey(recordingId: string, { timestamp_ns, event_id }: EventKey): RecordingKey {
  const id = parseEventId(event_id);
  if (id?.recordingId === recordingId) return { timestampNs: timestamp_ns, number: id.number };
  return { timestampNs: timestamp_ns, number: event_id < recordingId ? -1n : 2n ** 64n };
}
