/**
 * The key that signs a release. It is either a key in gpg's home folder, or a temporary key that is created for this
 * release and destroyed afterwards.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nameOfThisProcess, removeAbandoned } from './abandoned.ts';
import { call, ProgramFailed, ReleaseError } from './programs.ts';

const HOME_PREFIX = 'kreplay-signing-';

export interface SigningKey {
  fingerprint: string;
  /** Whether the key was created for this release only. */
  isTemporary: boolean;
  /** The public key in ASCII armour, the format that apt and gpg read. */
  publicPart: Buffer;
  /** Returns a detached signature of the content. */
  sign(content: Uint8Array): Promise<Buffer>;
  /** Returns the text with an inline signature. */
  signInline(text: string): Promise<Buffer>;
  /** Destroys a temporary key. */
  close(): Promise<void>;
}

/**
 * Opens the key with this name, or creates a temporary key if `name` is undefined.
 * @throws ReleaseError if gpg has no such key, or the key cannot sign
 */
export async function openSigningKey(name: string | undefined, version: string): Promise<SigningKey> {
  if (name === undefined) return makeTemporaryKey(version);
  // A CI system may set SIGNING_KEY to an empty text by mistake. This must not lead to a release with a temporary key.
  if (name === '')
    throw new ReleaseError(
      'SIGNING_KEY is empty: name a key of gpg, or leave SIGNING_KEY out for a key of this release only',
    );
  const key = await readKey(await findKey(name), [], false);
  try {
    // A trial signature finds problems, such as a missing passphrase, before the build starts.
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
  // The folder is in /tmp, because a path below the project could be too long for the socket of gpg's agent.
  removeAbandoned(tmpdir(), HOME_PREFIX);
  const home = join(tmpdir(), nameOfThisProcess(HOME_PREFIX));
  mkdirSync(home, { mode: 0o700 });
  const where = ['--homedir', home];
  const destroy = async () => {
    // gpg has started an agent, which has the key in memory.
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

/** Letters in gpg's second column (validity) for keys that are not usable. */
const USELESS: Readonly<Record<string, string>> = {
  e: 'has expired',
  r: 'is revoked',
  d: 'is disabled',
  i: 'is not valid',
};

/** Matches a plain email address. gpg would also find it as part of longer addresses. */
const ADDRESS = /^[^\s<>=@]+@[^\s<>@]+$/;

async function findKey(name: string): Promise<string> {
  // In angle brackets, gpg compares the whole address.
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

/** Lists the secret keys. The columns of gpg's output are described in gpg's file DETAILS. */
async function listSecretKeys(options: readonly string[], ...names: string[]): Promise<SecretKey[]> {
  const list = await call('gpg', [...options, '--batch', '--with-colons', '--list-secret-keys', '--', ...names]);
  const rows = list
    .toString()
    .split('\n')
    .map((line) => line.split(':'));
  return rows.flatMap(([kind, validity = ''], i) => {
    if (kind !== 'sec') return [];
    // The first `fpr` line after a `sec` line is the key's own; the lines of its subkeys follow later.
    return [{ validity, fingerprint: rows.slice(i).find(([one]) => one === 'fpr')![9]! }];
  });
}
