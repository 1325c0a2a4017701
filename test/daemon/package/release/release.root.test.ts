/**
 * Tests a release of this run's packages: sha256sum and gpgv judge its files, Debian's apt installs from its repository
 * in a Debian of its own, and refuses what was changed.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeRelease } from '../../../../daemon/package/release/release.ts';
import { listFiles } from '../../../../daemon/package/tree.ts';
import { FILE_SYSTEMS } from '../../../kernel/small_disk.ts';
import { type DebianRoot, newDebianRoot } from '../debian_root.ts';
import { archiveOfThisRun, LARGEST, packageOfThisRun, repack } from '../packages.ts';
import { COMMIT_EPOCH_S, newRepository, type Repository, VERSION } from './repository.ts';

const DRIVER = join(import.meta.dirname, 'release_of_built.ts');
const DEB = `kreplay_${VERSION}_amd64`;
const CI = `kreplay-ci_${VERSION}_linux_amd64`;
const POOLED = `apt/pool/main/k/kreplay/${DEB}.deb`;
const SUITE = 'apt/dists/stable';
const PACKAGES = `${SUITE}/main/binary-amd64/Packages`;
const FILES = [
  ...['SHA256SUMS', 'SHA256SUMS.asc'],
  ...[`${SUITE}/InRelease`, `${SUITE}/Release`, `${SUITE}/Release.gpg`, PACKAGES, `${PACKAGES}.gz`, POOLED],
  ...[`${CI}.cdx.json`, `${CI}.tar.gz`, `kreplay-${VERSION}.tar.gz`, 'kreplay-signing-key.asc'],
  ...[`${DEB}.cdx.json`, `${DEB}.deb`],
];
const SIGNATURES = ['SHA256SUMS.asc', 'kreplay-signing-key.asc', `${SUITE}/InRelease`, `${SUITE}/Release.gpg`];

const folder = mkdtempSync(join(tmpdir(), 'kreplay release '));
let repository: Repository;
/** Both packages as they were built. */
let whole: [deb: string, archive: string];
/** The same package without its largest files, and an archive of little more than its list of components. */
let small: [deb: string, archive: string];
/** A release of the small packages. */
let release: string;
/** Another release of them, with other settings of the user's session. */
let again: string;
let ended: ReturnType<typeof make>;
let debian: DebianRoot | undefined;

beforeAll(async () => {
  whole = [await packageOfThisRun(), await archiveOfThisRun()];
  small = [join(folder, 'small.deb'), join(folder, 'small.tar.gz')];
  repack(whole[0], VERSION, small[0], [LARGEST]);
  execFileSync('tar', ['-xzf', whole[1], '-C', folder, 'kreplay-ci/sbom.cdx.json']);
  execFileSync('tar', ['-czf', small[1], '-C', folder, 'kreplay-ci']);
  repository = newRepository(join(folder, 'a clone'));
  release = join(folder, 'a place/release');
  expect(make(release, small)).toMatchObject({ status: 0, stderr: '' });
  again = join(folder, 'again/release');
  ended = make(again, small, { TZ: 'Asia/Kathmandu', LC_ALL: 'C', TMPDIR: folder });
}, 600_000);

afterEach(() => {
  debian?.remove();
  debian = undefined;
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Environment = Record<string, string>;

const wordsOf = (output: string, built: readonly string[], project = repository.path) => [
  DRIVER,
  project,
  output,
  ...built,
];

function make(output: string, built: readonly string[], environment: Environment = {}, project = repository.path) {
  const env = { ...process.env, ...environment };
  const { status, stdout, stderr } = spawnSync(process.execPath, wordsOf(output, built, project), {
    encoding: 'utf8',
    env,
  });
  return { status, stdout, stderr };
}

/** Starts a release, and resolves when it builds its packages, which does not end. */
async function startBuilding(output: string) {
  const child = spawn(process.execPath, [...wordsOf(output, small), 'hang'], { detached: true });
  let complaints = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text;
  });
  for await (const text of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false }))
    if (String(text).includes('builds')) break;
  child.stdout.resume();
  return { child, complaints: () => complaints };
}

const bytesOf = (place: string, files = listFiles(place)) =>
  Object.fromEntries(files.map((file) => [file, readFileSync(join(place, file)).toString('base64')]));

