/**
 * The archive for CI runners: unpacked in a Debian where nothing of kreplay is installed, a user without rights
 * replays an incident with it that this kernel recorded.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EXIT } from '../../../daemon/run/errors.ts';
import type { RunResult } from '../../../daemon/run/report/result.ts';
import { isOnlyNoisy } from '../../../daemon/run/report/verdict.ts';
import { KREPLAY as BUILT_KREPLAY } from '../../e2e/kreplay.ts';
import { run } from '../../kernel/programs.ts';
import { record, removeFolders, temporaryFolder } from '../../kernel/recorded_run.ts';
import { type DebianRoot, newDebianRoot } from './debian_root.ts';
import { archiveOfThisRun, isTheSameAgain, PROJECT } from './packages.ts';

const WRITES = 6;
const EXTRA_MS = 100;
const NOBODY = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--no-new-privs'];
const KREPLAY = '/opt/kreplay-ci/bin/kreplay';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-ci-archive-'));
let archive: string;
let debian: DebianRoot | undefined;

beforeAll(async () => {
  archive = await archiveOfThisRun();
  debian = newDebianRoot();
  execFileSync('tar', ['-xzf', archive, '-C', join(debian.path, 'opt')]);
}, 300_000);

afterAll(() => {
  debian?.remove();
  removeFolders();
  rmSync(folder, { recursive: true, force: true });
});

const inDebian = (...command: string[]) => debian!.run(...command);
const asNobody = (...command: string[]) => inDebian(...NOBODY, 'env', '--chdir=/tmp', ...command);

test('it has no program for the kernel, nothing of the build folder, and the same bytes when it is built again', async () => {
  const names = execFileSync('tar', ['-tzf', archive], { encoding: 'utf8' }).trim().split('\n');
  expect(names.filter((name) => /bpf[^/]*\.(o|node)$|libbpf|express|\.service$/.test(name))).toEqual([]);
  expect(names).toEqual(expect.arrayContaining(['kreplay-ci/LICENSE', 'kreplay-ci/third-party-licences']));
  const ours = inDebian('grep', '-rlF', PROJECT, '/opt/kreplay-ci');
  expect([ours.stdout, ours.stderr]).toEqual(['', '']);

  expect(await isTheSameAgain('build_ci_archive', archive, folder)).toBe(true);
}, 300_000);

test('a user without rights replays an incident in a Debian that has nothing of kreplay', async () => {
  const recordedFolder = temporaryFolder();
  const dd = (to: string) => ['dd', 'if=/dev/zero', `of=${to}/log`, 'bs=512', `count=${WRITES}`, 'status=none'];
  const { dataFolder } = await record(() => {
    run(BUILT_KREPLAY, ['exec', '--transaction', 'order-1', '--', ...dd(recordedFolder)]);
  });
  copyFileSync(join(dataFolder, 'recording.kreplay'), join(debian!.path, 'srv/recording.kreplay'));
  inDebian('chmod', '644', '/srv/recording.kreplay');
  inDebian('mkdir', '--mode=777', '/srv/build');

  const exported = asNobody(KREPLAY, 'export', '--data', '/srv', '--transaction', 'order-1');
  expect([exported.status, exported.stderr]).toEqual([0, '']);
  expect(asNobody(KREPLAY, 'verify', 'incident.kreplay').status).toBe(0);

  const incident = [
    '--bundle',
    'incident.kreplay',
    '--transaction',
    'order-1',
    '--map',
    `/srv/build=${recordedFolder}`,
  ];
  const options = [...incident, '--extra-latency', `${EXTRA_MS}ms`, '--report', 'run.json', '--require', 'replayed'];
  const started = performance.now();
  const ended = asNobody(KREPLAY, 'run', ...options, '--', ...dd('/srv/build'));
  const took_ms = performance.now() - started;
  // A machine that is too noisy delivers the waits late, and the verdict says so; they are where they belong all the same.
  const judgement = JSON.parse(inDebian('cat', '/tmp/run.json').stdout) as RunResult;
  const code = isOnlyNoisy(judgement) ? EXIT.gateNotMet : 0;
  expect([ended.status, ended.stderr]).toEqual([code, expect.stringContaining(`${WRITES} calls: ${WRITES} exact`)]);
  expect(took_ms).toBeGreaterThan(WRITES * EXTRA_MS);
  expect(inDebian('stat', '--format=%s', '/srv/build/log').stdout.trim()).toBe(String(WRITES * 512));
  expect(asNobody(KREPLAY, 'diff', 'run.json').status).toBe(0);

  const init = asNobody(
    KREPLAY,
    'ci',
    'init',
    'incident.kreplay',
    '--archive-sha256',
    '0'.repeat(64),
    '--',
    ...dd('.'),
  );
  expect([init.status, init.stderr]).toEqual([0, '']);
  expect(inDebian('cat', '/tmp/.github/workflows/incident-order-1.yml').stdout).toContain('kreplay run --bundle');
}, 180_000);

test('its help names the commands that it has, and each other one says where it is', () => {
  const help = asNobody(KREPLAY, '--help').stdout;
  expect(help.match(/^ {2}(?:\w+(?= .*\[options\])|ci\b)/gm)?.map((name) => name.trim())).toEqual([
    'export',
    'verify',
    'diff',
    'ci',
    'run',
  ]);
  for (const command of ['agent', 'daemon', 'up', 'events']) {
    const { status, stdout, stderr } = asNobody(KREPLAY, command);
    expect([status, stdout, stderr]).toEqual([2, '', expect.stringMatching(/^kreplay: .*install the Debian package/)]);
  }
});
