/**
 * Pins in several recordings. Pins are added only to files that an agent records into, because nothing is ever removed
 * from imports, bundles and other files.
 */
import type { PinRequest } from '../../../agent/recording/retain/pins.ts';
import type { Pin } from '../store.ts';
import { pinInFile, unpinInFile } from './changed_pins.ts';
import { withFileErrors } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import type { ServedFile } from './served_files.ts';

/** A recording whose pins can be changed, and its state before the change. */
export interface PinnableFile {
  file: ServedFile;
  /** Start of the transaction's first event; undefined if the recording does not have the transaction. */
  firstNs: bigint | undefined;
  /** The transaction's pin in this recording before the change. */
  before: Pin | undefined;
}

/** The recordings that have a transaction. */
export interface Holders {
  /** The recordings from which retention removes events. Only these recordings have pins. */
  losing: PinnableFile[];
  /** Whether the transaction is also in a recording from which nothing is removed. */
  isKept: boolean;
}

/** Finds the recordings that have the transaction; returns undefined if there are none. */
export function findHolders(recordings: readonly OpenRecording[], transactionId: string): Holders | undefined {
  const holders = recordings.filter(
    ({ file, reader }) => withFileErrors(file, () => reader.readTransaction(transactionId)) !== undefined,
  );
  if (holders.length === 0) return undefined;
  const losing = holders.filter(canLose);
  return {
    losing: losing.map((recording) => describePinnable(recording, transactionId)),
    isKept: losing.length < holders.length,
  };
}

/** Returns the recordings that have a pin of the transaction. */
export function findPinned(recordings: readonly OpenRecording[], transactionId: string): PinnableFile[] {
  return recordings
    .filter(canLose)
    .map((recording) => describePinnable(recording, transactionId))
    .filter(({ before }) => before !== undefined);
}

function describePinnable(recording: OpenRecording, transactionId: string): PinnableFile {
  const { file, reader } = recording;
  return {
    file,
    firstNs: withFileErrors(file, () => reader.readTransaction(transactionId))?.firstTimestampNs,
    before: readRecordingPins(recording, transactionId)[0],
  };
}

/**
 * Resolves, when the pins are on disk, to the number of pinned recordings. A recording from which retention has removed
 * the transaction is not pinned.
 */
export async function pinInAll(files: readonly PinnableFile[], request: PinRequest): Promise<number> {
  return await changeFiles(files, request.transactionId, ({ file }) => pinInFile(file, request));
}

/** Resolves to the number of recordings that had the pin. */
export async function unpinInAll(files: readonly PinnableFile[], transactionId: string): Promise<number> {
  return await changeFiles(files, transactionId, ({ file }) => unpinInFile(file, transactionId));
}

/** Returns how many recordings `change` modified. If one change fails, all changes made so far are undone. */
async function changeFiles(
  files: readonly PinnableFile[],
  transactionId: string,
  change: (pinnable: PinnableFile) => Promise<boolean>,
): Promise<number> {
  const begun: PinnableFile[] = [];
  let changed = 0;
  try {
    for (const pinnable of files) {
      begun.push(pinnable);
      if (await change(pinnable)) changed++;
    }
  } catch (error) {
    await takeBack(begun.pop()!, transactionId).catch(() => {});
    for (const pinnable of begun) await restore(pinnable, transactionId);
    throw error;
  }
  return changed;
}

/**
 * Reverts the change that failed, because the recording may contain the change although writing it to disk failed. An
 * earlier pin is kept, and may still cover the longer period of the failed change.
 */
async function takeBack({ file, firstNs, before }: PinnableFile, transactionId: string): Promise<void> {
  if (!before) await unpinInFile(file, transactionId);
  else if (firstNs !== undefined) await pinInFile(file, buildFormerPin(transactionId, firstNs, before));
}

async function restore({ file, firstNs, before }: PinnableFile, transactionId: string): Promise<void> {
  await unpinInFile(file, transactionId);
  if (!before || firstNs === undefined) return;
  await pinInFile(file, buildFormerPin(transactionId, firstNs, before));
}

function buildFormerPin(transactionId: string, firstNs: bigint, { fromNs, pinnedNs }: Pin): PinRequest {
  return {
    transactionId,
    beforeNs: firstNs - fromNs,
    nowNs: pinnedNs,
  };
}

/**
 * Returns the pins of the recordings. If several copies of a recording have the same pin, the pin with the earliest
 * start counts.
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
