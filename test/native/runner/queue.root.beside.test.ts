/** Tests how long calls are reported to have waited for the helper, against times that the program itself measured. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { planOf } from './plans.ts';
import { compileC, newFolder, readReport, removeFolder, run } from './run.ts';

const MS = 1_000_000;

let folder = '';
beforeEach(() => {
  folder = newFolder();
});
afterEach(() => removeFolder(folder));

interface Felt {
  waitedNs: number;
  queuedNs: number;
}

async function felt(threads: number, calls: number): Promise<Felt[]> {
  const file = join(folder, 'out');
  const planned = Array.from({ length: threads }, (_, at) => {
    return {
      path: file,
      comm: 'crowd',
      tid: 1000 + at,
      calls: Array.from({ length: calls }, () => ({ targetNs: 20 * MS })),
    };
  });
  const command = [compileC('crowd'), file, `${threads}`, `${calls}`];
  const { code, stdout } = await run(folder, { plan: planOf(planned), command });
  expect(code).toBe(0);
  const seen = Map.groupBy(readReport(join(folder, 'report')).calls, ({ tid }) => tid);
  for (const own of seen.values()) own.sort((one, other) => Number(one.received_ns - other.received_ns));
  return stdout
    .trim()
    .split('\n')
    .map((line) => {
      const [tid, began] = line.split(' ').map(Number) as [number, number];
      const call = seen.get(tid)!.shift()!;
      return { waitedNs: Number(call.received_ns) - began, queuedNs: call.queued_ns };
    });
}

const at = (values: number[], share: number) =>
  values.sort((one, other) => one - other)[Math.floor(values.length * share)]!;

test.each([
  [1000, 5],
  [64, 10],
  [2, 100],
])('%s threads: the reported delay is not less than they waited', async (threads, calls) => {
  const all = await felt(threads, calls);
  expect(all.length).toBe(threads * calls);
  // The program and the helper may each lose their CPU between reading the clock and their call.
  const isBounded = all.filter(({ waitedNs, queuedNs }) => queuedNs + MS > waitedNs);
  expect(isBounded.length).toBeGreaterThan(all.length * 0.98);
  const [waited, queued] = [all.map(({ waitedNs }) => waitedNs), all.map(({ queuedNs }) => queuedNs)];
  expect(at(queued, 0.5)).toBeLessThan(2 * at(waited, 0.5) + MS);
});

test('a crowd waits, which is reported', async () => {
  const all = await felt(1000, 5);
  expect(
    at(
      all.map(({ queuedNs }) => queuedNs),
      0.5,
    ),
  ).toBeGreaterThan(2 * MS);
});

test('calls that come one by one are seen at once, even after a pause', async () => {
  const all = await felt(1, 20);
  expect(
    at(
      all.map(({ queuedNs }) => queuedNs),
      0.5,
    ),
  ).toBeLessThan(MS / 10);
});

test('a call that arrives while the helper sleeps waits until the helper has a CPU, which is reported', () => {
  const driver = compileC('queue_driver', ['receive/queue.c']);
  const [inTruth, woken, forCpu] = execFileSync(driver, { encoding: 'utf8' }).split(' ').map(Number);
  expect(inTruth).toBeGreaterThan(90 * MS);
  expect(woken).toBeLessThan(MS);
  expect(forCpu).toBeGreaterThan(inTruth! - 10 * MS);
});
