/**
 * Tests that a build experiences what the plan specifies, measured by the build's own clock. Delays are long and bounds
 * are wide: a call never takes less than planned, and how much more depends on the machine.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { OPS } from '../../../daemon/run/format/plan_file.ts';
import { MATCH_KINDS } from '../../../daemon/run/format/report_file.ts';
import { AS_NOBODY } from '../../unprivileged.ts';
import { ALL_OPS, planOf } from './plans.ts';
import { compileC, newFolder, numbersIn, readReport, removeFolder, run } from './run.ts';

const MS = 1_000_000;
const DELAY_NS = 20 * MS;
/** The most that calibration may subtract from a wait. */
const EARLY_NS = 0.1 * MS;
const LATE_NS = 1000 * MS;

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

const delayed = (count: number, size = 1) => Array.from({ length: count }, () => ({ targetNs: DELAY_NS, size }));

function expectDelayed(durations: readonly number[], count: number): void {
  expect(durations).toHaveLength(count);
  for (const duration of durations) {
    expect(duration).toBeGreaterThan(DELAY_NS - EARLY_NS);
    expect(duration).toBeLessThan(DELAY_NS + LATE_NS);
  }
}

describe('a static build', () => {
  test.each([
    ['by default', []],
    ['as an unprivileged user', AS_NOBODY],
    ['in a user namespace', ['unshare', '--user', '--map-root-user']],
  ])('%s observes the delay of each write, and writes the same', async (_, before) => {
    const plan = planOf([{ path: file, calls: delayed(5, 100) }]);
    const { code, stdout, line } = await run(folder, { plan, before, command: [build, 'writes', file, '5', '100'] });
    expect(code).toBe(0);
    expectDelayed(numbersIn(stdout), 5);
    expect(statSync(file).size).toBe(500);
    expect(line('ended')).toMatchObject({ exit_code: 0, signal: null, calls: 5, delayed: 5, unreplayed_events: 0 });
  });

  test('observes the delay of every call of the family', async () => {
    const calls = [{ targetNs: DELAY_NS }];
    const plan = planOf(ALL_OPS.map((op) => ({ op, path: file, tid: 7, calls })));
    const { stdout, line } = await run(folder, { plan, command: [build, 'family', file, '1', '64'] });
    // The helper cannot make the last call, msync, itself; the time that the other syncs took is subtracted from its
    // wait.
    expectDelayed(numbersIn(stdout).slice(0, 8), 8);
    expect(line('uncovered')).toEqual({ kind: 'uncovered', what: 'mmap', count: 1 });
    const { calls: report } = readReport(join(folder, 'report'));
    expect(report.map(({ how }) => how)).toEqual(Array(9).fill(MATCH_KINDS.size).fill(MATCH_KINDS.exact, 5));
    expect(report.map(({ size }) => size).slice(0, 5)).toEqual(Array(5).fill(64));
    expect(report.slice(5, 7).map(({ native_ns }) => native_ns > 0n)).toEqual([true, true]);
  });

  test('gets the planned errors after their delay, and nothing is written', async () => {
    const calls = [{ targetNs: DELAY_NS, size: 10, error: 28 }, { size: 10 }, { size: 10, error: 5 }];
    const plan = planOf([{ path: file, calls }]);
    const { stdout } = await run(folder, { plan, command: [build, 'writes', file, '3', '10'] });
    expect(stdout).toMatch(/^ENOSPC\n\d+\nEIO\n$/);
    expect(statSync(file).size).toBe(10);
    const { calls: report } = readReport(join(folder, 'report'));
    expect(report.map(({ how, error }) => [how, error])).toEqual([
      [MATCH_KINDS.error_injected, 28],
      [MATCH_KINDS.exact, 0],
      [MATCH_KINDS.error_injected, 5],
    ]);
    expect(Number(report[0]!.replied_ns - report[0]!.received_ns)).toBeGreaterThan(DELAY_NS - EARLY_NS);
  });

  test('makes progress despite signals', async () => {
    const plan = planOf([{ path: file, calls: delayed(10) }]);
    const { stdout } = await run(folder, { plan, command: [build, 'restarted', file, '10'] });
    expectDelayed(numbersIn(stdout), 10);
    expect(stdout).toContain('handled 1');
  });

  test('has each call counted that a signal interrupts before it is seen', async () => {
    const calls = Array.from({ length: 5000 }, () => ({ targetNs: MS / 10, size: 64 }));
    const plan = planOf([{ path: file, calls }]);
    const { stdout, line } = await run(folder, { plan, command: [build, 'interrupted', file, '5000', '64'] });
    const [interrupted] = numbersIn(stdout);
    expect(interrupted).toBeGreaterThan(0);
    expect(line('uncovered')).toEqual({ kind: 'uncovered', what: 'interrupted', count: interrupted });
    expect(line('ended')).toMatchObject({ calls: 5000, interrupted, unreplayed_events: 0 });
    expect(statSync(file).size).toBe(5000 * 64);
  });

  test.each([
    ['the stack of their thread', 'made_again'],
    ['a stack of their own', 'made_again_aside'],
  ])('has no call counted that the kernel makes again after the signal, with handlers on %s', async (_, what) => {
    const calls = Array.from({ length: 5000 }, () => ({ targetNs: MS / 10, size: 64 }));
    const plan = planOf([{ path: file, calls }]);
    const { stdout, line } = await run(folder, { plan, command: [build, what, file, '5000', '64'] });
    expect(numbersIn(stdout)).toEqual([0]);
    expect(line('ended')!.interrupted).toBeGreaterThan(10);
    expect(line('uncovered')?.count ?? 0).toBe(0);
  });

  test('is not blamed for the ends of threads that handle no signals', async () => {
    // Sixteen threads at once: some of their calls are always waiting to be received.
    const plan = planOf([{ path: file, comm: 'build_under_tes', calls: [{ targetNs: 1 }] }]);
    const script = 'for i in 1 2 3 4 5; do "$0" threads "$1" 1000000 16 & sleep 0.05; kill -9 $!; wait; done';
    const { lines, line } = await run(folder, { plan, command: ['dash', '-c', script, build, file] });
    expect(lines.filter(({ kind }) => kind === 'uncovered')).toEqual([]);
    expect(line('ended')!.interrupted).toBeGreaterThan(0);
  });

  test('waits in all its threads concurrently', async () => {
    // One after the other they would take 8 s.
    const targetNs = 50 * MS;
    const calls = Array.from({ length: 10 }, () => ({ targetNs, size: 1 }));
    const plan = planOf(Array.from({ length: 16 }, () => ({ path: file, comm: 'build_under_tes', calls })));
    const { stdout } = await run(folder, { plan, command: [build, 'threads', file, '10', '16'] });
    const [wall] = numbersIn(stdout);
    expect(wall).toBeGreaterThan(10 * (targetNs - EARLY_NS));
    expect(wall).toBeLessThan((16 * 10 * targetNs) / 2);
    expect(readReport(join(folder, 'report')).calls.map(({ how }) => how)).toEqual(Array(160).fill(MATCH_KINDS.exact));
  });

  test('is not delayed where the plan has nothing, and its outputs are not inspected', async () => {
    const targetNs = 30_000 * MS;
    const plan = planOf([{ path: '/elsewhere', calls: Array.from({ length: 5 }, () => ({ targetNs, size: 1 })) }]);
    const { stdout, line } = await run(folder, { plan, command: [build, 'writes', file, '5'] });
    expect(numbersIn(stdout).every((ns) => ns < targetNs / 2)).toBe(true);
    expect(line('ended')).toMatchObject({ calls: 5, delayed: 0, unreplayed_events: 5 });
    expect(readReport(join(folder, 'report')).calls.map(({ how }) => how)).toEqual(
      Array(5).fill(MATCH_KINDS.no_stream),
    );
  });

  test('is delayed there too if files without a plan are to be like others', async () => {
    const plan = planOf([{ path: '/elsewhere', calls: delayed(5) }]);
    const options = ['--unknown', 'class'];
    const { stdout, line } = await run(folder, { plan, options, command: [build, 'writes', file, '5'] });
    expectDelayed(numbersIn(stdout), 5);
    expect(line('ended')).toMatchObject({ calls: 5, delayed: 5, unreplayed_events: 5 });
    expect(readReport(join(folder, 'report')).calls.map(({ how }) => how)).toEqual(Array(5).fill(MATCH_KINDS.class));
  });

  test('with a threshold is delayed only by slow events', async () => {
    const plan = planOf([{ path: file, calls: [{ targetNs: DELAY_NS / 2, size: 1 }, ...delayed(1)] }]);
    const options = ['--threshold-ns', `${DELAY_NS}`];
    const { line } = await run(folder, { plan, options, command: [build, 'writes', file, '2'] });
    expect(line('ended')).toMatchObject({ delayed: 1, unreplayed_events: 0 });
    expect(readReport(join(folder, 'report')).calls.map(({ how }) => how)).toEqual([
      MATCH_KINDS.below_threshold,
      MATCH_KINDS.exact,
    ]);
  });

  test('with a threshold has no short event behind calls that have no event', async () => {
    const plan = planOf([{ path: file, calls: [{ targetNs: DELAY_NS / 2, size: 1 }, ...delayed(1)] }]);
    const options = ['--threshold-ns', `${DELAY_NS}`];
    await run(folder, { plan, options, command: [build, 'writes', file, '4'] });
    const kinds = readReport(join(folder, 'report')).calls.map(({ how }) => how);
    expect(kinds.filter((how) => how === MATCH_KINDS.below_threshold)).toHaveLength(1);
    expect(kinds).toHaveLength(4);
  });

  test('is not seen where the threshold is above all that the plan has of the kind', async () => {
    const plan = planOf([
      { path: file, calls: [{ targetNs: DELAY_NS, size: 1 }] },
      { path: file, op: 'fsync', calls: [{ targetNs: 2 * DELAY_NS }] },
    ]);
    const options = ['--threshold-ns', `${2 * DELAY_NS}`];
    const { lines } = await run(folder, { plan, options, command: [build, 'family', file, '1', '64'] });
    const streams = lines.filter(({ kind }) => kind === 'stream');
    expect(streams.map(({ op_class }) => op_class)).toEqual(['sync']);
    const { calls } = readReport(join(folder, 'report'));
    expect(calls.map(({ op }) => op)).toEqual([OPS.fsync, OPS.fdatasync, OPS.sync_file_range, OPS.msync]);
  });

  test('is seen, however high the threshold is, where one of its calls is to fail', async () => {
    const plan = planOf([{ path: file, calls: [{ size: 1 }, { size: 1, error: 28 }] }]);
    const options = ['--threshold-ns', `${DELAY_NS}`];
    const { stdout, line } = await run(folder, { plan, options, command: [build, 'writes', file, '2'] });
    expect([stdout.split('\n').at(1), line('ended')!.calls]).toEqual(['ENOSPC', 2]);
  });

  test('has its io_uring refused, and uncovered calls are counted', async () => {
    const plan = planOf([{ path: file, calls: delayed(1) }]);
    const { stdout, lines } = await run(folder, { plan, command: [build, 'uncovered', file] });
    expect(stdout).toBe('ENOSYS\n');
    expect(lines.filter(({ kind }) => kind === 'uncovered')).toEqual([
      { kind: 'uncovered', what: 'io_uring', count: 1 },
      { kind: 'uncovered', what: 'sendfile', count: 1 },
      { kind: 'uncovered', what: 'splice', count: 1 },
      { kind: 'uncovered', what: 'compat', count: 2 },
    ]);
  });

  test('has the same descriptors as without a replay', async () => {
    const plan = planOf([{ path: file, calls: delayed(1) }]);
    const { stdout } = await run(folder, { plan, command: [build, 'fds'] });
    expect(numbersIn(stdout)).toEqual([0, 1, 2]);
  });
});

