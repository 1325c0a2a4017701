/**
 * Failures of the machine around kreplay, such as a full disk. They are not bugs: a command says in one line what
 * failed and what to do, without a stack.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UserError } from './errors.ts';

const CHECK_PATH = 'check the path, and owner and mode of the folders in it';

const ADVICE: Readonly<Record<string, string>> = {
  ENOSPC: 'no space is left there: free some',
  EDQUOT: 'the quota is used up: free some space',
  EFBIG: 'the file would be larger than is allowed: see ulimit -f',
  EIO: 'check the disk and the kernel log',
  ENXIO: 'the device is gone',
  ESTALE: 'the file system has to be mounted again',
  EROFS: 'the file system is mounted read-only: choose another place',
  EMFILE: 'too many files are open: raise the limit, see ulimit -n',
  ENFILE: 'too many files are open on this machine: raise fs.file-max',
  ENOMEM: 'there is too little memory',
  EAGAIN: 'too many processes or threads are running: raise the limit, see ulimit -u',
  EACCES: CHECK_PATH,
  EPERM: CHECK_PATH,
  ENOENT: CHECK_PATH,
  ENOTDIR: CHECK_PATH,
  EISDIR: CHECK_PATH,
  ELOOP: CHECK_PATH,
  ENAMETOOLONG: 'choose a shorter path',
};

/** Whether a system call failed because of the state of this machine, not because of wrong arguments. */
export function isOfSurroundings(error: unknown): error is NodeJS.ErrnoException {
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  return error instanceof Error && typeof syscall === 'string' && code !== undefined && Object.hasOwn(ADVICE, code);
}

/** Converts a failure of the surroundings to a UserError; returns any other error unchanged. */
export function toUserError(error: unknown): unknown {
  return isOfSurroundings(error) ? new UserError(`${error.message}: ${ADVICE[error.code!]}`, { cause: error }) : error;
}

/** Makes an empty folder for use by this process only; the caller removes it. Throws a UserError. */
export function createPrivateFolder(prefix: string, place?: string): string {
  const folder = place ?? tmpdir();
  try {
    return mkdtempSync(join(folder, prefix));
  } catch (error) {
    if (!isOfSurroundings(error)) throw error;
    const choice = place === undefined ? 'set TMPDIR to a folder that exists and can be written' : 'choose another';
    throw new UserError(`no folder can be made in ${folder}: ${choice} (${error.message})`, { cause: error });
  }
}
