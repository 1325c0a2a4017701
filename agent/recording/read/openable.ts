/** Checks the files of a recording before they are opened, and says why opening failed. */
import { existsSync, statSync } from 'node:fs';
import { RecordingError, toRecordingError } from '../format/errors.ts';
import { PAGE_BYTES } from '../format/schema.ts';

/** Says what is the matter where SQLite only says that it may not write, though it was only to read. */
export function openError(error: unknown, path: string): unknown {
  const code = String((error as { code?: unknown }).code);
  const has = (end: string) => existsSync(path + end);
  if (code === 'SQLITE_READONLY_ROLLBACK' && statSync(path).size <= PAGE_BYTES) {
    const message = `${path} was just being created when its agent ended: start the agent again`;
    return new RecordingError('recording_missing', message, error);
  }
  // A log is read with the help of the -shm file, which SQLite makes if it is missing.
  if (code.startsWith('SQLITE_CANTOPEN') && has('-wal') && !has('-shm')) {
    const message = `${path} was not closed, and to read its -wal a user must be able to write to the folder: start the agent, or copy both files to a folder of your own`;
    return new RecordingError('recording_not_readable', message, error);
  }
  return toRecordingError(error, path);
}

/** Only regular files are opened: opening a pipe or a device would wait for a process at its other end. */
export function checkFiles(path: string): void {
  if (isRegular(path) === undefined)
    throw new RecordingError('recording_missing', `there is no file ${path}: give the path of a recording`);
  for (const name of [path, ...['-wal', '-shm', '-journal'].map((end) => path + end)])
    if (isRegular(name) === false)
      throw new RecordingError('not_a_recording', `${name} is not a regular file: give the path of a recording`);
}

/** Returns undefined when there is no such file, or this user may not look at it. */
function isRegular(path: string): boolean | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile();
  } catch {
    return undefined;
  }
}
