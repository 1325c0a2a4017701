/** The recording at a path, whichever file that is just now: it may come later, and it may be replaced. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { RecordingError } from '../../agent/recording/errors.ts';
import { openReader, type RecordingReader } from '../../agent/recording/reader.ts';

export interface OpenRecording {
  readonly reader: RecordingReader;
  readonly recordingId: string;
  readonly node: string;
}

export interface RecordingFile {
  use<Result>(work: (recording: OpenRecording) => Result): Result;
  /** Stays open until it is released, also when another file takes its place. */
  acquire(): OpenRecording;
  release(recording: OpenRecording): void;
  close(): void;
}

interface Entry extends OpenRecording {
  identity: string;
  users: number;
}

/** `data` is a folder that an agent records into, or a recording itself. */
export function recordingFile(data: string): RecordingFile {
  let current: Entry | undefined;

  /** Opens it, or opens it anew when another file has taken its place. */
  function acquire(): Entry {
    const path = pathOf(data);
    // While the old file is open its inode can't be given to the new one.
    const identity = identityOf(path);
    if (current?.identity !== identity) {
      retire();
      const reader = openReader(path);
      const { recordingId, node } = reader.info();
      current = { reader, recordingId, node, identity, users: 0 };
    }
    current.users++;
    return current;
  }

  function release(entry: Entry): void {
    entry.users--;
    if (entry !== current && entry.users === 0) entry.reader.close();
  }

  function retire(): void {
    if (current?.users === 0) current.reader.close();
    current = undefined;
  }

  return {
    use(work) {
      const entry = acquire();
      try {
        return work(entry);
      } finally {
        release(entry);
      }
    },
    acquire,
    release: (recording) => release(recording as Entry),
    close: retire,
  };
}

function pathOf(data: string): string {
  const stats = readable(data, () => statSync(data, { throwIfNoEntry: false }));
  return stats?.isFile() ? data : join(data, 'recording.kreplay');
}

function identityOf(path: string): string {
  const stats = readable(path, () => statSync(path, { bigint: true, throwIfNoEntry: false }));
  if (stats) return `${stats.dev}:${stats.ino}`;
  throw new RecordingError(
    'recording_missing',
    `there is no recording at ${path} yet: start the agent, it creates it; the daemon then opens it by itself`,
  );
}

function readable<Result>(path: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw new RecordingError('recording_not_readable', `${path}: ${(error as Error).message}`, error);
  }
}
