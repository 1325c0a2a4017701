/** Tests what commits a release can be made from, and the archive of a commit's files, with repositories of git. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findReleaseDate } from '../../../../daemon/package/release/changelog.ts';
import { buildSourceArchive, readSource } from '../../../../daemon/package/release/source.ts';
import { newFolder } from '../../recorded.ts';
import { COMMIT_EPOCH_S, newRepository, type Repository, VERSION } from './repository.ts';

let repository: Repository;
beforeEach(() => {
  repository = newRepository(join(newFolder(), 'a clone'));
});

const head = () => repository.git('rev-parse', 'HEAD').trim();
const read = () => readSource(repository.path);

test('a clean clone gives version, commit, time and date', async () => {
  repository.write('build/anything', 'ignored');
  const { project, ...facts } = await read();
  expect(facts).toEqual({
    version: VERSION,
    commit: head(),
    epoch_s: COMMIT_EPOCH_S,
    date: undefined,
    isTagged: false,
  });
});

test('a signed commit gives the same facts to a user whose git shows signatures', async () => {
  // A socket of gpg's agent lies in the folder, so its path is short.
  const home = mkdtempSync(join(tmpdir(), 'home-'));
  process.env.GNUPGHOME = home;
  try {
    const quiet = ['--batch', '--quiet', '--passphrase', '', '--pinentry-mode', 'loopback'];
    execFileSync('gpg', [...quiet, '--quick-generate-key', 'person@example.com', 'ed25519', 'sign'], {
      stdio: 'ignore',
    });
    repository.gitWith(
      { GNUPGHOME: home },
      'commit',
      '--amend',
      '--no-edit',
      '--quiet',
      '--gpg-sign=person@example.com',
    );
    repository.git('config', 'log.showSignature', 'true');
    expect(await read()).toMatchObject({ commit: head(), epoch_s: COMMIT_EPOCH_S });
  } finally {
    spawnSync('gpgconf', ['--homedir', home, '--kill', 'all']);
    delete process.env.GNUPGHOME;
    rmSync(home, { recursive: true, force: true });
  }
});

test.each<[string, () => void, string]>([
  ['changed', () => repository.write('folder/text', 'three'), ' M folder/text'],
  ['new', () => repository.write('folder/other', ''), '?? folder/other'],
  ['removed', () => rmSync(join(repository.path, 'folder/text')), ' D folder/text'],
  [
    'added and not committed',
    () => {
      repository.write('b', '');
      repository.git('add', 'b');
    },
    'A  b',
  ],
  ['executable', () => chmodSync(join(repository.path, 'folder/text'), 0o755), ' M folder/text'],
])('a file that is %s is refused by its name, with the way on', async (_, change, line) => {
  change();
  await expect(read()).rejects.toThrow(`not as in the last one:\n  ${line}\ncommit them, or put them aside (git stash`);
});

test('of many changed files a message names some', async () => {
  for (let i = 0; i < 30; i++) repository.write(`new-${i}`, '');
  const error = await read().catch((one: Error) => one.message);
  expect(String(error).split('\n')).toHaveLength(13);
  expect(error).toContain('and 20 more');
});

test('a folder without a repository is refused, also one in the repository of something else', async () => {
  const outer = repository;
  outer.write('build/copy/package.json', '{}');
  await expect(readSource(join(outer.path, 'build/copy'))).rejects.toThrow('is not a clone of a git repository');
  rmSync(join(repository.path, '.git'), { recursive: true });
  await expect(read()).rejects.toThrow('is not a clone of a git repository');
});

test('attributes that the clone has of its own are refused, as they change the archive', async () => {
  repository.write('.git/info/attributes', 'folder export-ignore\n');
  await expect(read()).rejects.toThrow(
    `${join(repository.path, '.git/info/attributes')} changes what git puts into an archive, and is in no commit: move`,
  );
  rmSync(join(repository.path, '.git/info/attributes'));
  await expect(read()).resolves.toMatchObject({ commit: head() });
});

test.each(['light', 'annotated'])('a version whose %s tag names another commit is refused', async (kind) => {
  const options = kind === 'light' ? [] : ['--annotate', '--message', 'of this version'];
  repository.git('tag', ...options, `v${VERSION}`);
  const tagged = head();
  expect(await read()).toMatchObject({ commit: tagged, isTagged: true });
  repository.write('folder/text', 'three');
  repository.commit();
  await expect(read()).rejects.toThrow(`the tag v${VERSION} names another commit, ${tagged}: check that out`);
});

describe('the changelog', () => {
  const section = (heading: string, body = '- A change.\n') => `# Changelog\n\n${heading}\n\n### Added\n${body}`;

  test.each([
    ['## 0.1.0 - Unreleased', undefined],
    ['## 0.1.0 - 2026-12-01', '2026-12-01'],
  ])('%s', (heading, date) => {
    expect(findReleaseDate(section(heading), VERSION)).toBe(date);
  });

  test.each([
    ['no section', '# Changelog\n', 'the first section of CHANGELOG.md is missing: write "## 0.1.0 - Unreleased"'],
    ['no version', section('## Unreleased'), 'the first section of CHANGELOG.md is Unreleased'],
    [
      'a newer version first',
      section('## 0.2.0 - Unreleased\n\n- B\n\n## 0.1.0 - 2026-12-01'),
      'is 0.2.0 - Unreleased',
    ],
    ['a longer version', section('## 0.1.01 - Unreleased'), 'is 0.1.01 - Unreleased'],
    ['no date', section('## 0.1.0'), 'the heading "## 0.1.0" of CHANGELOG.md has no date'],
    ['a day that no month has', section('## 0.1.0 - 2026-02-30'), 'has no date: write "## 0.1.0 - YYYY-MM-DD"'],
    ['words after the date', section('## 0.1.0 - 2026-12-01 - Unreleased'), 'has no date'],
    ['an empty section', section('## 0.1.0 - Unreleased', ''), 'the section of 0.1.0 in CHANGELOG.md is empty'],
    [
      'two sections of the version',
      section('## 0.1.0 - Unreleased\n\n- B\n\n## 0.1.0 - 2026-12-01'),
      'more than one section of 0.1.0',
    ],
  ])('%s is refused', (_, changelog, words) => {
    expect(() => findReleaseDate(changelog, VERSION)).toThrow(words);
  });
});

test('the archive of a commit has its files below one folder, and the same bytes whatever git is set to', async () => {
  const source = await read();
  const archive = await buildSourceArchive(source, 'kreplay-0.1.0');
  const listed = execFileSync('tar', ['-tvzf', '-'], {
    input: archive,
    encoding: 'utf8',
    env: { ...process.env, TZ: 'UTC' },
  });
  expect(listed.match(/kreplay-0\.1\.0\/\S*/g)).toEqual(
    ['', '.gitignore', 'CHANGELOG.md', 'folder/', 'folder/text', 'package.json'].map((name) => `kreplay-0.1.0/${name}`),
  );
  const sumOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
  const sum = sumOf(archive);
  const sumOfArchive = async () => sumOf(await buildSourceArchive(source, 'kreplay-0.1.0'));
  for (const [name, value] of [
    ['tar.umask', '0077'],
    ['core.autocrlf', 'true'],
    ['core.eol', 'crlf'],
  ])
    repository.git('config', name!, value!);
  repository.write('build/anything', 'ignored');
  // Attributes of a user, at both places where git looks for them.
  const home = newFolder();
  const attributes = 'folder export-ignore\nCHANGELOG.md ident eol=crlf\n';
  mkdirSync(join(home, 'git'));
  writeFileSync(join(home, 'git/attributes'), attributes);
  writeFileSync(join(home, 'others'), attributes);
  repository.git('config', 'core.attributesFile', join(home, 'others'));
  expect(await sumOfArchive()).toBe(sum);
  repository.git('config', '--unset', 'core.attributesFile');
  process.env.XDG_CONFIG_HOME = home;
  try {
    expect(await sumOfArchive()).toBe(sum);
  } finally {
    delete process.env.XDG_CONFIG_HOME;
  }
});
