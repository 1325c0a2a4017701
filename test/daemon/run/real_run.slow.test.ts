/**
 * Tests existing programs under incidents: their results are unchanged, and they experience the waits by their own
 * clocks. Waits are never shorter than planned by more than a little; how much longer they get depends on the machine.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hosted } from '../hosted.ts';
import { newFolder } from '../recorded.ts';
import { bundleOf, MS, run, writesTo } from './incident.ts';
import { TRANSACTION } from './planned.ts';

const LENGTHS = [20, 30, 5, 40, 25];
const SUM_SECONDS = 0.12;
/** The most that the runner subtracts from each wait for its own wake-up. */
const EARLY_SECONDS = 0.002;

let file: string;
beforeEach(() => {
  file = join(newFolder(), 'out');
});

const dd = (to: string, count: number, ...more: string[]) => [
  ...['dd', 'if=/dev/zero', `of=${to}`, 'bs=4096', `count=${count}`],
  ...more,
];

const numbersIn = (text: string) => text.trim().split('\n').map(Number);

/** Expects one duration in seconds for each write of the incident. */
function expectFelt(seconds: readonly number[]): void {
  expect(seconds).toHaveLength(LENGTHS.length);
  for (const [at, ms] of LENGTHS.entries()) expect(seconds[at]).toBeGreaterThan(ms / 1000 - EARLY_SECONDS);
}

/** Reads the duration from dd's output: `..., 0.1207 s, ...`. */
function secondsOf(stderr: string): number {
  return Number(/, ([\d.e-]+) s,/.exec(stderr)![1]);
}

test('dd takes as long as its writes did in the incident', async () => {
  const { code, stderr, result } = await run(bundleOf(writesTo(file, LENGTHS)), [], dd(file, 5));
  expect(code).toBe(0);
  expect(readFileSync(file)).toEqual(Buffer.alloc(5 * 4096));
  expect(secondsOf(stderr)).toBeGreaterThan(SUM_SECONDS - 5 * EARLY_SECONDS);
  expect(result.figures).toMatchObject({ matched_by_duration: 1, how: { exact: 5 }, fates: { delivered: 5 } });
  expect(stderr).toContain('kreplay run: 100% of 120ms planned went to the calls it belongs to; 5 of the 5 slowest');
});

