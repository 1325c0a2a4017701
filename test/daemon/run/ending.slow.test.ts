/** Tests that however a run ends, no process and no file of it remains. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AS_NOBODY } from '../../unprivileged.ts';
import { startWith } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { newFolder } from '../recorded.ts';
import { served } from '../served.ts';
import { bundleOf, writesTo } from './incident.ts';
import { allGone, marked, processesOf } from './left_behind.ts';
import { TRANSACTION } from './planned.ts';

const ENTRY = join(import.meta.dirname, '../../../kreplay.ts');

let file: string;
let temporary: string;
let bundle: string;
beforeEach(() => {
  const folder = newFolder();
  [file, temporary] = [join(folder, 'out'), join(folder, 'tmp')];
  mkdirSync(temporary);
  bundle = bundleOf(writesTo(file, [1]));
});

function begin(word: string, script: string) {
  const options = ['--bundle', bundle, '--transaction', TRANSACTION];
  return startWith({ TMPDIR: temporary, MARK: word }, 'run', ...options, '--', 'sh', '-c', script);
}

test.each([
  ['SIGTERM', 143],
  ['SIGINT', 130],
  ['SIGHUP', 129],
] as const)('%s ends the command', async (signal, code) => {
  const word = marked();
  // exec is needed because dash drops a SIGINT that comes between its vfork() and the execve().
  const running = begin(word, 'echo started; exec sleep 600');
  await running.printed(/started/);
  running.child.kill(signal);
  expect((await running.ended).code).toBe(code);
  await allGone(word);
  expect(readdirSync(temporary)).toEqual([]);
});

test('a command that catches the signal ends as it chooses', async () => {
  const word = marked();
  const running = begin(word, `trap 'echo caught; exit 5' TERM; echo started; while :; do sleep 0.05; done`);
  await running.printed(/started/);
  running.child.kill('SIGTERM');
  const { code, stdout } = await running.ended;
  expect([code, stdout]).toEqual([5, 'started\ncaught\n']);
  await allGone(word);
});

test('if kreplay is killed the command is killed too', async () => {
  const word = marked();
  const running = begin(word, `echo started; sleep 600`);
  await running.printed(/started/);
  running.child.kill('SIGKILL');
  await running.ended;
  await allGone(word);
});

test('if the runner is killed it is a failure of kreplay, not of the command', async () => {
  const word = marked();
  const running = begin(word, `echo started; sleep 600`);
  await running.printed(/started/);
  const isRunner = (pid: string) => readFileSync(`/proc/${pid}/comm`, 'utf8') === 'kreplay-runner\n';
  for (const pid of processesOf(word).filter(isRunner)) process.kill(Number(pid), 'SIGKILL');
  const { code, stderr } = await running.ended;
  expect([code, stderr]).toEqual([
    125,
    expect.stringContaining('kreplay run: failed: the runner was ended by SIGKILL'),
  ]);
  await allGone(word);
  expect(readdirSync(temporary)).toEqual([]);
});

test.each([
  ['/nowhere/command', 127],
  ['/etc/passwd', 126],
])('%s cannot be run', async (command, expected) => {
  const { code, stderr } = await hosted('run', '--bundle', bundle, '--transaction', TRANSACTION, '--', command);
  const [told, ...more] = stderr.split('\n');
  expect([code, told, more]).toEqual([expected, expect.stringMatching(`^kreplay run: failed: ${command}: `), ['']]);
});

test('standard input is that of the command', async () => {
  const options = ['--bundle', bundle, '--transaction', TRANSACTION];
  const { code, stdout } = await hosted('run', ...options, '--require', 'none', '--', 'sh', '-c', 'cat; echo end');
  expect([code, stdout]).toEqual([0, 'end\n']);
  expect(existsSync(file)).toBe(false);
});

test('a failed run is an error for the CI', async () => {
  const junit = join(newFolder(), 'junit.xml');
  const options = ['--bundle', bundle, '--transaction', TRANSACTION, '--junit', junit, '--require', 'partial'];
  expect((await hosted('run', ...options, '--', '/nowhere/command')).code).toBe(127);
  const xml = readFileSync(junit, 'utf8');
  expect(xml).toContain('errors="1"');
  expect(xml).toContain('<error message="failed: /nowhere/command: No such file or directory"');
});

/** The report is on a file system of 64 KiB, too small for the report of some thousand calls. */
test('a full disk for the report: the command runs normally, and the problem is reported afterwards', async () => {
  const script = [`mount -t tmpfs -o size=64k tmpfs ${temporary}`, `TMPDIR=${temporary} exec "$@"`].join('\n');
  const writes = 'i=0; while [ $i -lt 3000 ]; do echo x; i=$((i + 1)); done';
  const inner = [process.execPath, ENTRY, 'run', '--bundle', bundle, '--transaction', TRANSACTION];
  const outer = ['unshare', '--mount', 'sh', '-ec', script, 'sh'];
  const { status, stderr } = spawnSync(
    outer[0]!,
    [...outer.slice(1), ...inner, '--', 'sh', '-c', `(${writes}) > ${file}`],
    {
      encoding: 'utf8',
    },
  );
  expect(readFileSync(file, 'utf8').length).toBe(6000);
  expect([status, stderr]).toEqual([125, expect.stringMatching(/report/)]);
});

test('where nothing can be said, the exit code is still that of the command', () => {
  const words = ['run', '--bundle', bundle, '--transaction', TRANSACTION, '--', 'sh', '-c', 'exit 7'];
  const script = 'exec "$@" 2>/dev/full';
  const { status } = spawnSync('sh', ['-c', script, 'sh', process.execPath, ENTRY, ...words]);
  expect(status).toBe(7);
});

test('an unprivileged run, with a daemon in between', async () => {
  const app = await served(dirname(bundle));
  const options = ['--url', app.url, '--transaction', TRANSACTION, '--require', 'none'];
  const command = ['sh', '-c', 'id -u; echo x > /dev/null'];
  const words = [...AS_NOBODY.slice(1), process.execPath, ENTRY, 'run', ...options, '--', ...command];
  const child = spawn(AS_NOBODY[0], words);
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (text) => {
    stdout += text;
  });
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const [code] = await once(child, 'close');
  expect([code, stdout, stderr]).toEqual([0, '65534\n', expect.stringContaining('kreplay run: ')]);
});

/** A tree of processes can have only one listener: within a run another one is impossible, as in some containers. */
test('if no call can be held the command does not run, which is not a pass', async () => {
  const options = ['--bundle', bundle, '--transaction', TRANSACTION];
  const inner = [process.execPath, ENTRY, 'run', ...options, '--', 'touch', join(temporary, 'witness')];
  const { code, stderr } = await hosted('run', ...options, '--', ...inner);
  expect(code).toBe(69);
  expect(stderr).toMatch(/^kreplay run: unsupported: \S/);
  expect(existsSync(join(temporary, 'witness'))).toBe(false);
});

test('if /proc belongs to another PID namespace the calls of the command are unknown: it does not run', () => {
  const options = ['--bundle', bundle, '--transaction', TRANSACTION];
  const witness = join(temporary, 'witness');
  const words = ['--pid', '--fork', process.execPath, ENTRY, 'run', ...options, '--', 'touch', witness];
  const { status, stderr } = spawnSync('unshare', words, { encoding: 'utf8' });
  expect([status, stderr]).toEqual([
    69,
    expect.stringMatching(/^kreplay run: unsupported: \/proc is missing, or belongs to/),
  ]);
  expect(existsSync(witness)).toBe(false);
});
