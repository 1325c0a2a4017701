/** Tests that a run says so if signals may have made calls of the command fail that never fail without kreplay. */
import { join } from 'node:path';
import { createRunnerStatus } from '../../../daemon/run/control_lines.ts';
import { addInterrupted, type Judgement } from '../../../daemon/run/report/verdict.ts';
import { newFolder } from '../recorded.ts';
import { bundleOf, run, writesTo } from './incident.ts';

const judged = (verdict: Judgement['verdict'], count?: number) => {
  const said = createRunnerStatus();
  if (count !== undefined) said.uncovered.set('interrupted', count);
  return addInterrupted({ verdict, reasons: [] }, said, 100);
};

test('a run with interrupted calls says how many they may be, and is no better than partial with more than a few', () => {
  expect(judged('replayed')).toEqual({ verdict: 'replayed', reasons: [] });
  expect(judged('replayed', 5)).toEqual({ verdict: 'replayed', reasons: [expect.stringMatching(/ 5$/)] });
  expect(judged('replayed', 6)).toEqual({ verdict: 'partial', reasons: [expect.stringMatching(/ 6$/)] });
  expect(judged('partial', 12)).toEqual({ verdict: 'partial', reasons: [expect.stringMatching(/ 12$/)] });
  expect(judged('diverged', 12)).toEqual({ verdict: 'diverged', reasons: [expect.stringContaining('EINTR')] });
});

/** A timer's handler without SA_RESTART; each write that it interrupts is made again. */
const WRITER = `
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
left, failed = 3000, 0
while left > 0:
    if libc.write(file, b'x', 1) == 1: left -= 1
    else: failed += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(failed)`;

test('as many calls as a program of handlers without SA_RESTART sees fail', async () => {
  const file = join(newFolder(), 'out');
  const calls = Array.from({ length: 3000 }, () => 0.1);
  const bundle = bundleOf(writesTo(file, calls, { fd: 5, comm: 'python3', requested: 1n, result: 1n }));
  const { code, stdout, stderr, result } = await run(bundle, [], ['python3', '-c', WRITER, file]);
  const failed = Number(stdout);
  expect([code, failed > 0]).toEqual([0, true]);
  expect([result.verdict, result.uncovered.interrupted]).toEqual(['partial', failed]);
  expect(stderr).toContain(`in doubt: up to ${failed} calls that signals interrupted`);
});

test('where the threshold leaves out all writes, none is interrupted and no file is called never called', async () => {
  const file = join(newFolder(), 'out');
  const bundle = bundleOf(writesTo(file, [0.1, 0.1], { fd: 5, comm: 'python3', requested: 1n, result: 1n }));
  const { stdout, stderr, result } = await run(bundle, ['--threshold', '1ms'], ['python3', '-c', WRITER, file]);
  expect([stdout, result.uncovered, result.figures!.calls]).toEqual(['0\n', {}, 0]);
  expect(stderr).not.toContain('never called');
});
