/** Calls and requests in progress, joined from several recordings. */
import type { UnendedEvents } from '../store.ts';
import { joinUnended } from '../unended.ts';
import { withFileErrors } from './failures.ts';
import { readWrittenSpan } from './merged_info.ts';
import type { OpenRecording } from './recording_files.ts';

export function readMergedUnended(recordings: readonly OpenRecording[]): UnendedEvents {
  const copies = [...Map.groupBy(recordings, ({ recordingId }) => recordingId).values()];
  return joinUnended(
    copies.map(findNewest).map((recording) => {
      const { file, reader, node } = recording;
      const span = readWrittenSpan(recording);
      const unended = withFileErrors(file, () => reader.unended());
      return { node, untilNs: span?.toNs ?? 0n, isOpen: span?.end === 'open', ...unended };
    }),
  );
}

/**
 * Returns the newest copy, because older copies list calls that have ended since then. A recording that is being
 * written is the newest.
 */
function findNewest(copies: readonly OpenRecording[]): OpenRecording {
  const [first, ...others] = copies;
  const computeRank = (recording: OpenRecording): bigint =>
    recording.file.source === 'live' ? 2n ** 64n : (readWrittenSpan(recording)?.toNs ?? 0n);
  return others.reduce((newest, copy) => (computeRank(copy) > computeRank(newest) ? copy : newest), first!);
}
