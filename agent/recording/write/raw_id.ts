/**
 * The recording id as a file has it, read past SQLite: who overwrites the file in place (`cp backup recording.kreplay`)
 * changes nothing of what its log has, and an open connection goes on with the log and with what it remembers.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { RecordingError } from '../format/errors.ts';

export interface RawId {
  /** Whether the file has another recording's id, or none any more. */
  isOther(recordingId: string): boolean;
  close(): void;
}

/** The table with the id is the first that is created. */
const HEAD_BYTES = 1 << 16;

/** Key and value of its row stand side by side. */
const ID = /recording_id([0-9a-f]{16})/;
const ID_BYTES = 'recording_id'.length + 16;

/**
 * Keeps the file open: to close any descriptor of a file lets go of the locks that SQLite has on it in this process. So it
 * has to be closed after the connection.
 */
export function openRawId(path: string): RawId {
  const fd = open(path);
  const head = Buffer.alloc(HEAD_BYTES);
  /** Where the id was found last; -1 before it has come from the log into the file. */
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
        // Twice: a page that is being written may be read in halves.
        return differs(recordingId) && differs(recordingId);
      } catch {
        // A disk that cannot be read now says nothing of the file. Whatever is done to the file next reports the failure.
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