describe('a standard descriptor', () => {
  /** Writes to a descriptor three times, and to a pipe on another one; prints how long the first took. */
  const WRITER = `
import os, sys, time
fd, said = int(sys.argv[1]), os.fdopen(9, 'w')
other = 2 if fd == 1 else 1
for _ in range(3):
    for one in (other, fd):
        before = time.monotonic_ns(); os.write(one, b'x' * 7); took = time.monotonic_ns() - before
        if one == fd: print(took, file=said)`;
  const python = (fd: number, redirected: string) => [
    ...['sh', '-c', `exec 9>&1; exec python3 -c "$0" ${fd} ${redirected}`, WRITER],
  ];

  test.each([0, 1, 2])(
    '%i is held if a file of the plan is on it, and its pipe is neither counted nor recorded',
    async (fd) => {
      const plan = planOf([{ path: file, comm: 'python3', calls: delayed(3, 7) }]);
      const command = python(fd, `${fd}>>${file}`);
      const { stdout, line } = await run(folder, { plan, command });
      expectDelayed(numbersIn(stdout.replaceAll('x', '')), 3);
      expect(readFileSync(file, 'utf8')).toBe('x'.repeat(21));
      const { calls } = readReport(join(folder, 'report'));
      expect(calls.filter(({ how }) => how === MATCH_KINDS.exact)).toHaveLength(3);
      // What the program says by descriptor 9 goes to no place of the plan.
      expect(calls.filter(({ how }) => how === MATCH_KINDS.no_stream)).toHaveLength(1);
      expect(line('ended')).toMatchObject({ calls: 4, delayed: 3, unreplayed_events: 0 });
    },
  );

  test('returns the errors of its file', async () => {
    const plan = planOf([{ path: file, comm: 'python3', calls: [{ size: 7 }, { size: 7, error: 28 }] }]);
    const { code, stderr } = await run(folder, { plan, command: python(1, `>${file}`) });
    expect([code, stderr]).toEqual([1, expect.stringContaining('No space left on device')]);
    expect(statSync(file).size).toBe(7);
  });

  test('with a file that the plan does not have is let be, like a pipe', async () => {
    const plan = planOf([{ path: '/elsewhere', comm: 'python3', calls: delayed(3, 7) }]);
    const options = ['--unknown', 'class'];
    const { line } = await run(folder, { plan, options, command: python(1, `>${file} 9>${file}2`) });
    // The only call is that by descriptor 9.
    expect(line('ended')).toMatchObject({ calls: 1, delayed: 1 });
  });
});

