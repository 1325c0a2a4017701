// `kreplay exec` must be invisible to the command: input, output, signals and exit status pass through unchanged.
import { execFileSync } from 'node:child_process';
import { KREPLAY, kreplay, start } from './kreplay.ts';

const LABEL = ['exec', '--transaction', 'order 1 %é', '--'];

test.each([0, 1, 7, 126, 255])('exit code %d is passed on', (code) => {
  expect(kreplay([...LABEL, 'sh', '-c', `exit ${code}`]).status).toBe(code);
});

test('input, output, errors and unusual arguments are passed on', () => {
  const script = 'cat; printf "[%s]" "$@"; echo complaint >&2';
  const args = ['a b', '', '--', '--transaction', '*', "it's"];
  const { stdout, stderr } = kreplay([...LABEL, 'sh', '-c', script, 'sh', ...args], { input: 'typed\n' });
  expect(stdout).toBe(`typed\n${args.map((argument) => `[${argument}]`).join('')}`);
  expect(stderr).toBe('complaint\n');
});

test('the command replaces the launcher, so that it receives signals and its end is seen', async () => {
  const running = start([...LABEL, 'sh', '-c', 'trap "exit 42" TERM; echo $$; while :; do sleep 0.05; done']);
  await running.says('\n');
  expect(Number(running.output())).toBe(running.process.pid);
  running.process.kill('SIGTERM');
  expect(await running.ended).toEqual({ status: 42, signal: null });

  const killed = start([...LABEL, 'sh', '-c', 'echo; exec sleep 60']);
  await killed.says('\n');
  killed.process.kill('SIGHUP');
  expect(await killed.ended).toEqual({ status: null, signal: 'SIGHUP' });
});

test('signal dispositions are inherited from the caller', () => {
  const ignored = ['sh', '-c', 'grep -E "^Sig(Ign|Blk)" /proc/self/status'];
  const own = execFileSync('sh', ['-c', `trap "" HUP; ${ignored[0]} -c '${ignored[2]}'`], { encoding: 'utf8' });
  const through = execFileSync('sh', ['-c', `trap "" HUP; ${KREPLAY} exec --transaction t -- sh -c '${ignored[2]}'`], {
    encoding: 'utf8',
  });
  expect(through).toBe(own);
  // SIGHUP is the lowest bit.
  expect(Number.parseInt(/SigIgn:\s+(\w+)/.exec(own)![1]!, 16) & 1).toBe(1);
});

test.each([
  [['exec', '--', 'true'], 'give --transaction'],
  [['exec', '--transaction', 'a', 'true'], '--'],
  [['exec', '--transaction', 'a', '--'], 'command'],
  [['exec', '--transaction', '', '--', 'true'], 'empty'],
  [['exec', '--trace', '0'.repeat(32), '--', 'true'], '32 hex digits'],
  [['exec', '--transaction', 'x'.repeat(2000), '--', 'true'], '1023'],
  [['exec', '--nonsense', '--', 'true'], '--nonsense'],
])('wrong usage %j is reported with exit code 2', (args, what) => {
  const { status, stdout, stderr } = kreplay(args);
  expect(stderr).toMatch(/^error: .+\nSee kreplay exec --help\n$/);
  expect(stderr).toContain(what);
  expect([status, stdout]).toEqual([2, '']);
});

test('a missing command ends with 127', () => {
  const { status, stderr } = kreplay([...LABEL, 'no-such-command']);
  expect(status).toBe(127);
  expect(stderr).toContain('no-such-command');
});

test('--help prints help and runs nothing', () => {
  const { status, stdout } = kreplay(['exec', '--help']);
  expect(status).toBe(0);
  expect(stdout).toContain('--transaction <id>');
});