const unsigned = (files: readonly string[]) => files.filter((file) => !SIGNATURES.includes(file));

test('it has packages, sources, lists of components, a repository for apt, checksums, and its key', () => {
  expect(listFiles(release).sort()).toEqual(FILES.toSorted());
  expect(readdirSync(join(folder, 'a place'))).toEqual(['release']);
  const modes = listFiles(release).map((file) => statSync(join(release, file)).mode & 0o777);
  expect(new Set(modes)).toEqual(new Set([0o644]));
});

test('sha256sum and gpgv accept its files, and no file from which a byte differs', () => {
  const copy = join(folder, 'checked');
  cpSync(release, copy, { recursive: true });
  const ring = join(folder, 'ring.gpg');
  writeFileSync(
    ring,
    execFileSync('gpg', ['--dearmor'], { input: readFileSync(join(copy, 'kreplay-signing-key.asc')) }),
  );
  const check = () => spawnSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: copy, encoding: 'utf8' });
  const judge = (...files: string[]) => spawnSync('gpgv', ['--keyring', ring, ...files], { cwd: copy }).status;
  const listed = [`${CI}.cdx.json`, `${CI}.tar.gz`, `kreplay-${VERSION}.tar.gz`, `${DEB}.cdx.json`, `${DEB}.deb`];
  expect(check().stdout).toBe(
    listed
      .toSorted()
      .map((file) => `${file}: OK\n`)
      .join(''),
  );
  const signed = [
    ['SHA256SUMS.asc', 'SHA256SUMS'],
    [`${SUITE}/Release.gpg`, `${SUITE}/Release`],
    [`${SUITE}/InRelease`],
  ];
  for (const files of signed) {
    expect([files, judge(...files)]).toEqual([files, 0]);
    changeByte(join(copy, files.at(-1)!));
    expect([files, judge(...files)]).toEqual([files, 1]);
    cpSync(join(release, files.at(-1)!), join(copy, files.at(-1)!));
  }
  changeByte(join(copy, `${DEB}.deb`));
  expect(check()).toMatchObject({ status: 1, stdout: expect.stringContaining(`${DEB}.deb: FAILED`) });
});

/** Changes a byte in the middle of a file, which has its length and its time as before. */
function changeByte(path: string): void {
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(path, bytes);
}

test('its lists of components are CycloneDX 1.6, and the ones in the packages', () => {
  const list = JSON.parse(readFileSync(join(release, `${DEB}.cdx.json`), 'utf8'));
  expect([list.bomFormat, list.specVersion, list.metadata.component.name]).toEqual(['CycloneDX', '1.6', 'kreplay']);
  expect(list.components.length).toBeGreaterThan(20);
  const shipped = execFileSync('tar', ['-xzOf', small[1], 'kreplay-ci/sbom.cdx.json']);
  expect(readFileSync(join(release, `${CI}.cdx.json`)).equals(shipped)).toBe(true);
});

test('a package whose list of components is none of CycloneDX makes no release', () => {
  const other = join(folder, 'other.tar.gz');
  const list = JSON.parse(readFileSync(join(folder, 'kreplay-ci/sbom.cdx.json'), 'utf8'));
  mkdirSync(join(folder, 'other/kreplay-ci'), { recursive: true });
  writeFileSync(
    join(folder, 'other/kreplay-ci/sbom.cdx.json'),
    JSON.stringify({ ...list, components: [{ name: 'x' }] }),
  );
  execFileSync('tar', ['-czf', other, '-C', join(folder, 'other'), 'kreplay-ci']);
  const output = join(folder, 'elsewhere/release');
  const { status, stderr } = make(output, [small[0], other]);
  expect([status, stderr]).toEqual([1, expect.stringContaining('the list of components is not CycloneDX 1.6: [')]);
  expect(readdirSync(join(folder, 'elsewhere'))).toEqual([]);
});

test('the same commit makes the same bytes again, but for signatures and the key', () => {
  expect([ended.status, ended.stdout]).toEqual([0, expect.stringContaining('It proves nothing beyond this folder')]);
  expect(listFiles(again).sort()).toEqual(FILES.toSorted());
  expect(bytesOf(again, unsigned(FILES))).toEqual(bytesOf(release, unsigned(FILES)));
  for (const file of SIGNATURES)
    expect([file, readFileSync(join(again, file)).equals(readFileSync(join(release, file)))]).toEqual([file, false]);
  expect(statSync(join(again, POOLED)).mtimeMs).toBe(COMMIT_EPOCH_S * 1000);
});

