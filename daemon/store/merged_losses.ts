/** Events that several recordings have lost. */
import type { RecordingReader } from '../../agent/recording/read/reader.ts';
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import type { NodeLoss } from './store.ts';

type RecordedLoss = ReturnType<RecordingReader['losses']>[number];

export function lossesIn(recordings: readonly OpenRecording[], fromNs: bigint, toNs: bigint): NodeLoss[] {
  const lossesOf = ({ file, reader }: OpenRecording) => withFailuresOf(file, () => reader.losses(fromNs, toNs));
  return [...Map.groupBy(recordings, ({ recordingId }) => recordingId).values()]
    .flatMap((copies) => copies.map(lossesOf).reduce(united))
    .map(({ count, ...loss }) => ({ ...loss, lost: count }));
}

/** Copies of a recording have the same loss records: a record that both have counts once. */
function united(known: RecordedLoss[], more: RecordedLoss[]): RecordedLoss[] {
  const left = Map.groupBy(known, textOf);
  const both = [...known, ...more.filter((loss) => !left.get(textOf(loss))?.pop())];
  // Removal by retention is one record that grows: the record of an older copy is contained in the newer one.
  const removed = both.filter(isRemoved).sort((a, b) => b.count - a.count);
  return [...both.filter((loss) => !isRemoved(loss)), ...removed.slice(0, 1)];
}

function isRemoved({ cause }: RecordedLoss): boolean {
  return cause === 'retention';
}

function textOf({ fromNs, toNs, cause, eventType, count }: RecordedLoss): string {
  return `${fromNs} ${toNs} ${cause} ${eventType} ${count}`;
}