test('busybox, a static program, takes as long as strace measures', async () => {
  // A static program has no interpreter that could load a library into it.
  expect(readFileSync('/usr/bin/busybox').subarray(0, 4096).includes('ld-linux')).toBe(false);
  const bundle = bundleOf(writesTo(file, LENGTHS, { comm: 'busybox' }));
  const trace = join(newFolder(), 'trace');
  const traced = ['strace', '-T', '-e', 'trace=write', '-o', trace, '/usr/bin/busybox'];
  const { code, stderr } = await run(bundle, [], [...traced, ...dd(file, 5)]);
  expect([code, stderr]).toEqual([0, expect.stringContaining('5+0 records out')]);
  expect(readFileSync(file)).toEqual(Buffer.alloc(5 * 4096));
  const felt = [...readFileSync(trace, 'utf8').matchAll(/^write\(1, .* = 4096 <([\d.]+)>$/gm)].map(([, text]) =>
    Number(text),
  );
  expectFelt(felt);
});

test('bash measures the delay of each of its writes', async () => {
  const script = `
for i in 1 2 3 4 5; do
  from=\${EPOCHREALTIME/./}; echo $i >> "$0"; echo $((\${EPOCHREALTIME/./} - from))
done`;
  const bundle = bundleOf(writesTo(file, LENGTHS, { comm: 'bash', requested: 2n }));
  const { stdout } = await run(bundle, [], ['bash', '-ec', script, file]);
  expect(readFileSync(file, 'utf8')).toBe('1\n2\n3\n4\n5\n');
  expectFelt(numbersIn(stdout).map((us) => us / 1e6));
});

test('speed, extra latency and a threshold change the waits, and the sum is as planned', async () => {
  const bundle = bundleOf(writesTo(file, LENGTHS));
  const options = ['--speed', '2', '--extra-latency', '10ms', '--threshold', '20ms'];
  const { result } = await run(bundle, options, dd(file, 5));
  // The waits in ms are 20, 25, (12.5), 30 and 22.5; the one in parentheses is below the threshold.
  expect(result.figures).toMatchObject({ considered_events: 4, planned_ns: 97_500_000, matched_by_duration: 1 });
  expect(result.figures!.injected_ns).toBeGreaterThan(97_500_000 - 4 * EARLY_SECONDS * 1e9);
});

test('a sync waits as long as the disk took, even if only block requests were recorded', async () => {
  const rows = [
    ...writesTo(file, [1]),
    ...writesTo(file, [1]).map(({ at, tid, comm }) => {
      return { type: 'block_io' as const, at: at + 10n * MS, duration: 150n * MS, tid: tid!, comm: comm! };
    }),
  ];
  const { stderr, result } = await run(bundleOf(rows), [], dd(file, 1, 'conv=fsync'));
  expect(secondsOf(stderr)).toBeGreaterThan(0.151 - 2 * EARLY_SECONDS);
  expect(result.figures).toMatchObject({ how: { exact: 2 }, fates: { delivered: 2 } });
});

test('a shell script: redirections are delayed, also in children', async () => {
  const bundle = bundleOf(writesTo(file, LENGTHS, { comm: 'sh', requested: 2n }));
  const script = `for i in 1 2 3 4; do echo $i >> ${file}; done; sh -c 'echo 5 >> ${file}'; date +%s%N`;
  const started = BigInt(Date.now()) * MS;
  const { code, stdout, result } = await run(bundle, [], ['sh', '-c', script]);
  expect([code, readFileSync(file, 'utf8')]).toEqual([0, '1\n2\n3\n4\n5\n']);
  expect(BigInt(stdout.trim()) - started).toBeGreaterThan(110n * MS);
  expect(result.figures!.calls).toBeGreaterThanOrEqual(5);
});

test('Python measures the delay of each of its writes', async () => {
  const program = [
    'import os, sys, time',
    'f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)',
    'for i in range(5):',
    '  t = time.monotonic(); os.write(f, b"x" * 4096); print(time.monotonic() - t)',
  ].join('\n');
  const { stdout } = await run(bundleOf(writesTo(file, LENGTHS, { fd: 5 })), [], ['python3', '-c', program, file]);
  expectFelt(numbersIn(stdout));
});

test('an injected error is returned to the program, at the write that the rule names', async () => {
  const bundle = bundleOf(writesTo(file, LENGTHS));
  const { code, stderr, result } = await run(bundle, ['--fail', 'sys_write:ENOSPC:nth=3'], dd(file, 5));
  expect(code).toBe(1);
  expect(stderr).toContain('No space left on device');
  expect(readFileSync(file)).toEqual(Buffer.alloc(2 * 4096));
  expect(result.figures!.how).toMatchObject({ exact: 2, error_injected: 1 });
});

test('mode stall: writes during a stall of the incident wait for its end, in a build that writes differently', async () => {
  // 300 ms after the start, a write of another size by another program takes 400 ms.
  const [first, stall] = writesTo(file, [1, 400], { comm: 'server', requested: 100_000n });
  const bundle = bundleOf([first!, { ...stall!, at: first!.at + 300n * MS }]);
  const program = [
    'import os, sys, time',
    'f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)',
    'start = time.monotonic()',
    'while time.monotonic() - start < 0.9:',
    '  t = time.monotonic(); os.write(f, b"x"); print(t - start, time.monotonic() - start); time.sleep(0.02)',
  ].join('\n');
  const { code, stdout, stderr, result } = await run(bundle, ['--mode', 'stall'], ['python3', '-c', program, file]);
  const writes = stdout
    .trim()
    .split('\n')
    .map((line) => line.split(' ').map(Number) as [number, number]);
  const [stalled, ...more] = writes.filter(([from, to]) => to - from > 0.2);
  expect([code, more]).toEqual([0, []]);
  expect(stalled![0]).toBeGreaterThan(0.299);
  expect(stalled![1]).toBeGreaterThan(0.7 - EARLY_SECONDS);
  expect(result.figures!.how.stall).toBe(writes.length);
  expect(stderr).toMatch(/kreplay run: [\d.]+ms of waits where 401ms were planned\n/);
});

test('latency for some calls', async () => {
  const bundle = bundleOf(writesTo(file, [1, 1]));
  const { result } = await run(bundle, ['--inject', `sys_write:path=${file}:extra=100ms`], dd(file, 2));
  expect(result.figures!.planned_ns).toBe(202_000_000);
  expect(result.figures!.injected_ns).toBeGreaterThan(200_000_000 - 2 * EARLY_SECONDS * 1e9);
});

test('a path that has another name here', async () => {
  const bundle = bundleOf(writesTo('/production/data/out', LENGTHS));
  const map = `${file.slice(0, -'/out'.length)}=/production/data`;
  const { result } = await run(bundle, ['--map', map], dd(file, 5));
  expect(result).toMatchObject({ figures: { matched_by_duration: 1 } });
  // On a busy machine the replay is only partial.
  expect(result.reasons.filter((reason) => !reason.startsWith('the machine is too noisy: '))).toEqual([]);
});

describe('a build that replays nothing of the incident', () => {
  const started = (...words: string[]) => {
    const bundle = bundleOf(writesTo('/production/data/orders', LENGTHS));
    return hosted('run', '--bundle', bundle, '--transaction', TRANSACTION, ...words);
  };
  const lastOf = (text: string) => text.trimEnd().split('\n').at(-1);

  test('fails, and the last line says what to do', async () => {
    const { code, stderr } = await started('--', ...dd(file, 5));
    expect([code, lastOf(stderr)]).toEqual([
      124,
      'kreplay run: FAILED: the run is diverged, and --require asks for partial: pass --map HERE=THERE if files of the ' +
        'incident lie elsewhere here, or pass --require none to judge the command by its exit code alone',
    ]);
    expect(stderr).toContain('kreplay run: --require partial: not met, it was diverged');
  });

  test('passes with --require none, and fails with an error of its own in any case', async () => {
    const passed = await started('--require', 'none', '--', ...dd(file, 5));
    expect([passed.code, lastOf(passed.stderr)]).toEqual([
      0,
      expect.stringMatching(/^kreplay run: the command ended with 0/),
    ]);
    const failed = await started('--', 'sh', '-c', 'exit 7');
    expect([failed.code, lastOf(failed.stderr)]).toEqual([
      7,
      expect.stringMatching(
        /^kreplay run: FAILED: the command ended with 7, which says nothing about the incident, as the run is diverged/,
      ),
    ]);
  });

  test('does not end a search for a latency with a latency at which it would fail', async () => {
    const options = ['--repeat', '5', '--vary-latency', '0..5ms'];
    const { code, stderr } = await started(...options, '--', ...dd(file, 5));
    expect(code).toBe(124);
    expect(stderr).toContain('kreplay run: the search ended with --extra-latency 5ms: a run that is diverged');
    expect(stderr).not.toContain('2 of 5');
  });

  test('is no expected failure either', async () => {
    const { code, stderr } = await started('--expect-exit', '7', '--', 'sh', '-c', 'exit 7');
    expect([code, lastOf(stderr)]).toEqual([124, expect.stringContaining('FAILED: the run is diverged')]);
  });
});

test.each([
  [['sh', '-c', 'exit 7'], 7],
  [['sh', '-c', 'kill -TERM $$'], 143],
])('%j: kreplay exits with its exit code: %s', async (command, code) => {
  const bundle = bundleOf(writesTo(file, [1]));
  expect((await run(bundle, [], command)).code).toBe(code);
  expect((await run(bundle, ['--expect-exit', `${code}`], command)).code).toBe(0);
  expect((await run(bundle, ['--expect-exit', '9'], command)).code).toBe(124);
});

/** The main use case: the test passes on a calm machine, and the incident shows that its timeout is too short. */
test('a timeout that is too short for the incident, and one that is long enough', async () => {
  const program = join(newFolder(), 'client.py');
  const lines = [
    'import os, sys, time',
    'timeout = float(sys.argv[2])',
    'f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)',
    't = time.monotonic()',
    'os.write(f, b"x" * 4096)',
    'os.fsync(f)',
    'sys.exit("too late" if time.monotonic() - t > timeout else 0)',
  ];
  writeFileSync(program, `${lines.join('\n')}\n`);
  // A disk that others use takes some time for the sync alone.
  const bundle = bundleOf(writesTo(file, [1300], { fd: 5 }));
  const client = (timeout: string) => ['python3', program, file, timeout];
  expect((await run(bundle, ['--threshold', '2s'], client('1'))).code).toBe(0);
  const late = await run(bundle, [], client('1'));
  expect([late.code, late.stderr]).toEqual([1, expect.stringContaining('too late')]);
  expect((await run(bundle, [], client('20'))).code).toBe(0);
});
