/**
 * Pins in several recordings. Nothing is ever removed from an import, so none is made there; a recording that was named
 * may be one that an agent writes.
 */
import { RecordingError } from '../../agent/recording/errors.ts';
import { pinTransaction, unpinTransaction } from '../../agent/recording/pins.ts';
import { Problem } from '../errors.ts';
import { failureOf, withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import type { ServedFile } from './served_files.ts';
import type { Pin, PinRequest } from './store.ts';

/** Gives what is pinned then: it may have been pinned already, with more of what came before. */
export function pinIn(recordings: readonly OpenRecording[], request: PinRequest): Pin[] | undefined {
  const { transactionId } = request;
  const holders = recordings.filter(({ file, reader }) =>
    withFailuresOf(file, () => reader.transaction(transactionId) !== undefined),
  );
  const losing = holders.filter(canLose);
  // Retention may have come first.
  const pinned = losing.filter(({ file }) => withWriteErrors(file, () => pinTransaction(file.path, request)));
  if (pinned.length === 0 && losing.length === holders.length) return undefined;
  return pinsIn(recordings, transactionId);
}

/** Looks first: who may only read is told the truth about what is not pinned. */
export function unpinIn(recordings: readonly OpenRecording[], transactionId: string): boolean {
  const unpinned = recordings
    .filter((recording) => canLose(recording) && pinsOf(recording, transactionId).length > 0)
    .filter(({ file }) => withWriteErrors(file, () => unpinTransaction(file.path, transactionId)));
  return unpinned.length > 0;
}

/** Copies of a recording are one: the pin that keeps more counts. */
export function pinsIn(recordings: readonly OpenRecording[], transactionId?: string): Pin[] {
  const pins = new Map<string, Pin>();
  for (const recording of recordings.filter(canLose)) {
    for (const pin of pinsOf(recording, transactionId)) {
      const key = `${recording.recordingId} ${pin.transactionId}`;
      const known = pins.get(key);
      if (!known || pin.fromNs < known.fromNs) pins.set(key, pin);
    }
  }
  return [...pins.values()].sort((a, b) => (a.pinnedNs < b.pinnedNs ? -1 : a.pinnedNs > b.pinnedNs ? 1 : 0));
}

function canLose({ file }: OpenRecording): boolean {
  return file.source !== 'imported';
}

function pinsOf({ file, reader, node }: OpenRecording, transactionId: string | undefined): Pin[] {
  return withFailuresOf(file, () => reader.pins())
    .filter((pin) => transactionId === undefined || pin.transactionId === transactionId)
    .map((pin) => ({ ...pin, node }));
}

/** That it can be read is known already: what can not be opened is the log or the folder, for writing. */
const NOT_WRITABLE: readonly string[] = ['recording_not_writable', 'recording_not_readable'];

function withWriteErrors<Result>(file: ServedFile, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RecordingError)) throw error;
    if (error.code === 'pins_full') throw new Problem('pins_full', `${file.path}: ${error.message}`);
    if (!NOT_WRITABLE.includes(error.code)) throw failureOf(file, error);
    throw new Problem(
      'recording_not_writable',
      `${file.path} can not be written by the daemon's user: run the daemon as the user that the agent runs as`,
    );
  }
}