/** Calls with the environment in which a new key of gpg signs. */
function withKey(work: (environment: { GNUPGHOME: string; SIGNING_KEY: string }) => void): void {
  const home = mkdtempSync(join(tmpdir(), 'home '));
  const name = 'keeper@example.com';
  try {
    const words = ['--batch', '--quiet', '--passphrase', '', '--quick-generate-key', name, 'rsa3072'];
    execFileSync('gpg', ['--homedir', home, ...words], { stdio: 'ignore' });
    work({ GNUPGHOME: home, SIGNING_KEY: name });
  } finally {
    spawnSync('gpgconf', ['--homedir', home, '--kill', 'all']);
    rmSync(home, { recursive: true });
  }
}

test('a key of gpg signs it, and it says by which', () => {
  withKey((environment) => {
    const output = join(folder, 'kept/release');
    const { status, stdout } = make(output, small, environment);
    expect([status, stdout]).toEqual([0, expect.stringMatching(/^signed with [0-9A-F]{40}$/m)]);
    expect(stdout).not.toContain('proves nothing');
    expect(make(output, small, { ...environment, SIGNING_KEY: 'another@example.com' })).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('make release: gpg does not give a secret key another@example.com'),
    });
  });
});

/** Makes releases of a repository whose version has a date. */
function newDated(place: string) {
  const dated = newRepository(join(place, 'a clone'));
  const changelog = readFileSync(join(dated.path, 'CHANGELOG.md'), 'utf8');
  dated.write('CHANGELOG.md', changelog.replace('Unreleased', '2026-12-01'));
  return {
    ...dated,
    commitAt(epoch_s: number) {
      dated.git('add', '--all');
      dated.gitWith({ GIT_COMMITTER_DATE: `${epoch_s} +0000` }, 'commit', '--amend', '--no-edit', '--quiet');
    },
    /** Returns what is printed. */
    make(environment: Environment = {}) {
      const { status, stdout, stderr } = make(join(place, 'release'), small, environment, dated.path);
      expect([status, stderr]).toEqual([0, '']);
      return stdout;
    },
  };
}

test('it says how its tag is made, unless the tag is there', () => {
  const dated = newDated(join(folder, 'dated'));
  dated.commitAt(COMMIT_EPOCH_S);
  expect(dated.make()).toMatch(/its tag is made with git tag v0\.1\.0 \w{40}$/m);
  dated.git('tag', `v${VERSION}`);
  expect(dated.make()).not.toContain('git tag');
});

