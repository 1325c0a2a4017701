/**
 * Tests the summary that a run adds to a job of GitHub Actions, and the last lines of a command in it: with any names,
 * and where it cannot be written.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { buildStepSummary } from '../../../daemon/run/report/step_summary.ts';
import { hostedWith } from '../hosted.ts';
import { newFolder, START } from '../recorded.ts';
import { bundleOf, writesTo } from './incident.ts';
import { incidentOf, TRANSACTION } from './planned.ts';
import { ran, saidOf } from './reported.ts';

const ENTRY = join(import.meta.dirname, '../../../kreplay.ts');

let folder: string;
let summary: string;
let file: string;
beforeEach(() => {
  folder = newFolder();
  [summary, file] = [join(folder, 'summary.md'), join(folder, 'out')];
});

const dd = () => ['dd', 'if=/dev/zero', `of=${file}`, 'bs=4096', 'count=3'];

function options(bundle = bundleOf(writesTo(file, [20, 40, 30]))): string[] {
  return ['--bundle', bundle, '--transaction', TRANSACTION];
}

test('a run appends its verdict, its reasons and the slowest calls', async () => {
  writeFileSync(summary, 'before\n');
  const ended = await hostedWith({ GITHUB_STEP_SUMMARY: summary }, 'run', ...options(), '--', ...dd());
  expect(ended.code).toBe(0);
  const text = readFileSync(summary, 'utf8');
  expect(text).toMatch(/^before\n### kreplay run: <code>order&#45;1<\/code>: (replayed|partial)\n/);
  expect(text).toContain('ended with 0 after');
  const rows = text.split('\n').filter((line) => /^\| \d/.test(line));
  expect(rows).toHaveLength(3);
  expect(rows[0]).toMatch(
    /^\| 4\d[^|]*ms \| 40ms \| <code>write<\/code> \| <code>[^|]*out<\/code> \| <code>dd<\/code> \|$/,
  );
});

test('a run that fails says so in it, and what to do', async () => {
  const bundle = bundleOf(writesTo('/production/out', [20]));
  const ended = await hostedWith({ GITHUB_STEP_SUMMARY: summary }, 'run', ...options(bundle), '--', ...dd());
  expect(ended.code).toBe(124);
  const text = readFileSync(summary, 'utf8');
  expect(text).toContain('**FAILED&#58; the run is diverged, and &#45;&#45;require asks for partial&#58; pass');
  expect(text).toContain('- calls that they belong to got 0&#37;');
});

describe('a summary that cannot be written is a warning', () => {
  const places: [string, () => string][] = [
    ['in a folder that does not exist', () => join(folder, 'no', 'summary.md')],
    ['a folder', () => folder],
    ['a full device', () => '/dev/full'],
    [
      'a pipe that nobody reads',
      () => {
        execFileSync('mkfifo', [summary]);
        return summary;
      },
    ],
  ];
  test.each(places)('%s', async (_, make) => {
    const ended = await hostedWith({ GITHUB_STEP_SUMMARY: make() }, 'run', ...options(), '--', ...dd());
    expect([ended.code, ended.stderr]).toEqual([
      0,
      expect.stringMatching(/kreplay run: warning: no summary of the job in \$GITHUB_STEP_SUMMARY: E[A-Z]+: .*\n$/),
    ]);
  });

  test('an empty name is none', async () => {
    const ended = await hostedWith({ GITHUB_STEP_SUMMARY: '' }, 'run', ...options(), '--', ...dd());
    expect([ended.code, ended.stderr]).toEqual([0, expect.not.stringContaining('warning')]);
  });
});

test('any name is text and nothing else', () => {
  const incident = incidentOf([{ at: START, duration: 1_000_000n, file: '/a', requested: 1n, fd: 5 }]);
  const hostile = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc
      .array(
        fc.constantFrom(
          '|',
          '`',
          '\n',
          '\r',
          '<',
          '>',
          '</pre>',
          '</code>',
          '&',
          '*',
          '_',
          '[a](b)',
          '@all',
          '#1',
          '\\',
        ),
      )
      .map((parts) => parts.join('')),
    fc.constant('x'.repeat(100_000)),
  );
  fc.assert(
    fc.property(hostile, (text) => {
      const stream = { kind: 'stream', stream: 0, op_class: 'write', path: text, role: text, recorded_events: 1 };
      const { result } = ran(incident, [{ target: 1_000_000, event: 0 }], {
        code: 2,
        said: saidOf(stream),
        settings: { transaction_id: text, command: [text] },
        lastLines: [{ output: 'output', lines: [text] }],
      });
      const markdown = buildStepSummary({ ...result, reasons: [text] });
      const own = markdown.replaceAll(/<\/?(code|pre)>|&#\d+;/g, '').split('\n');
      const rows = own.filter((line) => line.startsWith('| '));
      expect(rows.map((row) => row.split(' | ').length)).toEqual([5, 5, 5]);
      const [heading, ...others] = own.filter((line) => !line.startsWith('| '));
      expect(heading).toMatch(/^### kreplay run/);
      const free = others.map((line) => line.replace(/^(- |\*\*(?=FAILED)|The .*:$)/, '').replace(/\.$/, ''));
      for (const line of free) expect(line).toMatch(/^[\p{L}\p{M}\p{N} ,/…]*(\.\d+\w*)?$/u);
      expect(markdown.length).toBeLessThan(50_000);
    }),
  );
});

describe('the last lines of a command', () => {
  /** Runs it in a shell that redirects the outputs of `kreplay run`. */
  function redirected(redirection: string, script: string): string {
    writeFileSync(summary, '');
    const words = [process.execPath, ENTRY, 'run', ...options(), '--require', 'none', '--', 'sh', '-c', script];
    const env = { ...process.env, GITHUB_STEP_SUMMARY: summary };
    spawnSync('sh', ['-c', `cd "$0" && "$@" ${redirection}`, folder, ...words], { env });
    return readFileSync(summary, 'utf8').split('The last lines')[1] ?? '';
  }

  const SCRIPT = 'seq 1 5000; printf "\\033[31mred\\033[0m <b>\\n"; echo failed >&2';

  test('are those of the file that both outputs are, without what was there before', () => {
    writeFileSync(join(folder, 'log'), 'old\n');
    const text = redirected('>> log 2>&1', SCRIPT);
    expect(text).toMatch(/^ of the command's output:\n\n<pre>\n4993\n[\s\S]*5000\nred &#60;b&#62;\nfailed\n<\/pre>\n/);
    expect(redirected('>> log 2>&1', 'true')).toBe('');
    expect(readFileSync(join(folder, 'log'), 'utf8')).toMatch(/^old\n1\n2\n/);
  });

  test('are named after the output if these are two files', () => {
    const text = redirected('> log 2> errors', SCRIPT);
    expect(text).toMatch(/^ of the command's standard output:[\s\S]*red/);
    expect(readFileSync(summary, 'utf8')).toMatch(/of the command's standard error:\n\n<pre>\nfailed\n<\/pre>\n/);
  });

  const read = (name: string) => readFileSync(join(folder, name), 'utf8');

  test('are those of a pipe, which gets everything in its order, before the words of the run', () => {
    const text = redirected('2>&1 | cat > log', `${SCRIPT}; test -p /proc/$$/fd/1 && echo pipe > kind`);
    expect(text).toMatch(/^ of the command's output:\n\n<pre>\n4993\n[\s\S]*5000\nred &#60;b&#62;\nfailed\n<\/pre>\n/);
    const numbers = Array.from({ length: 5000 }, (_, i) => `${i + 1}\n`).join('');
    expect(read('log').startsWith(`${numbers}\x1b[31mred\x1b[0m <b>\nfailed\nkreplay run: `)).toBe(true);
    expect(read('kind')).toBe('pipe\n');
  });

  test('are named after the output if these are a pipe and a file, or two pipes, or one is closed', () => {
    redirected('2> errors | cat > log', SCRIPT);
    const summaries = [read('summary.md')];
    redirected('2>&1 > log | cat > errors', SCRIPT);
    summaries.push(read('summary.md'));
    redirected('2>&- | cat > log', SCRIPT);
    summaries.push(read('summary.md'));
    const listNames = (text: string) => [...text.matchAll(/of the command's ([\w ]+):/g)].map(([, name]) => name);
    expect(summaries.map(listNames)).toEqual([
      ['standard output', 'standard error'],
      ['standard output', 'standard error'],
      ['standard output'],
    ]);
  });

  test('are those of sockets, which Node makes for the outputs of its children', async () => {
    writeFileSync(summary, '');
    const script = 'echo line; echo failed >&2; exit 3';
    const command = ['--require', 'none', '--', 'sh', '-c', script];
    const ended = await hostedWith({ GITHUB_STEP_SUMMARY: summary }, 'run', ...options(), ...command);
    expect([ended.code, ended.stdout, ended.stderr]).toEqual([
      3,
      'line\n',
      expect.stringMatching(/^failed\nkreplay run/),
    ]);
    expect(read('summary.md')).toMatch(/standard output:\n\n<pre>\nline\n[\s\S]*standard error:\n\n<pre>\nfailed\n/);
  });

  test('of a large output are its end, and the output is whole', () => {
    const text = redirected('| sha256sum > sum', 'seq 1 3000000');
    expect(text).toMatch(/<pre>\n2999991\n[\s\S]*3000000\n<\/pre>/);
    expect(read('sum')).toBe(execFileSync('sh', ['-c', 'seq 1 3000000 | sha256sum'], { encoding: 'utf8' }));
  });

  test('leave the end of a reader to the command, which a signal ends as without a relay', () => {
    redirected('2> errors | head -1 > log', 'exec yes');
    expect(read('log')).toBe('y\n');
    expect(read('errors')).toContain('the command ended with 141 ');
  });

  test('wait for a slow reader, as the command would have', () => {
    const text = redirected('2> errors | { sleep 4; cat > log; }', 'seq 1 20000; exec sleep 0.1');
    expect(read('log').split('\n')).toHaveLength(20_001);
    expect(text).toMatch(/19991\n[\s\S]*20000\n<\/pre>/);
  });

  test('of a run that shows them nowhere need no relay: the command has the pipe itself', () => {
    const words = ['run', ...options(), '--require', 'none', '--', 'readlink', '/proc/self/fd/1'];
    const script = 'cd "$0" && "$@" | { readlink /proc/self/fd/0 > own; cat > log; }';
    const env = { ...process.env, GITHUB_STEP_SUMMARY: '' };
    spawnSync('sh', ['-c', script, folder, process.execPath, ENTRY, ...words], { env });
    expect(read('log')).toMatch(/^pipe:\[\d+\]\n$/);
    expect(read('log')).toBe(read('own'));
  });
});
