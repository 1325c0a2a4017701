/** Reads a password from a file that only its owner can read. No message quotes its contents. */
import { closeSync, constants, existsSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../process/errors.ts';

const BYTES_MAX = 4096;

/** systemd gives a service its credentials in this folder, which it closes to all others. */
const CREDENTIALS_VARIABLE = 'CREDENTIALS_DIRECTORY';

/**
 * A name without a folder is a credential of the service, if it has one of that name. Throws a UserError if the file is
 * missing or open to others.
 */
export function readPassword(path: string, environment: NodeJS.ProcessEnv = process.env): string {
  const folder = environment[CREDENTIALS_VARIABLE];
  const credential = folder && !path.includes('/') ? join(folder, path) : undefined;
  const isCredential = credential !== undefined && existsSync(credential);
  const text = readClosed(isCredential ? credential : path, isCredential);
  const password = text.replace(/\r?\n$/, '');
  // Both would end the header that carries it.
  if (/[\r\n\0]/.test(password)) throw new UserError(`${path} has more than one line: it must hold the password alone`);
  return password;
}

function readClosed(path: string, isCredential: boolean): string {
  let fd: number | undefined;
  try {
    // O_NONBLOCK, because opening a pipe would wait for its other end.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    check(path, fd, isCredential);
    return readFileSync(fd, 'utf8');
  } catch (error) {
    if (error instanceof UserError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new UserError(code === 'ENOENT' ? `there is no ${path}` : `cannot use ${path}: ${code}`);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** Checks the opened file, so that another one under the same name cannot slip in between. */
function check(path: string, fd: number, isCredential: boolean): void {
  const { mode, uid, size } = fstatSync(fd);
  if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw new UserError(`${path} is not a file`);
  if (size > BYTES_MAX) throw new UserError(`${path} is too large for a password`);
  if (isCredential) return;
  if ((mode & 0o077) !== 0) throw new UserError(`${path} is open to other users: \`chmod 600 ${path}\` closes it`);
  if (uid !== 0 && uid !== process.geteuid!()) throw new UserError(`${path} belongs to another user`);
}
