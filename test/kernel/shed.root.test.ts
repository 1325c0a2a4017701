/**
 * Tests what is left out while a ring fills up: fast calls, each of which is counted. Failed and slow calls are there,
 * and afterwards every call is recorded again.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openReader } from '../../agent/recording/read/reader.ts';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { compileProgram, run } from './programs.ts';
import { type Recorded, readRecording, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

afterAll(removeFolders);

const FAST = 200_000;
const FAILED = 300;
const SLOW = 20;
/** The load itself counts on: the first write into its pipe, and a fast write before each slow one. */
const MADE = FAST + FAILED + 1 + 2 * SLOW;
const SLOW_NS = 10_000_000n;
/** No other program's calls are recorded, so all losses are of the load. */
const FLAGS = ['--ring-size', '1', '--comm', 'overload'];

const overload = (fast: number, failed = 0, slow = 0) =>
  run(compileProgram('overload'), [String(fast), String(failed), String(slow)]);

/** Counts what was lost of write calls, by cause. */
function lostWrites({ dataFolder }: Recorded): Record<string, number> {
  const reader = openReader(join(dataFolder, 'recording.kreplay'));
  const counts: Record<string, number> = {};
  for (const { cause, eventType, count } of reader.losses())
    if (eventType === 'sys_write') counts[cause] = (counts[cause] ?? 0) + count;
  reader.close();
  return counts;
}

function expectWhatMatters(writes: readonly SysWriteEvent[]): void {
  expect(writes.filter(({ result }) => result < 0n)).toHaveLength(FAILED);
  const slow = writes.filter(({ bytes_requested, duration_ns }) => bytes_requested === 4096n && duration_ns >= SLOW_NS);
  expect(slow).toHaveLength(SLOW);
}

test('while the agent is stopped, each failed and each slow call is there, and each other call is counted', async () => {
  const agent = await startAgent(temporaryFolder(), FLAGS);
  agent.process.kill('SIGSTOP');
  overload(FAST, FAILED, SLOW);
  agent.process.kill('SIGCONT');
  await sleep(1500);
  overload(1000);
  await agent.stop();
  const recorded = readRecording(agent.dataFolder);
  const all = recorded.writes({ comms: ['overload'] });
  const [flood, calm] = [new Set(all.map(({ pid }) => pid))].flatMap((pids) =>
    [...pids].map((pid) => all.filter((write) => write.pid === pid)),
  );
  expectWhatMatters(flood!);
  const { shed, ...others } = lostWrites(recorded);
  expect(Object.keys(others).filter((cause) => cause !== 'end_missed')).toEqual([]);
  expect(flood!.length + calm!.length + shed! + (others.end_missed ?? 0)).toBe(MADE + 1001);
  // 1 MiB holds some 10,000 events, and fast calls take three quarters of it.
  expect(flood!.length).toBeGreaterThan(5000);
  expect(flood!.length).toBeLessThan(12_000);
  // An emptied ring records every call again.
  if (!others.end_missed) expect(calm).toHaveLength(1001);
}, 60_000);

test('while the agent drains, a flood leaves out fast calls only, and loses none by a full ring', async () => {
  const agent = await startAgent(temporaryFolder(), FLAGS);
  overload(FAST * 10, FAILED, SLOW);
  await agent.stop();
  const recorded = readRecording(agent.dataFolder);
  // All recorded writes are more than one answer has.
  expectWhatMatters([
    ...recorded.writes({ comms: ['overload'], failed: true }),
    ...recorded.writes({ comms: ['overload'], minDurationNs: SLOW_NS }),
  ]);
  const { shed = 0, end_missed = 0, ...others } = lostWrites(recorded);
  expect(others).toEqual({});
  const reader = openReader(join(agent.dataFolder, 'recording.kreplay'));
  const counted = [...reader.scan({ filter: { comms: ['overload'] } })].reduce(
    (sum, { rowCount }) => sum + rowCount,
    0,
  );
  reader.close();
  expect(counted + shed + end_missed).toBe(MADE + FAST * 9);
}, 60_000);
