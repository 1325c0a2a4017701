/**
 * Pins in several recordings. Pins are made only in files that an agent records into, because nothing is ever removed
 * from imports, bundles and other files.
 */
import { RecordingError } from '../../../agent/recording/format/errors.ts';
import { pinTransaction, syncPins, unpinTransaction } from '../../../agent/recording/retain/pins.ts';
import { Problem } from '../../base/problem.ts';
import type { Pin, PinRequest } from '../store.ts';
import { toFileError, toStoreError, withFileErrors } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import type { ServedFile } from './served_files.ts';

/** Returns the resulting pins: the transaction may already have been pinned, with a longer period before it. */
export function pinIn(recordings: readonly OpenRecording[], request: PinRequest): Pin[] | undefined {
  const { transactionId } = request;
  const holders = recordings.filter(({ file, reader }) =>
    withFileErrors(file, () => reader.readTransaction(transactionId) !== undefined),
  );
  const losing = holders.filter(canLose);
  // Retention may remove the transaction before it is pinned.
  const pinned = changeRecordings(losing, transactionId, ({ path }) => pinTransaction(path, request) !== undefined);
  if (pinned.length === 0 && losing.length === holders.length) return undefined;
  return readMergedPins(recordings, transactionId);
}

/**
 * Looks for the pin first: if access is read-only, a missing pin is then reported as missing, and not as a write error.
 */
export function unpinIn(recordings: readonly OpenRecording[], transactionId: string): boolean {
  const pinned = recordings.filter(
    (recording) => canLose(recording) && readRecordingPins(recording, transactionId).length > 0,
  );
  return changeRecordings(pinned, transactionId, ({ path }) => unpinTransaction(path, transactionId)).length > 0;
}

/** Resolves once all changes of pins are on disk. */
export async function syncPinFiles(files: readonly ServedFile[]): Promise<void> {
  for (const file of files)
    await syncPins(file.path).catch((error: unknown) => {
      throw toStoreError(toFileError(file, error));
    });
}

/** Returns the files of the recordings that retention removes events from: only these files have pins. */
export function listPinnableFiles(recordings: readonly OpenRecording[]): ServedFile[] {
  return recordings.filter(canLose).map(({ file }) => file);
}

/** Returns the recordings that `change` modified. If one change fails, all changes made so far are undone. */
function changeRecordings(
  recordings: readonly OpenRecording[],
  transactionId: string,
  change: (file: ServedFile) => boolean,
): OpenRecording[] {
  const undo: (() => void)[] = [];
  try {
    return recordings.filter((recording) => {
      const [before] = readRecordingPins(recording, transactionId);
      const done = withWriteErrors(recording.file, () => change(recording.file));
      if (done) undo.push(() => restore(recording, transactionId, before));
      return done;
    });
  } catch (error) {
    for (const restoreOne of undo) restoreOne();
    throw error;
  }
}

function restore({ file, reader }: OpenRecording, transactionId: string, before: Pin | undefined): void {
  withWriteErrors(file, () => {
    unpinTransaction(file.path, transactionId);
    const transaction = reader.readTransaction(transactionId);
    if (!before || !transaction) return;
    const beforeNs = transaction.firstTimestampNs - before.fromNs;
    pinTransaction(file.path, { transactionId, beforeNs, nowNs: before.pinnedNs });
  });
}

/**
 * Copies of a recording count as one recording: if several copies have a pin, the pin with the earliest start counts.
 */
export function readMergedPins(recordings: readonly OpenRecording[], transactionId?: string): Pin[] {
  const pins = new Map<string, Pin>();
  for (const recording of recordings.filter(canLose)) {
    for (const pin of readRecordingPins(recording, transactionId)) {
      const key = `${recording.recordingId} ${pin.transactionId}`;
      const known = pins.get(key);
      if (!known || pin.fromNs < known.fromNs) pins.set(key, pin);
    }
  }
  return [...pins.values()].sort((a, b) => (a.pinnedNs < b.pinnedNs ? -1 : a.pinnedNs > b.pinnedNs ? 1 : 0));
}

function canLose({ file, reader }: OpenRecording): boolean {
  if (file.source === 'imported') return false;
  return withFileErrors(file, () => reader.info()).retainBytes !== null;
}

function readRecordingPins({ file, reader, node }: OpenRecording, transactionId: string | undefined): Pin[] {
  return withFileErrors(file, () => reader.pins())
    .filter((pin) => transactionId === undefined || pin.transactionId === transactionId)
    .map((pin) => ({ ...pin, node }));
}

/** Errors that mean that the file's log or folder is not writable, because the file itself was read before. */
const NOT_WRITABLE: readonly string[] = ['recording_not_writable', 'recording_not_readable'];

function withWriteErrors<Result>(file: ServedFile, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RecordingError)) throw error;
    if (error.code === 'pins_full') throw new Problem('pins_full', `${file.path}: ${error.message}`);
    if (!NOT_WRITABLE.includes(error.code)) throw toFileError(file, error);
    throw new Problem(
      'recording_not_writable',
      `${file.path} cannot be written by the daemon's user: run the daemon as the user that the agent runs as`,
    );
  }
}
