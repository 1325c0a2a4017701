/** The tokens of a running daemon. Every use checks whether the file has changed, so a change takes effect at once. */

import { statSync } from 'node:fs';
import type { Logger } from 'pino';
import { ConfigError } from '../../../agent/process/errors.ts';
import { findSecretFile } from '../../../agent/process/secret_file.ts';
import type { Scope } from '../../contract/words.ts';
import { findHash, hashSecret, isSecret } from './token.ts';
import { readTokenFile, type StoredToken, TokenFileError } from './token_file.ts';

export interface Token {
  readonly name: string;
  readonly hash: Buffer;
  readonly scopes: ReadonlySet<Scope>;
  /** Null if the token never expires. */
  readonly expiresMs: number | null;
}

export interface Tokens {
  /** Finds the token that has this secret; returns undefined if there is no such token or it has expired. */
  find(secret: string): Token | undefined;
  /** Whether a token that was found earlier is still valid and still has its scopes. */
  isGood(token: Token): boolean;
  /** Reads the file even if it looks unchanged. */
  reload(): void;
}

interface Options {
  path: string;
  /** Wall clock in milliseconds. */
  nowMs: () => number;
  log: Logger;
}

/**
 * Opens the token file. Throws a ConfigError if the file is unusable. If it becomes unusable later, the error is
 * logged, and the tokens stay as they are.
 */
export function openTokens({ path: given, nowMs, log }: Options): Tokens {
  const { path } = findSecretFile(given);
  let seen = readFileState(path);
  let tokens = readAtStart(path).map(toToken);
  if (tokens.length === 0) log.warn({ tokens: path }, 'there are no tokens: every client is refused');

  function read(state: string): void {
    // `seen` is also set if reading fails, so that the log has one line for each change of the file.
    seen = state;
    try {
      tokens = readTokenFile(path).map(toToken);
      log.info({ tokens: path, count: tokens.length }, 'tokens were read again');
    } catch (error) {
      if (!(error instanceof TokenFileError)) throw error;
      log.error({ tokens: path, reason: error.message }, 'tokens stay as they were: the file cannot be used');
    }
  }

  function refresh(): void {
    const state = readFileState(path);
    if (state !== seen) read(state);
  }

  const isInTime = ({ expiresMs }: Token) => expiresMs === null || nowMs() < expiresMs;

  return {
    find(secret) {
      refresh();
      if (!isSecret(secret)) return undefined;
      const token = findHash(tokens, hashSecret(secret));
      return token && isInTime(token) ? token : undefined;
    },
    isGood(token) {
      refresh();
      const now = findHash(tokens, token.hash);
      return now !== undefined && isInTime(now) && [...token.scopes].every((scope) => now.scopes.has(scope));
    },
    reload() {
      read(readFileState(path));
    },
  };
}

function readAtStart(path: string): StoredToken[] {
  try {
    return readTokenFile(path);
  } catch (error) {
    throw error instanceof TokenFileError ? new ConfigError(error.message) : error;
  }
}

function toToken({ name, sha256, scopes, expires_at }: StoredToken): Token {
  return {
    name,
    hash: Buffer.from(sha256, 'hex'),
    scopes: new Set(scopes),
    expiresMs: expires_at === null ? null : Date.parse(expires_at),
  };
}

/** Returns a text that changes when the file is written, replaced or removed, or when its mode changes. */
function readFileState(path: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join();
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}
