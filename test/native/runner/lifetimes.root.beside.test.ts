/**
 * Tests how runs end: exit codes, signals, deaths of any process involved, that no process is ever left behind, and that
 * no other is ended.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { planOf } from './plans.ts';
import { compileC, leftOf, newFolder, RUNNER, removeFolder, run, startRun } from './run.ts';

const LONG_NS = 60_000_000_000;
const POLL_MS = 20;
/** A build that writes nothing for this long is considered held. */
const STILL_MS = 500;

let build = '';
let folder = '';
let file = '';
beforeAll(() => {
  build = compileC('build_under_test');
});
beforeEach(() => {
  folder = newFolder();
  file = join(folder, 'out');
});
afterEach(() => removeFolder(folder));

const quick = () => planOf([{ path: file, calls: [{ targetNs: 1_000_000 }] }]);
const endless = () => planOf([{ path: file, calls: Array.from({ length: 64 }, () => ({ targetNs: LONG_NS })) }]);

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(POLL_MS);
}

/** Returns the guardian of a run: the helper's only child. */
function guardianOf(pid: number): number {
  return Number(execFileSync('pgrep', ['-P', `${pid}`], { encoding: 'utf8' }).trim());
}

describe('exit codes', () => {
  test.each([
    ['of a command that succeeds', ['true'], { code: 0, signal: null }],
    ['of a command that fails', ['sh', '-c', 'exit 42'], { code: 42, signal: null }],
    ['of a command that a signal ends', ['sh', '-c', 'kill -TERM $$'], { code: 143, signal: 'SIGTERM' }],
  ])('are those %s', async (_, command, { code, signal }) => {
    const ended = await run(folder, { plan: quick(), command });
    expect(ended.code).toBe(code);
    expect(ended.line('ended')).toMatchObject({ exit_code: code, signal });
  });

  test('a build that crashes', async () => {
    const ended = await run(folder, { plan: quick(), command: [build, 'crash'] });
    expect([ended.code, ended.line('ended')?.signal]).toEqual([139, 'SIGSEGV']);
  });

  test('127 for a missing command, 126 for one that cannot be run', async () => {
    const absent = await run(folder, { plan: quick(), command: ['/nowhere/build'] });
    expect(absent.code).toBe(127);
    expect(absent.line('failed')).toEqual({ kind: 'failed', reason: '/nowhere/build: No such file or directory' });
    const refused = await run(folder, { plan: quick(), command: [folder] });
    expect([refused.code, refused.line('failed')?.reason]).toEqual([126, `${folder}: Permission denied`]);
  });

  test('a failure is reported once: on the control channel, or on stderr if there is none', async () => {
    const told = await run(folder, { plan: quick(), command: ['/nowhere/build'] });
    expect([told.line('failed'), told.stderr]).toEqual([expect.anything(), '']);
    const plan = join(folder, 'plan');
    writeFileSync(plan, quick());
    const { status, stderr } = spawnSync(RUNNER, ['--plan', plan, '--', '/nowhere/build'], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([127, 'kreplay-runner: /nowhere/build: No such file or directory\n']);
  });

  test('125 with a reason for what this program does not support', async () => {
    const plan = join(folder, 'plan');
    writeFileSync(plan, 'no plan at all');
    const damaged = await run(folder, { plan, command: ['touch', file] });
    expect([damaged.code, damaged.line('failed')?.reason]).toEqual([
      125,
      `plan ${plan}: not a plan: 14 bytes are too few`,
    ]);
    const unwritable = await run(folder, { plan: quick(), command: ['touch', file], report: '/nowhere/report' });
    expect([unwritable.code, unwritable.line('failed')?.reason]).toEqual([
      125,
      'report /nowhere/report: No such file or directory',
    ]);
    expect(existsSync(file)).toBe(false);
  });

  test('125 when the disk of the report is full at its start', async () => {
    const { code, line } = await run(folder, { plan: quick(), command: [build, 'writes', file], report: '/dev/full' });
    expect([code, line('failed')?.reason]).toEqual([125, 'report: No space left on device']);
  });

  test('125 when the disk of the report becomes full, after a build that was not affected', async () => {
    const disk = join(folder, 'disk');
    mkdirSync(disk);
    const before = ['unshare', '--mount', 'sh', '-ec', `mount -t tmpfs -o size=4k tmpfs ${disk}; exec "$@"`, 'sh'];
    const report = join(disk, 'report');
    const ended = await run(folder, { plan: quick(), before, report, command: [build, 'writes', file, '200'] });
    expect([ended.code, ended.line('ended')?.exit_code, statSync(file).size]).toEqual([125, 0, 200]);
    expect(ended.line('failed')?.reason).toMatch(/^report .*: No space left on device, \d+ calls are missing$/);
  });

  test.each([
    [['--speed', '2'], /--speed: unknown option/],
    [['--mode', 'best'], /--mode best: expected one of auto, align, ordinal, dist, stall/],
    [['--seed', '-1'], /--seed -1: expected a whole number/],
    [['--map', 'x'], /--map x: expected a path here, =/],
    [['--control-fd', '77'], /--control-fd 77: Bad file descriptor/],
  ])('125 for %j', async (options, reason) => {
    const { code, stderr } = await run(folder, { plan: quick(), options, command: ['true'] });
    expect([code, stderr]).toEqual([125, expect.stringMatching(reason)]);
  });
});

/** Simulates a kernel that stops delivering seccomp notifications. */
describe('calls that cannot be received', () => {
  test.each([
    ['from the start', 1, /^calls cannot be received: Input\/output error$/],
    ['later', 400, /^calls of the command can no longer be received: Input\/output error; it was ended$/],
  ])('%s: the run fails, and nothing remains', async (_, from, reason) => {
    const command = [build, 'write_on', file, '1000'];
    const inject = `inject=ioctl:error=EIO:when=${from}+`;
    const before = ['strace', '-f', '-o', '/dev/null', '-e', 'trace=ioctl', '-e', inject];
    const { code, line } = await run(folder, { plan: quick(), before, command });
    expect([code, line('failed')?.reason]).toEqual([125, expect.stringMatching(reason)]);
  });
});

describe('builds with unusual behaviour', () => {
  test('one that closes all its descriptors', async () => {
    expect((await run(folder, { plan: quick(), command: [build, 'close_all', file, '3'] })).code).toBe(0);
  });

  test('one with its own seccomp filter', async () => {
    const { code, line } = await run(folder, { plan: quick(), command: [build, 'own_filter', file] });
    expect(line('uncovered')).toBeUndefined();
    expect([code, line('ended')?.delayed]).toEqual([0, 1]);
  });

  test('one that asks for its own listener gets the error that there is one', async () => {
    const { stdout, line } = await run(folder, { plan: quick(), command: [build, 'own_listener', file] });
    expect(stdout).toMatch(/^EBUSY\n\d+\n$/);
    expect(line('uncovered')).toEqual({ kind: 'uncovered', what: 'seccomp_listener', count: 1 });
  });

  test('a nested run reports why it cannot work', async () => {
    const { plan, report } = { plan: join(folder, 'inner'), report: join(folder, 'inner-report') };
    writeFileSync(plan, quick());
    const inner = [RUNNER];
    const words = [...inner, '--plan', plan, '--report', report, '--', 'true'];
    const { code, stderr } = await run(folder, { plan: quick(), command: words });
    expect([code, stderr]).toEqual([125, expect.stringContaining('a seccomp listener is there already')]);
  });

  test('a process that reused the PID of the ended command as its group leader is not signalled', async () => {
    const program = `
import os, subprocess, sys, time
run = subprocess.Popen(sys.argv[2:], close_fds=False)
while not os.path.exists(sys.argv[1]) or not os.path.getsize(sys.argv[1]): time.sleep(0.01)
pid = int(open(sys.argv[1]).read())
while os.path.exists(f'/proc/{pid}'): time.sleep(0.01)
# A thread that comes and goes may have the number for a moment.
for attempt in range(50):
    open('/proc/sys/kernel/ns_last_pid', 'w').write(str(pid - 1))
    stranger = os.fork()
    if stranger == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)
    if stranger == pid: break
    os.kill(stranger, 9)
    os.waitpid(stranger, 0)
    time.sleep(0.01)
code = run.wait()
print(stranger == pid, code, os.waitpid(stranger, os.WNOHANG))
os.kill(stranger, 9)`;
    const pid = join(folder, 'pid');
    const { stdout } = await run(folder, {
      plan: quick(),
      before: ['unshare', '--pid', '--fork', '--mount-proc', 'python3', '-c', program, pid],
      options: ['--linger-ns', '1000000000'],
      command: ['sh', '-c', `setsid sleep 60 & echo $$ > ${pid}`],
    });
    expect(stdout).toBe('True 0 (0, 0)\n');
  });

  test('a daemon is served for a while, and then terminated', async () => {
    const options = ['--linger-ns', '1000000000'];
    const { code, line } = await run(folder, { plan: quick(), options, command: [build, 'daemon', file] });
    expect(code).toBe(0);
    expect(line('ended')).toMatchObject({ exit_code: 0, outlived: 1 });
    expect(line('ended')!.calls).toBeGreaterThan(1);
    expect(readFileSync(file).length).toBeGreaterThan(1);
  });

  test('a process that outlives the command but ends by itself is waited for', async () => {
    const command = ['sh', '-c', `(sleep 0.3; echo late > ${file}) &`];
    const options = ['--linger-ns', '60000000000'];
    const { code, line } = await run(folder, { plan: quick(), options, command });
    expect([code, line('ended')?.outlived, readFileSync(file, 'utf8')]).toEqual([0, 0, 'late\n']);
  });
});

describe('signals', () => {
  test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('%s is passed on to the build', async (signal) => {
    const started = startRun(folder, {
      plan: quick(),
      command: ['sh', '-c', 'trap "exit 7" INT TERM HUP; echo ready; while :; do sleep 0.05; done'],
    });
    await started.hears('ready');
    started.child.kill(signal);
    expect((await started.ended).code).toBe(7);
    expect(await leftOf(started.mark)).toEqual([]);
  });

  test('a build that ignores them is killed after 5 s, with all its processes', async () => {
    const started = startRun(folder, { plan: quick(), command: [build, 'ignore_term'] });
    await started.hears('ready');
    const from = performance.now();
    started.child.kill('SIGTERM');
    expect((await started.ended).code).toBe(137);
    expect(performance.now() - from).toBeGreaterThan(4900);
    expect(await leftOf(started.mark)).toEqual([]);
  });

  test('a held build ends immediately when it is terminated', async () => {
    const started = startRun(folder, { plan: endless(), command: [build, 'write_on', file, '1'] });
    await started.hears('ready');
    started.child.kill('SIGTERM');
    expect((await started.ended).code).toBe(143);
  });
});

describe('death of', () => {
  test('the helper: the build is killed too, and observes no error', async () => {
    const started = startRun(folder, { plan: endless(), command: [build, 'threads', file, '1', '8'] });
    await until(() => existsSync(file));
    started.child.kill('SIGKILL');
    const { stdout } = await started.ended;
    expect(stdout).toBe('');
    expect(await leftOf(started.mark)).toEqual([]);
  });

  test('the helper: daemons of the build are killed too', async () => {
    const started = startRun(folder, { plan: quick(), command: [build, 'daemon', file] });
    await until(() => existsSync(file) && readFileSync(file).length > 3);
    started.child.kill('SIGKILL');
    await started.ended;
    expect(await leftOf(started.mark)).toEqual([]);
  });

  test('the guardian: the helper terminates the rest, and reports it', async () => {
    const started = startRun(folder, { plan: quick(), command: [build, 'ignore_term'] });
    await started.hears('ready');
    process.kill(guardianOf(started.child.pid!), 'SIGKILL');
    const { code, line } = await started.ended;
    expect([code, line('failed')?.reason]).toEqual([125, 'the process that watches over the command was killed']);
    expect(await leftOf(started.mark)).toEqual([]);
  });

  test('the listener: delays end, and the build is asked to end', async () => {
    const command = ['sh', '-c', `trap "exit 9" TERM; echo ready; echo x > ${file}; while :; do sleep 0.05; done`];
    const started = startRun(folder, { plan: endless(), command });
    await started.hears('ready');
    started.control.destroy();
    expect((await started.ended).code).toBe(9);
    expect(await leftOf(started.mark)).toEqual([]);
  });

  test('the listener before the first line was written to it: the build is asked to end', async () => {
    const started = startRun(folder, { plan: endless(), command: [build, 'write_on', file, '1'] });
    started.control.destroy();
    expect((await started.ended).code).toBe(143);
    expect(await leftOf(started.mark)).toEqual([]);
  });
});

test('passthrough releases held calls, resume holds them again, stop ends', async () => {
  const command = ['sh', '-c', `while :; do ${build} writes ${file} 1 >/dev/null; done`];
  const started = startRun(folder, { plan: endless(), command });
  const size = () => (existsSync(file) ? statSync(file).size : 0);
  await until(() => existsSync(file));
  expect(size()).toBe(0);
  started.control.write('passthrough\n');
  await until(() => size() > 3);
  started.control.write('resume\n');
  for (let before = -1; before !== size(); await sleep(STILL_MS)) before = size();
  started.control.write('stop\n');
  expect((await started.ended).code).toBe(143);
  expect(await leftOf(started.mark)).toEqual([]);
});

test('a PID that was reused after the look at /proc is not signalled, and another one is', () => {
  const words = ['--pid', '--fork', '--mount-proc', compileC('tree_driver')];
  expect(execFileSync('unshare', words, { encoding: 'utf8' })).toBe('kept killed\n');
});

test('the probe reports the features of this kernel', () => {
  expect(JSON.parse(execFileSync(RUNNER, ['--probe'], { encoding: 'utf8' }))).toMatchObject({
    user_notif: true,
    listener: true,
    floor_ns: expect.any(Number),
  });
});
