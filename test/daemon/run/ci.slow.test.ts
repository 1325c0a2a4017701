/**
 * Tests the page's CI jobs as their runners run them, with the archive that it describes: an unprivileged user, no terminal, no standard input, and a
 * user namespace in containers. The files that their other steps keep must exist afterwards.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, chownSync, copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { times } from '../../repeats.ts';
import { AS_NOBODY, NOBODY } from '../../unprivileged.ts';
import { archiveOfThisRun } from '../package/packages.ts';
import { newFolder } from '../recorded.ts';
import { bundleOf, writesTo } from './incident.ts';

const ROOT = join(import.meta.dirname, '../../..');
const [, CHAPTER = ''] = readFileSync(join(ROOT, 'daemon/docs/ci.md'), 'utf8').split('## In a CI job');

interface GitHub {
  jobs: Record<string, { steps: { run?: string; with?: { path?: string } }[] }>;
}

interface GitLab {
  [job: string]: { script: string[]; artifacts: { paths: string[]; reports: { junit: string } } };
}

function parsedYaml(text: string): unknown {
  const program = 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)';
  return JSON.parse(execFileSync('python3', ['-c', program], { input: text, encoding: 'utf8' }));
}

const SHOWN = [...CHAPTER.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => text!);
const [GITHUB, GITLAB] = SHOWN.map(parsedYaml);

interface Job {
  /** Shell command by which the runner starts the text of a step, which is in the file $1. */
  shell: string;
  scripts: string[];
  /** Exit code of the steps if `make check` has failed. */
  failed: number;
  /** Patterns of the files that the job keeps. */
  kept: string[];
  environment: Record<string, string>;
}

function gitHubJob(): Job {
  const { steps } = (GITHUB as GitHub).jobs.incident!;
  const scripts = steps.flatMap(({ run = [] }) => run);
  const kept = steps.flatMap((step) => step.with?.path ?? []);
  return { shell: 'exec bash -e "$1"', scripts, failed: 2, kept, environment: { GITHUB_ACTIONS: 'true' } };
}

function gitLabJob(): Job {
  const { script, artifacts } = (GITLAB as GitLab)['incident-order-1']!;
  const kept = [...artifacts.paths, artifacts.reports.junit];
  const shell = 'set -eo pipefail; set +o noclobber; : | eval "$(cat "$1")"';
  // bash returns 1 for any failure within eval.
  return { shell, scripts: [script.join('\n')], failed: 1, kept, environment: { GITLAB_CI: 'true' } };
}

/** A working copy with the incident, and with the README's tests. */
function workingCopy(writes: number): string {
  const folder = newFolder();
  chmodSync(folder, 0o755);
  chownSync(folder, NOBODY, NOBODY);
  mkdirSync(join(folder, 'incidents'));
  const incident = join(folder, 'incidents/order-1.kreplay');
  copyFileSync(bundleOf(writesTo('/srv/shop/orders', [20, 30, 5, 40, 25])), incident);
  chmodSync(incident, 0o444);
  const dd = `dd if=/dev/zero of=orders bs=4096 count=${writes}`;
  writeFileSync(join(folder, 'Makefile'), `check:\n\t${dd}\n\ttest $$(stat -c %s orders) = 20480\n`);
  return folder;
}

const CONTAINERS: readonly (readonly [string, readonly string[]])[] = [
  ['on a host', []],
  ['in a user namespace', ['unshare', '--user', '--map-current-user']],
  ['in one as its root', ['unshare', '--user', '--map-root-user', '--pid', '--fork', '--mount-proc']],
];

const INPUTS: readonly (readonly [string, string])[] = [
  ['an empty standard input', ''],
  ['/dev/null', '< /dev/null'],
  ['a closed standard input', '<&-'],
];

