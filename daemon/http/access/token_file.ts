/** The file of tokens: names, hashes, scopes. Error messages never quote its contents. */

import {
  closeSync,
  fchownSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { z } from 'zod';
import { ConfigError, UserError } from '../../../agent/process/errors.ts';
import { findSecretFile, isOwnOrRoots, readSecretFile } from '../../../agent/process/secret_file.ts';
import { SCOPES } from '../../contract/words.ts';

/** An unusable token file. The message is the single line that the user sees. */
export class TokenFileError extends UserError {
  override readonly name = 'TokenFileError';
}

const TOKENS_MAX = 1000;
const BYTES_MAX = 1024 * 1024;
const TOKEN_NAME = /^[\w.-]{1,64}$/;
export const NAME_RULE = 'up to 64 letters, digits, ".", "_" and "-"';

const storedToken = z.strictObject({
  name: z.string().regex(TOKEN_NAME),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  scopes: z.array(z.enum(SCOPES)).min(1),
  created_at: z.iso.datetime(),
  expires_at: z.iso.datetime().nullable(),
});
export type StoredToken = z.infer<typeof storedToken>;

const tokenFile = z.strictObject({ version: z.literal(1), tokens: z.array(storedToken).max(TOKENS_MAX) });

export function isTokenName(text: string): boolean {
  return TOKEN_NAME.test(text);
}

/**
 * Reads the tokens. Throws a TokenFileError if the file is missing, if other users may read or change it, or if it is
 * not a list of tokens.
 */
export function readTokenFile(path: string): StoredToken[] {
  return readTokens(path, isOwnOrRoots);
}

/** Reads the file for inspection: root may see what another user's daemon reads. */
export function viewTokenFile(path: string): StoredToken[] {
  return readTokens(path, (uid) => process.geteuid!() === 0 || isOwnOrRoots(uid));
}

function readTokens(given: string, isOwner: (uid: number) => boolean): StoredToken[] {
  const { path } = findSecretFile(given);
  try {
    const kind = { what: 'a list of tokens', bytesMax: BYTES_MAX, creation: describeTokenCreation(path), isOwner };
    return parseTokens(path, readSecretFile(path, kind).toString());
  } catch (error) {
    throw error instanceof ConfigError ? new TokenFileError(error.message) : error;
  }
}

function parseTokens(path: string, text: string): StoredToken[] {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new TokenFileError(`${path} is not JSON`);
  }
  const { data, error } = tokenFile.safeParse(json);
  if (!data) {
    const [issue] = error.issues;
    throw new TokenFileError(`${path} is not a list of tokens: ${issue!.code} at /${issue!.path.join('/')}`);
  }
  const countDistinct = (key: 'name' | 'sha256') => new Set(data.tokens.map((token) => token[key])).size;
  if (countDistinct('name') < data.tokens.length || countDistinct('sha256') < data.tokens.length)
    throw new TokenFileError(`${path} has a token twice`);
  return data.tokens;
}

/**
 * Replaces the file with the tokens that `change` returns. The new file is written next to it and renamed, so that
 * readers see either the old or the new version. Creating the new file also serves as a lock between writers.
 */
export function changeTokenFile(path: string, change: (tokens: readonly StoredToken[]) => StoredToken[]): void {
  const before = statSync(path, { throwIfNoEntry: false });
  // Symbolic links are resolved, so that the link itself is kept.
  const target = before ? realpathSync(path) : path;
  const lock = `${target}.lock`;
  let fd: number;
  try {
    fd = openSync(lock, 'wx', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw toTokenFileError(path, error);
    throw new TokenFileError(`${path} is being changed by another process: if there is none, remove ${lock}`);
  }
  let renamed = false;
  try {
    const tokens = change(before ? viewTokenFile(target) : []);
    if (tokens.length > TOKENS_MAX) throw new TokenFileError(`${path} is full: ${TOKENS_MAX} tokens are the most`);
    // Root may change the token file of the daemon's user, and that user must still be able to read it.
    if (before && before.uid !== process.geteuid!()) fchownSync(fd, before.uid, before.gid);
    writeSync(fd, `${JSON.stringify({ version: 1, tokens }, null, 2)}\n`);
    fsyncSync(fd);
    renameSync(lock, target);
    renamed = true;
  } catch (error) {
    throw toTokenFileError(path, error);
  } finally {
    closeSync(fd);
    if (!renamed) rmSync(lock, { force: true });
  }
}

/** Describes how to create a missing file. */
export function describeTokenCreation(path = 'FILE'): string {
  return `\`kreplay token create --name NAME --scope ${SCOPES[0]} --tokens ${path}\` makes one`;
}

function toTokenFileError(path: string, error: unknown): Error {
  if (error instanceof TokenFileError) return error;
  const { code } = error as NodeJS.ErrnoException;
  if (code === undefined) return error as Error;
  if (code === 'ENOENT') return new TokenFileError(`there is no ${path}: ${describeTokenCreation(path)}`);
  return new TokenFileError(`cannot use ${path}: ${code}`);
}