describe('programs that fork and exec', () => {
  test('a shell, its pipes and its background processes', async () => {
    const script = `(dd if=/dev/zero bs=100 count=2 | dd bs=100 of=${file} conv=notrunc 2>&1) & sleep 0; wait; cat ${file} | wc -c`;
    const plan = planOf([{ path: file, comm: 'dd', calls: delayed(2, 100) }]);
    const { code, stdout, line } = await run(folder, { plan, command: ['bash', '-c', script] });
    expect([code, stdout.trim().split('\n').at(-1)]).toEqual([0, '200']);
    expect(line('ended')).toMatchObject({ delayed: 2, unreplayed_events: 0 });
  });

  test('Python with a thread pool', async () => {
    const script = `
import os, sys, time, concurrent.futures as f
def one(i):
    with open(sys.argv[1] + str(i), 'wb', buffering=0) as file:
        before = time.monotonic_ns(); file.write(b'x' * 7); return time.monotonic_ns() - before
with f.ThreadPoolExecutor(4) as pool:
    for took in pool.map(one, range(4)): print(took)`;
    const plan = planOf(
      Array.from({ length: 4 }, (_, i) => ({ path: `${file}${i}`, comm: 'python3', calls: delayed(1, 7) })),
    );
    const { stdout } = await run(folder, { plan, command: ['python3', '-c', script, file] });
    expectDelayed(numbersIn(stdout), 4);
    expect(readFileSync(`${file}3`, 'utf8')).toBe('xxxxxxx');
  });
});

