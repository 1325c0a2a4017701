/**
 * Tests `kreplay ci init`: what it writes, that hostile names stay names, and that it replaces nothing unasked. The
 * action for GitHub is run as a runner does: its steps with bash, one after another, in a clean environment.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { buildGitHubAction, buildGitHubWorkflow } from '../../../../daemon/run/job/github.ts';
import { buildGitLabJob } from '../../../../daemon/run/job/gitlab.ts';
import type { Job } from '../../../../daemon/run/job/job.ts';
import { archiveOfThisRun } from '../../package/packages.ts';
import { newFolder } from '../../recorded.ts';
import { bundleOf, writesTo } from '../incident.ts';

const ROOT = join(import.meta.dirname, '../../../..');
const ENTRY = join(ROOT, 'kreplay.ts');
const ACTION = join(ROOT, 'daemon/package/github_action/action.yml');
const ZEROS = '0'.repeat(64);

function parsedYaml(text: string) {
  const program = 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)';
  return JSON.parse(execFileSync('python3', ['-c', program], { input: text, encoding: 'utf8' }));
}

let repository: string;
beforeEach(() => {
  repository = newFolder();
  mkdirSync(join(repository, 'incidents'));
});

function keep(name: string, rows = writesTo('/srv/shop/orders', [20, 30, 5, 40, 25])): void {
  writeFileSync(join(repository, name), readFileSync(bundleOf(rows)));
}

function init(...words: string[]) {
  const ended = spawnSync(process.execPath, [ENTRY, 'ci', 'init', ...words], { cwd: repository, encoding: 'utf8' });
  return { code: ended.status, stdout: ended.stdout, stderr: ended.stderr };
}

const written = (path: string) => readFileSync(join(repository, path), 'utf8');

describe('kreplay ci init', () => {
  test('writes a workflow for GitHub, and says what is left to do', () => {
    keep('incidents/order-1.kreplay');
    const archive = join(repository, 'archive.tar.gz');
    writeFileSync(archive, 'archive');
    const options = ['--map', '$PWD=/srv/shop', '--archive', archive, '--archive-url', 'https://example.com/a?b="c"'];
    const { code, stdout, stderr } = init('incidents/order-1.kreplay', ...options, '--', 'make', 'check', "A=it's");
    expect([code, stderr, stdout]).toEqual([
      0,
      '',
      'kreplay ci: .github/workflows/incident-order-1.yml: commit the file and the bundle\n',
    ]);
    const { jobs } = parsedYaml(written('.github/workflows/incident-order-1.yml'));
    expect(jobs.incident.env).toEqual({
      KREPLAY_CI_URL: 'https://example.com/a?b="c"',
      KREPLAY_CI_SHA256: createHash('sha256').update('archive').digest('hex'),
    });
    const [, unpack, run] = jobs.incident.steps;
    expect(unpack.run).toContain('sha256sum --check');
    expect(run.run).toBe(
      [
        'kreplay run --bundle incidents/order-1.kreplay --transaction order-1 \\',
        '  --map "$PWD=/srv/shop" --require partial \\',
        '  --junit replay.xml --html replay.html \\',
        "  -- make check 'A=it'\\''s'\n",
      ].join('\n'),
    );
    expect(readdirSync(join(repository, '.github/workflows'))).toEqual(['incident-order-1.yml']);
  });

  test('writes a job for GitLab, and leaves to variables of the project what is not given', () => {
    keep('incidents/order-1.kreplay');
    const { code, stdout } = init('incidents/order-1.kreplay', '--provider', 'gitlab', '--require', 'replayed');
    expect([code, stdout]).toEqual([
      0,
      'kreplay ci: .gitlab/incident-order-1.yml: add "include: [{ local: .gitlab/incident-order-1.yml }]" to ' +
        '.gitlab-ci.yml, and commit both and the bundle\n' +
        'kreplay ci: the comment in the file says which variables the project has to have\n',
    ]);
    const { 'incident-order-1': job } = parsedYaml(written('.gitlab/incident-order-1.yml'));
    expect(Object.keys(job)).toEqual(['script', 'artifacts']);
    expect(job.script[1]).toContain('--map auto --require replayed');
    expect(job.script[1]).toContain('-- make check');
  });

  test.each([
    ['as it was', []],
    ['with pseudonyms', ['--redact']],
  ])('takes the transaction that was exported from a bundle with its context, %s', (_, more) => {
    const others = Array.from({ length: 25 }, (_, i) => writesTo('/other', [1], { transaction: `other-${i}` }));
    const recording = bundleOf([...writesTo('/srv/shop/orders', [20, 30, 5]), ...others.flat()]);
    const bundle = join(repository, 'i.kreplay');
    const exported = ['export', '--recording', recording, '--transaction', 'order-1', '--context', '1h'];
    execFileSync(process.execPath, [ENTRY, ...exported, '--output', bundle, ...more]);
    const { code, stdout, stderr } = init('i.kreplay');
    expect([code, stderr]).toEqual([0, '']);
    const [, id] = /incident-(\S+)\.yml/.exec(stdout)!;
    const reader = openReader(bundle);
    try {
      expect(reader.listTransactions({ limit: 100 })).toHaveLength(26);
      expect(reader.readTransaction(id!)).toMatchObject({ eventCount: 3 });
    } finally {
      reader.close();
    }
  });

  test('replaces an existing file only with --force, and nothing that is not a file', () => {
    keep('i.kreplay');
    const path = join(repository, 'job.yml');
    writeFileSync(path, 'mine');
    const refused = init('i.kreplay', '--output', 'job.yml');
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/job\.yml exists: .*--force/)]);
    expect(written('job.yml')).toBe('mine');
    expect(init('i.kreplay', '--output', 'job.yml', '--force').code).toBe(0);
    expect(written('job.yml')).toContain('kreplay run');
    mkdirSync(join(repository, '.github/workflows/incident-order-1.yml'), { recursive: true });
    expect(init('i.kreplay', '--force').stderr).toMatch(/is not a file: give another --output/);
    symlinkSync('/nowhere', join(repository, 'link.yml'));
    expect(init('i.kreplay', '--output', 'link.yml').stderr).toMatch(/exists/);
  });

  test.each<[string, string[], RegExp]>([
    ['a bundle that is not there', ['no.kreplay'], /there is no file no\.kreplay/],
    ['a bundle outside', ['/etc/passwd'], /outside the working folder: copy it into the repository/],
    ['no bundle', ['junk.kreplay'], /is not a (kreplay )?recording/],
    ['another transaction', ['i.kreplay', '--transaction', 'x'], /no transaction x: its transactions are order-1/],
    ['another service', ['i.kreplay', '--service', 'x'], /no service x in order-1: its services are shop/],
    [
      'several transactions',
      ['two.kreplay'],
      /several transactions: choose one with --transaction: 'other one', order-1/,
    ],
    [
      'no archive',
      ['i.kreplay', '--archive', 'no.tar.gz'],
      /no\.tar\.gz cannot be read: make release and make ci-archive build/,
    ],
    ['no checksum', ['i.kreplay', '--archive-sha256', 'abc'], /64 hexadecimal digits/],
    ['no map', ['i.kreplay', '--map', 'x'], /must be HERE=THERE/],
    ['a name that ends a line', ['i.kreplay', '--map', 'a=b\nrm: x'], /a=b\\u\{a\}rm: x has characters/],
    [
      'a path below a file',
      ['i.kreplay', '--output', 'i.kreplay/x.yml'],
      /EEXIST|ENOTDIR|something else has this name|its folder/,
    ],
  ])('%s is an error that says what to do, and writes nothing', (_, words, message) => {
    keep('i.kreplay');
    keep('two.kreplay', [...writesTo('/a', [1]), ...writesTo('/b', [1], { transaction: 'other one' })]);
    writeFileSync(join(repository, 'junk.kreplay'), 'x'.repeat(5000));
    const { code, stdout, stderr } = init(...words);
    expect([code, stdout]).toEqual([expect.any(Number), '']);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(message);
    expect(existsSync(join(repository, '.github'))).toBe(false);
  });
});

test('hostile names stay words of the command, and are no expressions of a CI system', () => {
  const hostile = `\${{ secrets.KEY }}' "$(touch owned)" \`x\` \\ # : - é`;
  const job: Job = {
    bundle: hostile,
    transaction: hostile,
    service: hostile,
    maps: [`$PWD/${hostile}=/x`, `/y=${hostile}`],
    require: 'none',
    command: [hostile, ''],
    archiveUrl: `\${{ secrets.KEY }} $HOME "x" \u{1f600}`,
    archiveSha256: ZEROS,
  };
  const expected = [
    ...['run', '--bundle', hostile, '--transaction', hostile, '--service', hostile],
    ...['--map', `/ci/${hostile}=/x`, '--map', `/y=${hostile}`, '--require', 'none'],
    ...['--junit', 'replay.xml', '--html', 'replay.html', '--', hostile, ''],
  ];
  const wordsOf = (script: string) => {
    const shell = `set -- ; kreplay() { printf '%s\\0' "$@"; }; PWD=/ci; ${script}`;
    return execFileSync('bash', ['-c', shell], { encoding: 'utf8' }).split('\0').slice(0, -1);
  };
  const workflow = parsedYaml(buildGitHubWorkflow(job));
  // The runner evaluates what is left: a text in quotes.
  const evaluated = (text: string) => text.replaceAll(/\$\{\{ '(\$\{\{)' \}\}/g, '$1');
  expect(buildGitHubWorkflow(job).replaceAll(`\${{ '\${{' }}`, '')).not.toContain('${{');
  expect(wordsOf(evaluated(workflow.jobs.incident.steps[2].run))).toEqual(expected);
  expect(evaluated(workflow.jobs.incident.env.KREPLAY_CI_URL)).toBe(job.archiveUrl);
  const [gitlab] = Object.values(parsedYaml(buildGitLabJob(job))) as [
    { script: string[]; variables: Record<string, string> },
  ];
  expect(wordsOf(gitlab.script[1]!.replace(/^\S+/, 'kreplay'))).toEqual(expected);
  expect(gitlab.variables.KREPLAY_CI_URL!.replaceAll('$$', '$')).toBe(job.archiveUrl);
});

describe('the action for GitHub', () => {
  let archive: string;
  beforeAll(async () => {
    archive = await archiveOfThisRun();
  }, 120_000);

  interface Action {
    inputs: Record<string, { required: boolean; default?: string }>;
    runs: { using: string; steps: { shell: string; run: string; env: Record<string, string> }[] };
  }

  /** Runs the steps as a runner does: inputs in their variables, and nothing else of this process. */
  function use(inputs: Record<string, string>) {
    const action: Action = parsedYaml(readFileSync(ACTION, 'utf8'));
    expect(action.runs.using).toBe('composite');
    const required = Object.entries(action.inputs).filter(([, { required }]) => required);
    for (const [name] of required) expect(Object.keys(inputs)).toContain(name);
    const temp = newFolder();
    const summary = join(temp, 'summary.md');
    let ended: ReturnType<typeof spawnSync> | undefined;
    for (const { shell, run, env } of action.runs.steps) {
      expect(shell).toBe('bash');
      const values = Object.entries(env).map(([name, text]) => {
        const input = /^\$\{\{ inputs\.([a-z0-9-]+) \}\}$/.exec(text)![1]!;
        return `${name}=${inputs[input] ?? action.inputs[input]!.default ?? ''}`;
      });
      const script = join(temp, 'step.sh');
      writeFileSync(script, run);
      const own = ['PATH=/usr/bin:/bin', `RUNNER_TEMP=${temp}`, `GITHUB_STEP_SUMMARY=${summary}`, ...values];
      const words = ['-i', '-C', repository, ...own, 'bash', '--noprofile', '--norc', '-eo', 'pipefail', script];
      ended = spawnSync('env', words, { encoding: 'utf8' });
      if (ended.status !== 0) break;
    }
    rmSync(join(temp, 'kreplay-ci'), { recursive: true, force: true });
    const text = existsSync(summary) ? readFileSync(summary, 'utf8') : '';
    return { code: ended!.status, stderr: `${ended!.stderr}`, summary: text };
  }

  const inputs = () => ({
    'archive-url': `file://${archive}`,
    'archive-sha256': createHash('sha256').update(readFileSync(archive)).digest('hex'),
    bundle: 'incidents/i.kreplay',
    transaction: 'order-1',
    map: `\n${repository}=/srv/shop\n`,
    command: 'dd if=/dev/zero of=orders bs=4096 count=5',
  });

  test('is what make gen writes', () => {
    expect(readFileSync(ACTION, 'utf8')).toBe(buildGitHubAction());
  });

  test('replays the incident, and leaves reports and a summary', () => {
    keep('incidents/i.kreplay');
    const { code, stderr, summary } = use(inputs());
    expect([code, stderr]).toEqual([0, expect.stringContaining('100% of 120ms planned')]);
    for (const end of ['xml', 'html', 'json']) expect(existsSync(join(repository, `replay.${end}`))).toBe(true);
    expect(summary).toMatch(/^### kreplay run: <code>order&#45;1<\/code>: (replayed|partial)\n/);
  });

  test('fails with the command, and with a run that replays nothing', () => {
    keep('incidents/i.kreplay');
    expect(use({ ...inputs(), command: 'false | true; touch not-reached' }).code).toBe(1);
    expect(existsSync(join(repository, 'not-reached'))).toBe(false);
    expect(use({ ...inputs(), map: '' }).code).toBe(124);
    expect(use({ ...inputs(), map: '', require: 'none', service: 'shop', reports: 'other' }).code).toBe(0);
    expect(existsSync(join(repository, 'other.xml'))).toBe(true);
  });

  test('unpacks no other archive than that of the checksum', () => {
    keep('incidents/i.kreplay');
    const other = use({ ...inputs(), 'archive-sha256': ZEROS });
    expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('did NOT match')]);
    const none = use({ ...inputs(), 'archive-sha256': '' });
    expect([none.code, none.stderr]).toEqual([
      125,
      expect.stringContaining('KREPLAY_CI_SHA256, which sha256sum prints'),
    ]);
  });

  test('takes inputs as texts, whatever is in them', () => {
    keep('incidents/i.kreplay');
    const { code, stderr } = use({ ...inputs(), transaction: '$(touch owned)"; touch owned; #' });
    expect([code, stderr]).toEqual([125, expect.stringContaining('has no events of transaction $(touch owned)')]);
    expect(existsSync(join(repository, 'owned'))).toBe(false);
  });
});
