/** Tokens as they are shown and as they are known: the secret is only ever with the client, its hash with us. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

export const SCOPES = ['events:read', 'replay:control'] as const;
export type Scope = (typeof SCOPES)[number];

/** So that whoever looks for leaked secrets can tell one of ours. */
const PREFIX = 'krp_';
const SECRET_BYTES = 32;
const SECRET = /^krp_[\w-]{43}$/;

export function newSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64url')}`;
}

export function isSecret(text: string): boolean {
  return SECRET.test(text);
}

/** A fast hash will do: nobody guesses 256 random bits. */
export function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** All are compared, and each to its end: how long it takes says nothing about any of them. */
export function findHash<Known extends { hash: Buffer }>(known: readonly Known[], hash: Buffer): Known | undefined {
  let found: Known | undefined;
  for (const one of known) if (timingSafeEqual(one.hash, hash)) found = one;
  return found;
}
