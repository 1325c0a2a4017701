/** Writes marker lines. */
import { constants, openSync, writeSync } from 'node:fs';

/** Writes the line on this thread, as one write; returns whether it was written. */
export type MarkerOutput = (line: string) => boolean;

/** Errors after which the next line is tried again. */
const PASSING = new Set(['EBADF', 'EMFILE', 'ENFILE', 'ENOMEM', 'EINTR']);

/** Opens `path` (/dev/null) at the first line and keeps it open. Never throws: labels must not break a program. */
export function createMarkerOutput(path = '/dev/null'): MarkerOutput {
  let fd: number | undefined;
  let given = true;
  const write = (line: string) => {
    if (!given) return false;
    try {
      // The file is neither created nor truncated: if /dev/null is missing, no regular file must take its place.
      fd ??= openSync(path, constants.O_WRONLY);
      writeSync(fd, line);
      return true;
    } catch (error) {
      fd = undefined;
      given = PASSING.has((error as NodeJS.ErrnoException).code ?? '');
      return false;
    }
  };
  // The program may have closed the descriptor: the second try opens the file again.
  return (line) => write(line) || write(line);
}