describe('files whose names differ in digits', () => {
  /** Writes once to each named file, in order, and prints how long each write took. */
  const WRITER = `
import os, sys, time
for name in sys.argv[1:]:
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    before = time.monotonic_ns()
    try: os.write(file, b'1234567')
    except OSError as error: print('errno', error.errno); continue
    print(time.monotonic_ns() - before)
    os.close(file)`;
  const slow = { targetNs: DELAY_NS, size: 7 };
  const quick = { targetNs: 1, size: 7 };
  const planFor = (calls: Record<string, object>) =>
    planOf(Object.entries(calls).map(([name, call]) => ({ path: join(folder, name), comm: 'python3', calls: [call] })));

  /** How long the runner held each write, which it then took at least, or the error that it got. */
  async function timesOf(plan: Buffer, names: readonly string[], options: readonly string[] = []) {
    const paths = names.map((name) => join(folder, name));
    const { stdout } = await run(folder, { plan, options, command: ['python3', '-c', WRITER, ...paths] });
    const lines = stdout.trim().split('\n');
    const held = readReport(join(folder, 'report')).calls.map(({ target_ns }) => Number(target_ns));
    expect(held).toHaveLength(lines.length);
    expect(lines.filter((line, i) => held[i] === DELAY_NS && Number(line) < DELAY_NS - EARLY_NS)).toEqual([]);
    return lines.map((line, i) => (line.startsWith('errno') ? line : held[i] === DELAY_NS ? 'slow' : 'quick'));
  }

  test('have their own delays, in whichever order they are written', async () => {
    const plan = planFor({ 'shard1.log': slow, 'shard2.log': quick });
    expect(await timesOf(plan, ['shard1.log', 'shard2.log'])).toEqual(['slow', 'quick']);
    expect(await timesOf(plan, ['shard2.log', 'shard1.log'])).toEqual(['quick', 'slow']);
  });

  test("stand for the incident's files with random names, each for one, in their order", async () => {
    const plan = planFor({ 'tmp.11': slow, 'tmp.12': quick, 'tmp.13': slow });
    expect(await timesOf(plan, ['tmp.7001', 'tmp.7002', 'tmp.7003'])).toEqual(['slow', 'quick', 'slow']);
  });

  test('do not stand for a file that is written here under its own name', async () => {
    const plan = planFor({ 'seg-1': slow, 'seg-2': quick });
    expect(await timesOf(plan, ['seg-1', 'seg-9', 'seg-1', 'seg-9'])).toEqual(['slow', 'quick', 'slow', 'quick']);
  });

  test('never get the error of a rule for another path', async () => {
    const plan = planFor({ 'data-1': { ...quick, error: 28 } });
    const rule = ['--rule-path', '*/data-1'];
    expect(await timesOf(plan, ['data-1', 'data-2'], rule)).toEqual(['errno 28', 'quick']);
    expect(await timesOf(plan, ['data-2'], rule)).toEqual(['quick']);
    // A rule that matches both paths also applies to a file that only stands for the recorded one.
    expect(await timesOf(plan, ['data-2'], ['--rule-path', '*/data-*'])).toEqual(['errno 28']);
  });
});

