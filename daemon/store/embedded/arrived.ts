/** Events recorded since a position: per recording, in the order in which they arrived. */

import type { EventFilter } from '../store.ts';
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import { dictionaryOf } from './recording_scan.ts';
import type { ArrivalRequest, Arrived, Extent, NumberedLoss } from './recordings.ts';

type Open = readonly OpenRecording[];

/** Among several copies of a recording, picks the one that extends furthest. */
function longest(open: Open): { recording: OpenRecording; extent: { end: number; lossId: number } }[] {
  const byId = new Map<string, ReturnType<typeof longest>[number]>();
  for (const recording of open) {
    const extent = withFailuresOf(recording.file, () => recording.reader.extent());
    const known = byId.get(recording.recordingId);
    if (!known || extent.end > known.extent.end) byId.set(recording.recordingId, { recording, extent });
  }
  return [...byId.values()];
}

function find(open: Open, recordingId: string): OpenRecording | undefined {
  const copies = open.filter((recording) => recording.recordingId === recordingId);
  return copies.length <= 1 ? copies[0] : longest(copies)[0]!.recording;
}

export function extentsOf(open: Open): Extent[] {
  return longest(open).map(({ recording: { recordingId, node, file }, extent }) => ({
    recordingId,
    node,
    ...extent,
    isImport: file.source === 'imported',
  }));
}

export function* lookForFiles(open: Open, filter: EventFilter): Generator<void, void> {
  for (const { file, reader } of open) {
    const steps = reader.lookForFiles(filter);
    while (!withFailuresOf(file, () => steps.next()).done) yield;
  }
}

export function arrivedIn(open: Open, { recordingId, limit, ...request }: ArrivalRequest): Arrived | undefined {
  const recording = find(open, recordingId);
  if (!recording) return undefined;
  const read = () => recording.reader.arrivals({ ...request, rowsMax: limit });
  const arrived = withFailuresOf(recording.file, read);
  return arrived && { scanned: { block: arrived.block, dictionary: dictionaryOf(recording) }, next: arrived.next };
}

export function removedFrom(open: Open, recordingId: string, from: number, end: number) {
  const recording = find(open, recordingId);
  if (!recording) return { count: 0, next: from, toNs: 0n };
  return withFailuresOf(recording.file, () => recording.reader.removed(from, end));
}

export function lossesSince(open: Open, recordingId: string, lossId: number): NumberedLoss[] {
  const recording = find(open, recordingId);
  if (!recording) return [];
  const losses = withFailuresOf(recording.file, () => recording.reader.lossesAfter(lossId));
  return losses.map(({ count, ...loss }) => ({ ...loss, lost: count }));
}
