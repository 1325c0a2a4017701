/** The errors of export and import. Each message is one line that says what to do next; the exit code is 1. */
import { UserError } from '../../agent/process/errors.ts';
import { isOfSurroundings } from '../../agent/process/surroundings.ts';

export class ExportError extends UserError {
  override readonly name = 'ExportError';
}

/** The error of an operation that the caller aborted. */
export class Interrupted extends UserError {
  override readonly name = 'Interrupted';

  constructor() {
    super('interrupted');
  }
}

const NO_SPACE = /^(ENOSPC|EDQUOT|SQLITE_FULL)/;
const NOT_WRITABLE = /^(EACCES|EPERM|EROFS|EISDIR|SQLITE_(CANTOPEN|READONLY|PERM))/;
const IO_FAILED = /^(EIO|EFBIG|SQLITE_IOERR)/;

/** Converts a failure to write `path` to an ExportError; returns any other error unchanged. */
export function toWriteError(error: unknown, path: string): unknown {
  const { code, message } = error as { code?: unknown; message?: string };
  if (error instanceof ExportError || typeof code !== 'string') return error;
  const createError = (advice: string) => new ExportError(`${path}: ${advice} (${message})`, { cause: error });
  if (NO_SPACE.test(code)) return createError('no space is left on the device: free some, or write elsewhere');
  if (NOT_WRITABLE.test(code)) return createError('it cannot be written: check owner and mode of its folder');
  if (code === 'ENOENT' || code === 'ENOTDIR') return createError('its folder does not exist: create it');
  if (code === 'EEXIST') return createError('something else has this name: move it away');
  if (IO_FAILED.test(code)) return createError('writing failed: check the disk and the kernel log');
  return isOfSurroundings(error) ? createError('it cannot be written') : error;
}

/** Runs `work`, which only reads `path`, and converts its system errors to ExportErrors. */
export function runWithReadErrors<Result>(path: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (!isOfSurroundings(error)) throw error;
    const advice = 'it cannot be reached: check the path, and owner and mode of the folders in it';
    throw new ExportError(`${path}: ${advice} (${error.message})`, { cause: error });
  }
}

export function runWithWriteErrors<Result>(path: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw toWriteError(error, path);
  }
}
