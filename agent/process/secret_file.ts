/**
 * Reads secrets from files that only their owner can read. Error messages never quote the files' contents.
 */
import { closeSync, constants, existsSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { ConfigError } from './errors.ts';

const PASSWORD_BYTES_MAX = 4096;
const KEY_BYTES_MAX = 65_536;

/**
 * Environment variable with the path of the folder in which systemd stores a service's credentials (`LoadCredential=`).
 * Other users cannot read this folder.
 */
const CREDENTIALS_VARIABLE = 'CREDENTIALS_DIRECTORY';

export interface SecretFile {
  path: string;
  /** Whether systemd stored the file for this service. */
  isCredential: boolean;
}

/** Finds the file of a secret. A path without a folder is first looked up among the service's credentials. */
export function findSecretFile(path: string, environment: NodeJS.ProcessEnv = process.env): SecretFile {
  const folder = environment[CREDENTIALS_VARIABLE];
  if (!folder) return { path, isCredential: false };
  const credential = join(folder, path);
  if (!path.includes('/') && existsSync(credential)) return { path: credential, isCredential: true };
  return { path, isCredential: dirname(resolve(path)) === resolve(folder) };
}

interface SecretKind {
  /** Names the content in error messages, such as `a password`. */
  what: string;
  bytesMax: number;
  /** How to make a missing file. */
  creation?: string;
  /** Whether the file may belong to the user with this id; the default is root and the process's own user. */
  isOwner?: (uid: number) => boolean;
}

/**
 * Reads a secret from the file that `findSecretFile` finds. Throws a ConfigError if the file is missing, is open to
 * other users, or belongs to another user. Owner and mode of a credential are systemd's choice, so these are not
 * checked: the group may read a credential's file in a folder that is closed to the group.
 */
export function readSecretFile(
  given: string,
  { what, bytesMax, creation, isOwner = isOwnOrRoots }: SecretKind,
  environment: NodeJS.ProcessEnv = process.env,
): Buffer {
  const { path, isCredential } = findSecretFile(given, environment);
  let fd: number | undefined;
  try {
    // O_NONBLOCK keeps `openSync` from waiting for the other end of a pipe.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    // The file that is already open is checked, so that nobody can substitute another file of the same name.
    const { mode, uid, size } = fstatSync(fd);
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw new ConfigError(`${path} is not a file`);
    if (!isCredential && (mode & 0o077) !== 0)
      throw new ConfigError(`${path} is open to other users: \`chmod 600 ${path}\` closes it`);
    // Root could read another user's file, but then that user would know or choose the secret.
    if (!isCredential && !isOwner(uid)) throw new ConfigError(`${path} belongs to another user`);
    if (size > bytesMax) throw new ConfigError(`${path} is too large for ${what}`);
    return readFileSync(fd);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') throw new ConfigError(`cannot use ${path}: ${code}`);
    throw new ConfigError(creation === undefined ? `there is no ${path}` : `there is no ${path}: ${creation}`);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

export function isOwnOrRoots(uid: number): boolean {
  return uid === 0 || uid === process.geteuid!();
}

/** Reads a password; finds the file and throws like `readSecretFile`. */
export function readPassword(path: string, environment?: NodeJS.ProcessEnv): string {
  const text = readSecretFile(path, { what: 'a password', bytesMax: PASSWORD_BYTES_MAX }, environment).toString();
  const password = text.replace(/\r?\n$/, '');
  // These characters would end the header that contains the password.
  if (/[\r\n\0]/.test(password))
    throw new ConfigError(`${path} has more than one line: it must hold the password alone`);
  return password;
}

/** Reads a key; finds the file and throws like `readSecretFile`. */
export function readKey(path: string, environment?: NodeJS.ProcessEnv): Buffer {
  return readSecretFile(path, { what: 'a key', bytesMax: KEY_BYTES_MAX }, environment);
}
