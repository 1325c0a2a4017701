/**
 * Tests several event rings in the kernel: an overflow in one ring leaves the others whole, and a thread that moves
 * between CPUs has all its events, with the owner that it had at the time.
 */
import { spawnSync } from 'node:child_process';
import { isMissedEnd } from './missed_ends.ts';
import { readRecording, record, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

afterAll(removeFolders);

/** CPUs that have rings of their own when there are as many rings as CPUs, or more. */
const FLOODED_CPU = 0;
const QUIET_CPU = 1;
const FLOOD = 49_999;
const FEW = 2000;

/** dd writes `count` times on one CPU. Returns its process id. */
function writeOn(cpu: number, count: number): number {
  const dd = ['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1', `count=${count}`, 'status=none'];
  const { pid, status } = spawnSync('taskset', ['--cpu-list', String(cpu), ...dd]);
  expect(status).toBe(0);
  return pid;
}

test('a ring that overflows loses its own events only, and each of them is counted', async () => {
  const dataFolder = temporaryFolder();
  // Other programs of this host would fill the quiet ring.
  const agent = await startAgent(dataFolder, ['--ring-size', '1', '--rings', '2', '--comm', 'dd']);
  agent.process.kill('SIGSTOP');
  const flooding = writeOn(FLOODED_CPU, FLOOD);
  const quiet = writeOn(QUIET_CPU, FEW);
  agent.process.kill('SIGCONT');
  await agent.stop();
  const recorded = readRecording(dataFolder);
  const writesOf = (pid: number) => recorded.writes({ pid }).filter(({ file }) => file === '/dev/null');
  const missedEnds = recorded.losses().filter(isMissedEnd);
  const lost = recorded.losses().filter(({ cause }) => cause === 'shed' || cause === 'ring_full');
  const lostCount = lost.reduce((sum, loss) => sum + loss.lost, 0);
  if (missedEnds.length === 0) expect(writesOf(quiet)).toHaveLength(FEW);
  expect(new Set(writesOf(quiet).map(({ cpu }) => cpu))).toEqual(new Set([QUIET_CPU]));
  // 512 KiB hold some 5000 events, and three quarters of them are for fast calls.
  expect(writesOf(flooding).length).toBeGreaterThan(500);
  expect(writesOf(flooding).length).toBeLessThan(FLOOD / 4);
  const missedCount = missedEnds.reduce((sum, loss) => sum + loss.lost, 0);
  expect(lostCount + missedCount).toBeGreaterThanOrEqual(FLOOD - writesOf(flooding).length);
  expect(lostCount).toBeLessThan(FLOOD * 1.2);
});

const MOVES = 300;

/** Writes 1, 2, 3 ... bytes, each after a move to another CPU and with a label of its own. */
const MOVING = `
import os
cpus = sorted(os.sched_getaffinity(0))
null = os.open('/dev/null', os.O_WRONLY)
for i in range(${MOVES}):
    os.sched_setaffinity(0, {cpus[i % len(cpus)]})
    os.write(null, b'KREPLAY1 txn=move-%d' % i)
    os.write(null, b'x' * (2000 + i))
`;

// A ring more than this host has CPUs stays empty.
test.each([1, 2, 3])('with %d rings, a thread that moves has each event once, and its owner', async (rings) => {
  let pid = 0;
  const move = () => {
    ({ pid } = spawnSync('python3', ['-c', MOVING], { stdio: 'inherit' }));
  };
  const recorded = await record(move, ['--rings', String(rings)]);
  const writes = recorded
    .writes({ pid })
    .filter(({ bytes_requested }) => bytes_requested !== null && bytes_requested >= 2000n);
  const seen = writes.map(({ bytes_requested, transaction_id }) => [Number(bytes_requested) - 2000, transaction_id]);
  const made = Array.from({ length: MOVES }, (_, i) => [i, `move-${i}`]);
  if (recorded.losses().length > 0) expect(made).toEqual(expect.arrayContaining(seen));
  else expect(seen).toEqual(made);
  expect(seen.length).toBeGreaterThan(MOVES - 10);
});
