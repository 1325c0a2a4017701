/** The open recordings: whichever files are served just now, each opened once and anew when another takes its place. */
import { RecordingError } from '../../agent/recording/errors.ts';
import { openRawId, type RawId } from '../../agent/recording/raw_id.ts';
import { openReader, type RecordingReader } from '../../agent/recording/reader.ts';
import { withFailuresOf } from './failures.ts';
import { namedFile, nothingServed, type Places, type ServedFile, servedFiles } from './served_files.ts';

export interface OpenRecording {
  readonly reader: RecordingReader;
  readonly recordingId: string;
  readonly node: string;
  readonly file: ServedFile;
}

interface RecordingFiles {
  /** At least one, or it throws. They stay open until they are released, also when other files take their places. */
  acquire(): readonly OpenRecording[];
  release(recordings: readonly OpenRecording[]): void;
  close(): void;
}

interface Opened extends OpenRecording {
  readonly rawId: RawId;
}

interface Entry extends Opened {
  users: number;
  retired: boolean;
}

export function recordingFiles(places: Places): RecordingFiles {
  const byPath = new Map<string, Entry>();

  function acquire(): Entry[] {
    const served = new Set(
      servedFiles(places)
        .map(current)
        .filter((entry) => entry !== undefined),
    );
    for (const entry of byPath.values()) if (!served.has(entry)) retire(entry);
    if (served.size === 0) throw nothingServed(places);
    for (const entry of served) entry.users++;
    return [...served];
  }

  function current(file: ServedFile): Entry | undefined {
    const known = byPath.get(file.path);
    // While the old file is open its inode can't be given to the new one.
    if (known?.file.identity === file.identity && isWhatItWas(known)) return known;
    const opened = open(file);
    if (known) retire(known);
    if (!opened) return undefined;
    const entry = { ...opened, users: 0, retired: false };
    byPath.set(file.path, entry);
    return entry;
  }

  function retire(entry: Entry): void {
    byPath.delete(entry.file.path);
    entry.retired = true;
    if (entry.users === 0) close(entry);
  }

  return {
    acquire,
    release(recordings) {
      for (const entry of recordings as readonly Entry[]) {
        entry.users--;
        if (entry.retired && entry.users === 0) close(entry);
      }
    },
    close() {
      for (const entry of byPath.values()) retire(entry);
    },
  };
}

function close({ reader, rawId }: Opened): void {
  reader.close();
  rawId.close();
}

/** One that cannot be read is opened again, so that what is wrong with it is said. */
function isWhatItWas({ reader, rawId, recordingId }: Opened): boolean {
  try {
    return !reader.isReplaced() && !rawId.isOther(recordingId);
  } catch {
    return false;
  }
}

/** Undefined for a file that an agent is only now making into a recording. */
function open(file: ServedFile): Opened | undefined {
  try {
    return withFailuresOf(file, () => opened(file));
  } catch (error) {
    const beingMade = file.source === 'live' && error instanceof RecordingError && error.code === 'recording_missing';
    if (beingMade) return undefined;
    throw error;
  }
}

function opened(file: ServedFile): Opened {
  const { path, isFile, source } = file;
  if (!isFile) throw new RecordingError('not_a_recording', `${path} is not a file: only --data takes a folder`);
  const reader = openReader(path, { isForeign: source !== 'live' });
  const { recordingId, node } = reader;
  let rawId: RawId | undefined;
  try {
    rawId = openRawId(path);
    if (rawId.isOther(recordingId)) throw new RecordingError('recording_corrupt', overwritten(path));
    return { reader, rawId, recordingId, node, file };
  } catch (error) {
    reader.close();
    rawId?.close();
    throw error;
  }
}

function overwritten(path: string): string {
  return `${path} was overwritten in place, and ${path}-wal is of what was there: an agent that is at work removes it soon; else remove it`;
}

/** Throws what is wrong with the first that can not be read. */
export function checkRecordings(paths: readonly string[]): void {
  for (const file of paths.map(namedFile)) close(withFailuresOf(file, () => opened(file)));
}