describe('apt', () => {
  const SOURCE = '/etc/apt/sources.list.d/kreplay.sources';
  const UPDATE = ['apt-get', 'update', '--error-on=any'];
  const INSTALL = ['apt-get', 'install', '--yes', '-o', 'DPkg::Options::=--force-unsafe-io', 'kreplay'];
  /** Place of a release in the Debian, with a blank. */
  const PLACE = 'opt/a release';

  /** A Debian whose only source of packages is a release. */
  function open(place: string): void {
    debian = newDebianRoot();
    const etc = join(debian.path, 'etc/apt');
    rmSync(join(etc, 'sources.list'), { force: true });
    rmSync(join(etc, 'sources.list.d'), { recursive: true, force: true });
    cpSync(join(place, 'apt'), inRelease('apt'), { recursive: true });
    mkdirSync(join(etc, 'sources.list.d'));
    mkdirSync(join(etc, 'keyrings'), { recursive: true });
    copyFileSync(join(place, 'kreplay-signing-key.asc'), join(etc, 'keyrings/kreplay.asc'));
    const lines = [
      ...['Types: deb', `URIs: file:/${PLACE.replace(' ', '%20')}/apt`, 'Suites: stable', 'Components: main'],
      ...['Architectures: amd64', 'Signed-By: /etc/apt/keyrings/kreplay.asc', ''],
    ];
    writeFileSync(join(debian.path, SOURCE), lines.join('\n'));
  }

  const inRelease = (path: string) => join(debian!.path, PLACE, path);

  function run(command: readonly string[]) {
    const { status, stdout, stderr } = debian!.run(...command);
    return { status, words: stdout + stderr };
  }

  test('installs the package of a release, which runs, and removes it', () => {
    const output = join(folder, 'whole/release');
    expect(make(output, whole)).toMatchObject({ status: 0, stderr: '' });
    open(output);
    rmSync(output, { recursive: true });
    const update = run(UPDATE);
    expect(update).toMatchObject({ status: 0, words: expect.stringContaining('InRelease') });
    expect(update.words).not.toMatch(/^[WE]:/m);
    const install = run(INSTALL);
    expect([install.status, install.words]).toEqual([0, expect.stringContaining(`Setting up kreplay (${VERSION})`)]);
    expect(install.words).not.toMatch(/not authenticated|unsigned|insecure/i);
    expect(run(['kreplay', '--version'])).toEqual({ status: 0, words: `${VERSION}\n` });
    expect(run(['apt-get', 'purge', '--yes', 'kreplay']).status).toBe(0);
    expect(existsSync(join(debian!.path, 'usr/bin/kreplay'))).toBe(false);
  });

  test('refuses a package from which a byte differs', () => {
    open(release);
    expect(run(UPDATE).status).toBe(0);
    changeByte(inRelease(POOLED));
    const install = run(INSTALL);
    expect([install.status, install.words]).toEqual([100, expect.stringMatching(/Hash Sum mismatch/)]);
    expect(run(['dpkg', '--status', 'kreplay']).status).not.toBe(0);
  });

  test('keeps the index of a later commit without a word, of which the release of an older one warns', () => {
    withKey((environment) => {
      const place = join(folder, 'two commits');
      const dated = newDated(place);
      const warning = 'is of a later commit: its index for apt is of Mon, 21 Sep 2026 14:14:20 GMT, and the new one of';
      dated.commitAt(COMMIT_EPOCH_S + 60);
      expect(dated.make(environment)).not.toContain('of a later commit');
      expect(dated.make(environment)).not.toContain('of a later commit');
      open(join(place, 'release'));
      expect(run(UPDATE).status).toBe(0);
      dated.commitAt(COMMIT_EPOCH_S);
      expect(dated.make(environment)).toContain(`${warning} Mon, 21 Sep 2026 14:13:20 GMT.`);
      rmSync(inRelease('apt'), { recursive: true });
      cpSync(join(place, 'release/apt'), inRelease('apt'), { recursive: true });
      const update = run(UPDATE);
      expect([update.status, update.words]).toEqual([0, expect.not.stringMatching(/^[WE]:/m)]);
      const lists = join(debian!.path, 'var/lib/apt/lists');
      const known = readdirSync(lists).filter((name) => name.endsWith('_InRelease'));
      expect(known.map((name) => /^Date: .*$/m.exec(readFileSync(join(lists, name), 'utf8'))?.[0])).toEqual([
        'Date: Mon, 21 Sep 2026 14:14:20 UTC',
      ]);
    });
  });

  test.each<[string, () => void, RegExp]>([
    ['a changed index', () => changeByte(inRelease(`${PACKAGES}.gz`)), /Hash Sum mismatch/],
    ['a changed list of indexes', () => changeByte(inRelease(`${SUITE}/InRelease`)), /BADSIG|invalid|not signed/],
    [
      'a changed list with a signature of its own',
      () => {
        rmSync(inRelease(`${SUITE}/InRelease`));
        appendFileSync(inRelease(`${SUITE}/Release`), '\n');
      },
      /BADSIG|invalid/,
    ],
    [
      'a list without a signature',
      () => {
        rmSync(inRelease(`${SUITE}/InRelease`));
        rmSync(inRelease(`${SUITE}/Release.gpg`));
      },
      /not signed/,
    ],
    [
      'the key of another release',
      () => {
        copyFileSync(join(again, 'kreplay-signing-key.asc'), join(debian!.path, 'etc/apt/keyrings/kreplay.asc'));
      },
      /NO_PUBKEY|not available/,
    ],
  ])('refuses %s', (_, change, words) => {
    open(release);
    change();
    const update = run(UPDATE);
    expect([update.status, update.words]).toEqual([100, expect.stringMatching(words)]);
    expect(run(INSTALL)).toMatchObject({ status: 100 });
  });
});