/** Runs the steps one after another, as long as they succeed. */
function runJob(folder: string, { shell, scripts, environment }: Job, container: readonly string[], input: string) {
  const own = newFolder();
  chmodSync(own, 0o777);
  const pathFile = join(own, 'path');
  writeFileSync(pathFile, '');
  chmodSync(pathFile, 0o666);
  const runner = {
    RUNNER_TEMP: join(own, 'temp'),
    GITHUB_PATH: pathFile,
    KREPLAY_CI_URL: `file://${archive}`,
    KREPLAY_CI_SHA256: checksum,
  };
  mkdirSync(runner.RUNNER_TEMP);
  chmodSync(runner.RUNNER_TEMP, 0o777);
  const step = (script: string) => {
    const file = join(own, 'step.sh');
    writeFileSync(file, script, { mode: 0o755 });
    const added = readFileSync(pathFile, 'utf8').replaceAll('\n', ':');
    const variables = { CI: 'true', HOME: folder, PATH: `${added}/usr/bin:/bin`, ...runner, ...environment };
    const names = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
    const words = ['setsid', '--wait', ...container, 'env', '-i', '-C', folder, ...names, 'bash', '-c'];
    const command = [...words, `exec ${input}\n${shell}`, 'bash', file];
    return spawnSync(AS_NOBODY[0], [...AS_NOBODY.slice(1), ...command], { encoding: 'utf8', input: '' });
  };
  const ended = scripts.reduce<ReturnType<typeof step> | undefined>(
    (before, script) => (before && before.status !== 0 ? before : step(script)),
    undefined,
  );
  // Unpacked, it takes 110 MB.
  for (const place of [runner.RUNNER_TEMP, folder]) rmSync(join(place, 'kreplay-ci'), { recursive: true, force: true });
  return ended!;
}

/** Reads the report with Python's parser: names of the cases and how they ended. */
function casesOf(path: string): string[] {
  const program = [
    'import sys, xml.etree.ElementTree as t',
    'suite, = t.parse(sys.argv[1]).getroot()',
    'cases = [(c.get("name"), [e.tag for e in c]) for c in suite.iter("testcase")]',
    'count = lambda kind: sum(kind in tags for _, tags in cases)',
    'assert [suite.get(k) for k in ("tests", "failures", "errors", "skipped")] == [str(n) for n in (',
    '  len(cases), count("failure"), count("error"), count("skipped"))]',
    'for name, tags in cases: print(name, *tags, sep=": ")',
  ].join('\n');
  return execFileSync('python3', ['-c', program, path], { encoding: 'utf8' }).trim().split('\n');
}

let archive: string;
let checksum: string;
beforeAll(async () => {
  archive = await archiveOfThisRun();
  checksum = createHash('sha256').update(readFileSync(archive)).digest('hex');
}, 120_000);

test('the page shows what kreplay ci init writes', () => {
  const folder = workingCopy(5);
  const asked = /^kreplay (ci init .*)$/m.exec(CHAPTER)![1]!;
  const entry = [process.execPath, join(ROOT, 'kreplay.ts')].join(' ');
  for (const [provider, path, shown] of [
    ['github', '.github/workflows/incident-order-1.yml', SHOWN[0]],
    ['gitlab', '.gitlab/incident-order-1.yml', SHOWN[1]],
  ]) {
    const command = asked.replace(' -- ', ` --provider ${provider} -- `);
    execFileSync('sh', ['-c', `${entry} ${command}`], { cwd: folder, stdio: 'pipe' });
    expect(readFileSync(join(folder, path!), 'utf8')).toBe(shown);
  }
});

describe.each([
  ['GitHub Actions', gitHubJob()],
  ['GitLab CI', gitLabJob()],
])('%s', (_, job) => {
  // Each container and each input once; a run that looks for more has all their pairs.
  const cases = CONTAINERS.flatMap(([where, container], row) =>
    INPUTS.filter((_input, column) => row === column || times(1) > 1).map(
      ([having, input]) => [where, having, container, input] as const,
    ),
  );

  test.each(cases)('%s, with %s', (_where, _having, container, input) => {
    const folder = workingCopy(5);
    const { status, stderr } = runJob(folder, job, container, input);
    const share = '100% of 120ms planned went to the calls it belongs to';
    expect([status, stderr]).toEqual([0, expect.stringContaining(share)]);
    for (const pattern of job.kept) expect(globSync(pattern, { cwd: folder })).not.toEqual([]);
    expect(casesOf(join(folder, 'replay.xml'))).toEqual([
      'the command: make check',
      // On a noisy machine the replay is only partial, which is a warning.
      expect.stringMatching(/^the incident is replayed(: system-out)?$/),
      '--require partial',
    ]);
  });

  test('a failing test is a failing job, and its report says so', () => {
    const folder = workingCopy(4);
    const { status } = runJob(folder, job, [], '');
    expect(status).toBe(job.failed);
    for (const pattern of job.kept) expect(globSync(pattern, { cwd: folder })).not.toEqual([]);
    expect(casesOf(join(folder, 'replay.xml'))).toContain('the command: make check: failure');
  });
});
