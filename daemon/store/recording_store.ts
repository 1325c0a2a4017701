/** The store on one node's recording. */
import { RecordingError } from '../../agent/recording/errors.ts';
import { formatEventId, parseEventId } from '../../agent/recording/event_id.ts';
import type { EventKey as RecordingKey } from '../../agent/recording/reader.ts';
import { Problem } from '../errors.ts';
import { eventsOf } from './event.ts';
import { type OpenRecording, recordingFile } from './recording_file.ts';
import type { Dictionary, EventKey, ScannedBlock, ScanRequest, Store } from './store.ts';

/** `data`: see `recordingFile`. Nothing is opened before it is asked for. */
export function openRecordingStore(data: string): Store {
  const file = recordingFile(data);
  /** Runs with the recording that is there now. */
  const read = <Result>(work: (recording: OpenRecording) => Result): Result => withStoreErrors(() => file.use(work));
  return {
    info: () => read(({ recordingId, node }) => ({ recordingId, node })),
    *scan(request) {
      const recording = withStoreErrors(() => file.acquire());
      try {
        yield* scan(recording, request);
      } finally {
        file.release(recording);
      }
    },
    event: (eventId) =>
      read((recording) => {
        const id = parseEventId(eventId);
        if (id?.recordingId !== recording.recordingId) return undefined;
        const block = recording.reader.event(id.number);
        return block && eventsOf({ block, dictionary: dictionaryOf(recording) })[0];
      }),
    transaction: (transactionId) =>
      read(({ reader, recordingId, node }) => {
        const summary = reader.transaction(transactionId);
        if (!summary) return undefined;
        const { slowestNumber, key: _key, slowestDurationNs: _duration, ...rest } = summary;
        return { ...rest, slowestEventId: formatEventId(recordingId, slowestNumber), nodes: [node] };
      }),
    services: () => read(({ reader }) => reader.services()),
    nodes: () => read(({ reader }) => reader.nodes()),
    losses: (fromNs, toNs) =>
      read(({ reader }) => reader.losses(fromNs, toNs).map(({ count, ...loss }) => ({ ...loss, lost: count }))),
    close: () => file.close(),
  };
}

function* scan(recording: OpenRecording, { after, ...request }: ScanRequest): Generator<ScannedBlock, void> {
  const dictionary = dictionaryOf(recording);
  const key = after && { after: keyIn(recording.recordingId, after) };
  const blocks = withStoreErrors(() => recording.reader.scan({ ...request, ...key }));
  for (;;) {
    const { done, value: block } = withStoreErrors(() => blocks.next());
    if (done) return;
    yield { block, dictionary };
  }
}

function dictionaryOf({ reader, recordingId, node }: OpenRecording): Dictionary {
  return { recordingId, node, name: reader.name, file: reader.file, context: reader.context };
}

/** The place of any event among those of this recording: ids order events of one time, whichever recording they are of. */
function keyIn(recordingId: string, { timestamp_ns, event_id }: EventKey): RecordingKey {
  const id = parseEventId(event_id);
  if (id?.recordingId === recordingId) return { timestampNs: timestamp_ns, number: id.number };
  return { timestampNs: timestamp_ns, number: event_id < recordingId ? -1n : 2n ** 64n };
}

/** What a client can act on differently keeps its code. */
const TOLD: readonly string[] = ['recording_missing', 'not_a_recording', 'unsupported_format', 'recording_corrupt'];

function withStoreErrors<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (error instanceof RecordingError && !TOLD.includes(error.code))
      throw new Problem('recording_unavailable', error.message);
    throw error;
  }
}