describe('nothing unfinished has the name of a release', () => {
  let before: Record<string, string>;
  beforeAll(() => {
    before = bytesOf(release);
  });

  const expectAsBefore = () => {
    expect(readdirSync(join(folder, 'a place'))).toEqual(['release']);
    expect(bytesOf(release)).toEqual(before);
    expect(readdirSync(tmpdir()).filter((name) => name.startsWith('kreplay-signing-'))).toEqual([]);
  };

  test.each([
    ['Ctrl-C', 'SIGINT', 130, 'group'],
    ['a signal for its process only', 'SIGTERM', 143, 'process'],
  ] as const)('after %s', async (_, signal, code, to) => {
    const { child, complaints } = await startBuilding(release);
    process.kill(to === 'group' ? -child.pid! : child.pid!, signal);
    const [status] = await once(child, 'close');
    expect([status, complaints()]).toEqual([
      code,
      `make release: ended by ${signal}\nmake release: no release was made; an earlier one is as it was\n`,
    ]);
    expectAsBefore();
    expect(spawnSync('pgrep', ['--pgroup', String(child.pid)], { encoding: 'utf8' }).stdout).toBe('');
  });

  test('after kill -9, and the next release removes what it left', async () => {
    const { child } = await startBuilding(release);
    process.kill(-child.pid!, 'SIGKILL');
    await once(child, 'close');
    expect(readdirSync(join(folder, 'a place'))).toEqual(['release', `release.unfinished-${child.pid}`]);
    expect(bytesOf(release)).toEqual(before);
    expect(make(release, small).status).toBe(0);
    before = bytesOf(release);
    expectAsBefore();
  });

  test('after a kill between the renames, even if the next release is not made', async () => {
    const aside = join(folder, `a place/release.unfinished-${spawnSync('true').pid}`);
    mkdirSync(aside);
    renameSync(release, join(aside, 'replaced'));
    const { child } = await startBuilding(release);
    process.kill(child.pid!, 'SIGTERM');
    await once(child, 'close');
    expectAsBefore();
  });

  test('and leftovers that cannot be removed do not make a whole release a failed one', async () => {
    const mounted: string[] = [];
    const lines: string[] = [];
    const output = join(folder, 'a busy place/release');
    try {
      await makeRelease({
        project: repository.path,
        output,
        signingKey: undefined,
        signal: new AbortController().signal,
        say: (line) => lines.push(line),
        async buildPackages(sources, { version }) {
          const built = join(sources, 'build');
          mkdirSync(built);
          execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', built]);
          mounted.push(built);
          const [deb, ciArchive] = [`kreplay_${version}_amd64.deb`, `kreplay-ci_${version}_linux_amd64.tar.gz`].map(
            (name) => join(built, name),
          ) as [string, string];
          copyFileSync(small[0], deb);
          copyFileSync(small[1], ciArchive);
          return { deb, ciArchive };
        },
      });
    } finally {
      for (const place of mounted) execFileSync('umount', [place]);
    }
    const words = 'leftovers of this run stay, remove them by hand: Device or resource busy';
    expect(lines).toContainEqual(expect.stringContaining(`${words} '${output}.unfinished-${process.pid}'`));
    expect(listFiles(output).sort()).toEqual(FILES.toSorted());
  });

  test('after a change that is not committed', () => {
    repository.write('folder/text', 'three');
    const { status, stderr } = make(release, small);
    repository.git('checkout', '--', 'folder/text');
    expect([status, stderr]).toEqual([1, expect.stringContaining(' M folder/text\ncommit them, or put them aside')]);
    expectAsBefore();
  });

  test('on a full disk', () => {
    const disk = FILE_SYSTEMS.tmpfs(64);
    try {
      const output = join(disk.path, 'release');
      const made = make(output, small);
      expect([made.status, made.stderr]).toEqual([0, expect.any(String)]);
      const first = bytesOf(output);
      disk.fill();
      const { status, stderr } = make(output, small);
      expect([status, stderr]).toEqual([
        1,
        expect.stringMatching(/^make release: there is no space left: free some, and run make release again \(ENOSPC/),
      ]);
      expect(readdirSync(disk.path)).toEqual(['filling', 'release']);
      expect(bytesOf(output)).toEqual(first);
    } finally {
      disk.remove();
    }
  });
});
