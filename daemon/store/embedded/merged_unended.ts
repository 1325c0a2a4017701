/** What is in progress in several recordings. */
import type { Unended } from '../store.ts';
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import { writtenSpan } from './writer_state.ts';

export function unendedIn(recordings: readonly OpenRecording[]): Unended {
  const copies = [...Map.groupBy(recordings, ({ recordingId }) => recordingId).values()];
  const all = copies.map(newestOf).map(({ file, reader, node }) => ({
    node,
    ...withFailuresOf(file, () => reader.unended()),
  }));
  return {
    events: all.flatMap(({ node, events }) => events.map((event) => ({ ...event, node }))),
    lost: all.flatMap(({ node, lost }) => lost.map((event) => ({ ...event, node }))),
    unlisted: all.flatMap(({ node, unlisted }) => (unlisted.count > 0 ? [{ node, ...unlisted }] : [])),
  };
}

/** An older copy lists what has ended since. */
function newestOf(copies: readonly OpenRecording[]): OpenRecording {
  const [first, ...others] = copies;
  const untilNs = (recording: OpenRecording) => writtenSpan(recording)?.toNs ?? 0n;
  return others.reduce((newest, copy) => (untilNs(copy) > untilNs(newest) ? copy : newest), first!);
}
