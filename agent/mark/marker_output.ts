/** Writes marker lines. */
import { constants, openSync, writeSync } from 'node:fs';

/** Writes a line on this thread in one write(2); returns whether the line was written. */
export type MarkerOutput = (line: string) => boolean;

/** Error codes after which the next line is tried again. After any other error, no more lines are written. */
const PASSING = new Set(['EBADF', 'EMFILE', 'ENFILE', 'ENOMEM', 'EINTR']);

/**
 * Creates an output that opens `path` at the first line and keeps it open. The output never throws: labels must not
 * break a program.
 */
export function createMarkerOutput(path = '/dev/null'): MarkerOutput {
  let fd: number | undefined;
  let given = true;
  const write = (line: string) => {
    if (!given) return false;
    try {
      // Neither creates nor truncates the file: if /dev/null is missing, no regular file must be created at its path.
      fd ??= openSync(path, constants.O_WRONLY);
      writeSync(fd, line);
      return true;
    } catch (error) {
      fd = undefined;
      given = PASSING.has((error as NodeJS.ErrnoException).code ?? '');
      return false;
    }
  };
  // Tries twice: the program may have closed the descriptor, and the second try opens the file again.
  return (line) => write(line) || write(line);
}
