/**
 * Reads the recording id from the file itself, not through SQLite. Overwriting the file in place (`cp backup
 * recording.kreplay`) does not change its log, so an open connection continues with the log and its cache.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { RecordingError } from '../format/errors.ts';

export interface RawId {
  /** Whether the file has another recording's id, or has lost its id. */
  isOther(recordingId: string): boolean;
  close(): void;
}

/** The table with the id is created first, so the id is near the start of the file. */
const HEAD_BYTES = 1 << 16;

/** The key and the value of its row are adjacent. */
const ID = /recording_id([0-9a-f]{16})/;
const ID_BYTES = 'recording_id'.length + 16;

/**
 * Keeps the file open: closing any descriptor of a file releases the locks that SQLite holds on it in this process. So
 * it must be closed after the connection.
 */
export function openRawId(path: string): RawId {
  const fd = open(path);
  const head = Buffer.alloc(HEAD_BYTES);
  /** Offset at which the id was last found; -1 until it was copied from the log to the file. */
  let place = -1;

  function idAt(from: number, bytes: number): string | undefined {
    const found = ID.exec(head.toString('latin1', 0, readSync(fd, head, 0, bytes, from)));
    if (!found) return undefined;
    place = from + found.index;
    return found[1];
  }

  function differs(recordingId: string): boolean {
    if (place >= 0 && idAt(place, ID_BYTES) === recordingId) return false;
    const wasThere = place >= 0;
    const id = idAt(0, HEAD_BYTES);
    return id === undefined ? wasThere : id !== recordingId;
  }

  return {
    isOther(recordingId) {
      try {
        // The id is read twice, because a page that is being written may be read half old and half new.
        return differs(recordingId) && differs(recordingId);
      } catch {
        // A failing read says nothing about the file. The next operation on the file reports the failure.
        return false;
      }
    },
    close: () => closeSync(fd),
  };
}

function open(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (error) {
    throw new RecordingError('recording_not_readable', `${path}: ${(error as Error).message}`, error);
  }
}