describe('on an old kernel, in a container', () => {
  let old = '';
  beforeAll(() => {
    old = compileC('old_kernel');
  });

  test('a wait that signals interrupt continues, and completes', async () => {
    const plan = planOf([{ path: file, calls: delayed(10) }]);
    const { stdout, line } = await run(folder, { plan, before: [old], command: [build, 'restarted', file, '10'] });
    expect(line('calibrated')?.features).toEqual({ wait_killable: false, sync_wake_up: false, pidfd_getfd: false });
    expectDelayed(numbersIn(stdout), 10);
    expect(stdout).toContain('handled 1');
    expect(statSync(file).size).toBe(10);
    expect(line('ended')).toMatchObject({ calls: 10, delayed: 10, unreplayed_events: 0 });
    expect(readReport(join(folder, 'report')).calls).toHaveLength(10);
  });

  test('syncs wait before they are made', async () => {
    const calls = [{ targetNs: DELAY_NS }];
    const plan = planOf(ALL_OPS.map((op) => ({ op, path: file, tid: 7, calls })));
    const { stdout } = await run(folder, { plan, before: [old], command: [build, 'family', file, '1', '64'] });
    expectDelayed(numbersIn(stdout), 9);
  });
});

test('a local path stands for another path in the recording', async () => {
  const plan = planOf([{ path: '/prod/data/seg-0000001f.log', calls: delayed(2) }]);
  const here = join(folder, 'seg-9.log');
  const options = ['--map', `${folder}=/prod/data`];
  const { stdout, line } = await run(folder, { plan, options, command: [build, 'writes', here, '2'] });
  expectDelayed(numbersIn(stdout), 2);
  expect(line('stream')).toMatchObject({ op_class: 'write', path: '/prod/data/seg-0000001f.log', recorded_events: 2 });
});
