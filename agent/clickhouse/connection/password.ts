/**
 * Reads passwords and keys from files that only their owner can read. Error messages never quote the files' contents.
 */
import { closeSync, constants, existsSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../process/errors.ts';

const PASSWORD_BYTES_MAX = 4096;
const KEY_BYTES_MAX = 65_536;

/**
 * Environment variable with the path of the folder in which systemd stores a service's credentials. Other users cannot
 * read this folder.
 */
const CREDENTIALS_VARIABLE = 'CREDENTIALS_DIRECTORY';

/**
 * Reads a password. A path without a folder is first looked up among the service's credentials. Throws a UserError if
 * the file is missing, is open to other users, or belongs to another user.
 */
export function readPassword(path: string, environment: NodeJS.ProcessEnv = process.env): string {
  const text = readSecret(path, { bytesMax: PASSWORD_BYTES_MAX, what: 'a password' }, environment).toString();
  const password = text.replace(/\r?\n$/, '');
  // These characters would end the header that contains the password.
  if (/[\r\n\0]/.test(password)) throw new UserError(`${path} has more than one line: it must hold the password alone`);
  return password;
}

/** Reads a key; finds the file and throws like `readPassword`. */
export function readKey(path: string, environment: NodeJS.ProcessEnv = process.env): Buffer {
  return readSecret(path, { bytesMax: KEY_BYTES_MAX, what: 'a key' }, environment);
}

interface SecretKind {
  bytesMax: number;
  what: string;
}

function readSecret(path: string, kind: SecretKind, environment: NodeJS.ProcessEnv): Buffer {
  const folder = environment[CREDENTIALS_VARIABLE];
  const credential = folder && !path.includes('/') ? join(folder, path) : undefined;
  const isCredential = credential !== undefined && existsSync(credential);
  return readClosed(isCredential ? credential : path, kind, isCredential);
}

function readClosed(path: string, kind: SecretKind, isCredential: boolean): Buffer {
  let fd: number | undefined;
  try {
    // O_NONBLOCK keeps `openSync` from waiting for the other end of a pipe.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    check(path, fd, kind, isCredential);
    return readFileSync(fd);
  } catch (error) {
    if (error instanceof UserError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new UserError(code === 'ENOENT' ? `there is no ${path}` : `cannot use ${path}: ${code}`);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** Checks the file that is already open, so that nobody can substitute another file of the same name. */
function check(path: string, fd: number, { bytesMax, what }: SecretKind, isCredential: boolean): void {
  const { mode, uid, size } = fstatSync(fd);
  if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw new UserError(`${path} is not a file`);
  if (size > bytesMax) throw new UserError(`${path} is too large for ${what}`);
  if (isCredential) return;
  if ((mode & 0o077) !== 0) throw new UserError(`${path} is open to other users: \`chmod 600 ${path}\` closes it`);
  if (uid !== 0 && uid !== process.geteuid!()) throw new UserError(`${path} belongs to another user`);
}
