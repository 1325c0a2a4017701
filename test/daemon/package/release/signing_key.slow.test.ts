/** Tests the keys that sign a release with Debian's gpg, and its judge of signatures, gpgv. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSigningKey, type SigningKey } from '../../../../daemon/package/release/signing_key.ts';

const environment = { ...process.env };
const keys: SigningKey[] = [];
let folder: string;

beforeEach(() => {
  // Its path is short, as a socket lies in it, and has a blank.
  folder = mkdtempSync(join(tmpdir(), 'a home-'));
  process.env.GNUPGHOME = folder;
});

afterEach(async () => {
  for (const key of keys.splice(0)) await key.close();
  spawnSync('gpgconf', ['--homedir', folder, '--kill', 'all']);
  rmSync(folder, { recursive: true });
  process.env = { ...environment };
});

async function open(name?: string): Promise<SigningKey> {
  const key = await openSigningKey(name, '0.1.0');
  keys.push(key);
  return key;
}

const gpg = (...args: string[]) =>
  execFileSync('gpg', ['--batch', '--quiet', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

const makeKey = (name: string, passphrase: string, expires: string) => {
  const quiet = ['--pinentry-mode', 'loopback', '--passphrase', passphrase];
  gpg(...quiet, '--quick-generate-key', name, 'ed25519', 'sign', expires);
};

/** Returns the exit code of gpgv for a signature by a key. */
function judge(key: SigningKey, ...files: [name: string, content: Uint8Array | string][]): number | null {
  const ring = join(folder, 'ring.gpg');
  writeFileSync(ring, execFileSync('gpg', ['--dearmor'], { input: key.publicPart }));
  for (const [name, content] of files) writeFileSync(join(folder, name), content);
  const paths = files.map(([name]) => join(folder, name));
  return spawnSync('gpgv', ['--keyring', ring, ...paths]).status;
}

const homes = () => readdirSync(tmpdir()).filter((name) => name.startsWith('kreplay-signing-'));

test('without a name a key signs that is gone afterwards, with its home and its agent', async () => {
  const key = await open();
  expect([key.isTemporary, homes()]).toEqual([true, [`kreplay-signing-${process.pid}`]]);
  const text = Buffer.from('text\n');
  const signature = await key.sign(text);
  expect(judge(key, ['signature', signature], ['text', text])).toBe(0);
  expect(judge(key, ['signature', signature], ['text', 'texu\n'])).toBe(1);
  const inline = (await key.signInline('text\n')).toString();
  expect(judge(key, ['inline', inline])).toBe(0);
  expect(judge(key, ['inline', inline.replace('\ntext\n', '\ntexu\n')])).toBe(1);
  const home = join(tmpdir(), homes()[0]!);
  const agents = () => spawnSync('pgrep', ['--full', `gpg-agent .*${home}`], { encoding: 'utf8' }).stdout;
  expect(agents()).not.toBe('');
  await key.close();
  expect(homes()).toEqual([]);
  while (agents() !== '') await new Promise((next) => setTimeout(next, 20));
  expect(gpg('--list-keys')).toBe('');
});

test('the key of a process that was killed is removed by the next', async () => {
  const ended = spawnSync('true').pid;
  mkdirSync(join(tmpdir(), `kreplay-signing-${ended}`));
  await open();
  expect(homes()).toEqual([`kreplay-signing-${process.pid}`]);
});

test.each(['keeper@example.com', 'Keeper of releases'])('a key of gpg is found by %s, and signs', async (name) => {
  makeKey('Keeper of releases <keeper@example.com>', '', 'never');
  const key = await open(name);
  expect([key.isTemporary, homes()]).toEqual([false, []]);
  const text = Buffer.from('text\n');
  expect(judge(key, ['signature', await key.sign(text)], ['text', text])).toBe(0);
  expect(key.publicPart.toString()).toMatch(/^-----BEGIN PGP PUBLIC KEY BLOCK-----\n/);
});

test('an address finds its own key beside one whose address ends with it', async () => {
  makeKey('pre-releases@example.com', '', 'never');
  await expect(open('releases@example.com')).rejects.toThrow('gpg does not give a secret key releases@example.com');
  makeKey('Keeper <releases@example.com>', '', 'never');
  const key = await open('releases@example.com');
  expect(gpg('--list-keys', key.fingerprint)).toContain('Keeper <releases@example.com>');
});

describe('a key is refused in words', () => {
  test.each([
    [
      'that gpg does not have',
      'none@example.com',
      'gpg does not give a secret key none@example.com: gpg --list-secret-keys',
    ],
    ['of which the name is a part only', 'ne@example.com', 'gpg does not give a secret key ne@example.com'],
    ['whose name is an option', '--version', 'gpg does not give a secret key --version'],
    ['without a name', '', 'SIGNING_KEY is empty: name a key of gpg, or leave SIGNING_KEY out'],
    [
      'that is one of several',
      'example.com',
      /2 keys of gpg have the name example.com: give a fingerprint: \w{40}, \w{40}/,
    ],
  ])('%s', async (_, name, words) => {
    makeKey('one@example.com', '', 'never');
    makeKey('two@example.com', '', 'never');
    await expect(open(name)).rejects.toThrow(words);
  });

  test('that gpg cannot look for, with what gpg says', async () => {
    process.env.GNUPGHOME = join(folder, 'no folder');
    writeFileSync(process.env.GNUPGHOME, '');
    await expect(open('one@example.com')).rejects.toThrow(/The words of gpg: .*Not a directory/s);
  });

  test('that has expired', async () => {
    makeKey('old@example.com', '', 'seconds=1');
    await new Promise((next) => setTimeout(next, 2100));
    await expect(open('old@example.com')).rejects.toThrow(/the key \w{40} has expired, so apt refuses/);
  });

  test('whose passphrase no terminal can be asked for', async () => {
    makeKey('locked@example.com', 'secret', 'never');
    spawnSync('gpgconf', ['--kill', 'all']);
    await expect(open('locked@example.com')).rejects.toThrow('the key locked@example.com does not sign');
  });

  test('where gpg is not installed', async () => {
    process.env.PATH = folder;
    await expect(open()).rejects.toThrow('gpg is not installed; as root: apt-get install gpg gpg-agent');
    expect(existsSync(join(tmpdir(), `kreplay-signing-${process.pid}`))).toBe(false);
  });
});
