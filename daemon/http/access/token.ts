/** The secret and the stored form of tokens: only the client has the secret, and the daemon stores its hash. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** A prefix by which scanners for leaked secrets can recognize the token. */
const PREFIX = 'krp_';
const SECRET_BYTES = 32;
const SECRET = /^krp_[\w-]{43}$/;

export function createSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64url')}`;
}

export function isSecret(text: string): boolean {
  return SECRET.test(text);
}

/** A fast hash is sufficient, because 256 random bits are impossible to guess. */
export function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** Compares all hashes, each in constant time, so that the duration reveals nothing about any hash. */
export function findHash<Known extends { hash: Buffer }>(known: readonly Known[], hash: Buffer): Known | undefined {
  let found: Known | undefined;
  for (const one of known) if (timingSafeEqual(one.hash, hash)) found = one;
  return found;
}
