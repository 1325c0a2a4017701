/** Where marker lines go. */
import { constants, openSync, writeSync } from 'node:fs';

/** Gives whether the line was written: on this thread, as one write. */
export type MarkerOutput = (line: string) => boolean;

/** These may be gone the next time. */
const PASSING = new Set(['EBADF', 'EMFILE', 'ENFILE', 'ENOMEM', 'EINTR']);

/** `path` is /dev/null, opened with the first line and kept. It never throws: labels are not worth a program. */
export function createMarkerOutput(path = '/dev/null'): MarkerOutput {
  let fd: number | undefined;
  let given = true;
  const write = (line: string) => {
    if (!given) return false;
    try {
      // Neither created nor truncated: where there is no /dev/null, no file shall take its place.
      fd ??= openSync(path, constants.O_WRONLY);
      writeSync(fd, line);
      return true;
    } catch (error) {
      fd = undefined;
      given = PASSING.has((error as NodeJS.ErrnoException).code ?? '');
      return false;
    }
  };
  // Someone may have closed the file: the second try opens it again.
  return (line) => write(line) || write(line);
}
