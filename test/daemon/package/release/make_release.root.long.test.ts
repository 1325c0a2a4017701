/**
 * Tests `make release` as a whole, in a clone of this tree's files below a path with blanks: it can be interrupted, and
 * what it builds from its source archive is what `make deb` and `make ci-archive` build in the tree.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { readSourceEpoch_s } from '../../../../daemon/package/program.ts';
import { archiveOfThisRun, PROJECT, packageOfThisRun } from '../packages.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay clone '));
const clone = join(folder, 'a clone');
const output = join(clone, 'build/release');
const epoch_s = readSourceEpoch_s();

beforeAll(() => {
  const list = ['-c', 'safe.directory=*', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const files = execFileSync('git', list, { cwd: PROJECT, encoding: 'utf8' }).split('\0');
  for (const file of files.filter((one) => one !== '' && existsSync(join(PROJECT, one)))) {
    mkdirSync(dirname(join(clone, file)), { recursive: true });
    copyFileSync(join(PROJECT, file), join(clone, file));
  }
  const date = `${epoch_s} +0000`;
  const env = { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_COMMITTER_DATE: date, GIT_AUTHOR_DATE: date };
  const person = ['-c', 'user.name=a person', '-c', 'user.email=person@example.com'];
  for (const words of [['init'], ['add', '--all'], [...person, 'commit', '--message', 'all']])
    execFileSync('git', words, { cwd: clone, env, stdio: 'ignore' });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('after Ctrl-C in the build nothing of a release is there', async () => {
  const make = spawn('make', ['release'], { cwd: clone, detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
  let printed = '';
  make.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  // The first is of the clone itself; the compiler runs in the folder of the release only.
  while (!printed.includes('TSC ')) await once(make.stdout, 'data');
  expect(readdirSync(join(clone, 'build'))).toEqual([expect.stringMatching(/^release\.unfinished-\d+$/)]);
  process.kill(-make.pid!, 'SIGINT');
  await once(make, 'close');
  expect(readdirSync(join(clone, 'build'))).toEqual([]);
}, 1_800_000);

const sumOf = (file: string, ...args: string[]) =>
  createHash('sha256')
    .update(execFileSync(file, args, { maxBuffer: 2 ** 30 }))
    .digest('hex');

test('it has what make deb and make ci-archive build, whatever the folder is', async () => {
  const made = spawnSync('make', ['release'], { cwd: clone, encoding: 'utf8' });
  expect([made.status, made.stderr]).toEqual([0, '']);
  expect(readdirSync(join(clone, 'build'))).toEqual(['release']);
  const check = spawnSync('sha256sum', ['--check', '--strict', '--quiet', 'SHA256SUMS'], { cwd: output });
  expect(check.status).toBe(0);
  const find = (pattern: RegExp) => join(output, readdirSync(output).find((name) => pattern.test(name))!);
  const [deb, ours] = [find(/\.deb$/), await packageOfThisRun()];
  // A shorter run of the tests compresses its packages less.
  for (const part of ['--fsys-tarfile', '--ctrl-tarfile'])
    expect([part, sumOf('dpkg-deb', part, deb)]).toEqual([part, sumOf('dpkg-deb', part, ours)]);
  const archive = find(/^kreplay-ci_.*\.gz$/);
  expect(sumOf('gzip', '-dc', archive)).toBe(sumOf('gzip', '-dc', await archiveOfThisRun()));
  expect(execFileSync('git', ['status', '--porcelain'], { cwd: clone, encoding: 'utf8' })).toBe('');
}, 3_600_000);
