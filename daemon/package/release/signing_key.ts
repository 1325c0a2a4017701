/** The key that signs a release: one of gpg's home, or one that is made for this release and destroyed after it. */
import { mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nameOfThisProcess, removeAbandoned } from './abandoned.ts';
import { call, ProgramFailed, ReleaseError } from './programs.ts';

const HOME_PREFIX = 'kreplay-signing-';

export interface SigningKey {
  fingerprint: string;
  /** Whether the key was made for this release only. */
  isTemporary: boolean;
  /** The public part, in ASCII, as apt and gpg read it. */
  publicPart: Buffer;
  /** Returns the signature alone. */
  sign(content: Uint8Array): Promise<Buffer>;
  /** Returns the text together with its signature. */
  signInline(text: string): Promise<Buffer>;
  /** Destroys a temporary key. */
  close(): Promise<void>;
}

/** @throws ReleaseError if gpg has no such key, or the key cannot sign */
export async function openSigningKey(name: string | undefined, version: string): Promise<SigningKey> {
  if (name === undefined) return makeTemporaryKey(version);
  // A variable that a CI system did not set must not lead to a release with a key that proves nothing.
  if (name === '')
    throw new ReleaseError(
      'SIGNING_KEY is empty: name a key of gpg, or leave SIGNING_KEY out for a key of this release only',
    );
  const key = await readKey(await findKey(name), [], false);
  try {
    // Whatever keeps the key from signing, such as a passphrase, is found before the build.
    await key.sign(Buffer.from(version));
  } catch (error) {
    if (!(error instanceof ProgramFailed)) throw error;
    throw new ReleaseError(
      `the key ${name} does not sign; if it has a passphrase, gpg asks for it after export GPG_TTY=$(tty). The words of gpg: ${error.message}`,
    );
  }
  return key;
}

async function makeTemporaryKey(version: string): Promise<SigningKey> {
  // A path of its own below the project could be too long for the socket of gpg's agent.
  removeAbandoned(tmpdir(), HOME_PREFIX);
  const home = join(tmpdir(), nameOfThisProcess(HOME_PREFIX));
  mkdirSync(home, { mode: 0o700 });
  const where = ['--homedir', home];
  const destroy = async () => {
    // gpg has started an agent, which knows the key.
    await call('gpgconf', [...where, '--kill', 'all']).catch(() => {});
    rmSync(home, { recursive: true, force: true });
  };
  try {
    const person = `kreplay ${version}, for the folder beside this key only`;
    const quiet = ['--batch', '--quiet', '--pinentry-mode', 'loopback', '--passphrase', ''];
    await call('gpg', [...where, ...quiet, '--quick-generate-key', person, 'ed25519', 'sign', 'never']);
    const [made] = await listSecretKeys(where);
    return { ...(await readKey(made!.fingerprint, [...where, '--batch'], true)), close: destroy };
  } catch (error) {
    await destroy();
    throw error;
  }
}

async function readKey(fingerprint: string, options: readonly string[], isTemporary: boolean): Promise<SigningKey> {
  const gpg = (input: string | Uint8Array | undefined, ...args: string[]) =>
    call('gpg', [...options, '--quiet', '--armor', ...args], input === undefined ? {} : { input });
  const signed = ['--local-user', fingerprint, '--digest-algo', 'SHA512', '--output', '-'];
  return {
    fingerprint,
    isTemporary,
    publicPart: await gpg(undefined, '--export-options', 'export-minimal', '--export', fingerprint),
    sign: (content) => gpg(content, ...signed, '--detach-sign'),
    signInline: (text) => gpg(text, ...signed, '--clear-sign'),
    close: async () => {},
  };
}

/** Letters by which gpg calls a key of no use, of the second column. */
const USELESS: Readonly<Record<string, string>> = {
  e: 'has expired',
  r: 'is revoked',
  d: 'is disabled',
  i: 'is not valid',
};

/** An address alone, which gpg would find within longer addresses too. */
const ADDRESS = /^[^\s<>=@]+@[^\s<>@]+$/;

async function findKey(name: string): Promise<string> {
  // Between angle brackets gpg compares the whole address.
  const asked = ADDRESS.test(name) ? `<${name}>` : name;
  let found: SecretKey[];
  try {
    found = await listSecretKeys([], asked);
  } catch (error) {
    if (!(error instanceof ProgramFailed)) throw error;
    throw new ReleaseError(
      `gpg does not give a secret key ${name}: gpg --list-secret-keys shows its keys; without SIGNING_KEY a key is made for this release only. The words of gpg: ${error.message}`,
    );
  }
  const fingerprints = found.map(({ fingerprint }) => fingerprint);
  if (found.length > 1)
    throw new ReleaseError(
      `${found.length} keys of gpg have the name ${name}: give a fingerprint: ${fingerprints.join(', ')}`,
    );
  const useless = USELESS[found[0]!.validity];
  if (useless !== undefined)
    throw new ReleaseError(`the key ${fingerprints[0]} ${useless}, so apt refuses what it signs: name another key`);
  return fingerprints[0]!;
}

interface SecretKey {
  fingerprint: string;
  validity: string;
}

/** Lists keys with a secret part, from the columns that gpg's DETAILS describes. */
async function listSecretKeys(options: readonly string[], ...names: string[]): Promise<SecretKey[]> {
  const list = await call('gpg', [...options, '--batch', '--with-colons', '--list-secret-keys', '--', ...names]);
  const rows = list
    .toString()
    .split('\n')
    .map((line) => line.split(':'));
  return rows.flatMap(([kind, validity = ''], i) => {
    if (kind !== 'sec') return [];
    // Keys below a key have lines of their own, after the lines of the key.
    return [{ validity, fingerprint: rows.slice(i).find(([one]) => one === 'fpr')![9]! }];
  });
}
