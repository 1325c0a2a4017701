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

/** Calls of one owner, as the program counts them or as the recording has them. */
interface OwnerCalls {
  count: number;
  bytes: bigint;
  durationNs: bigint;
  longestNs: bigint;
}

const NO_CALLS: OwnerCalls = { count: 0, bytes: 0n, durationNs: 0n, longestNs: 0n };

const addCalls = (a: OwnerCalls, b: OwnerCalls): OwnerCalls => ({
  count: a.count + b.count,
  bytes: a.bytes + b.bytes,
  durationNs: a.durationNs + b.durationNs,
  longestNs: a.longestNs > b.longestNs ? a.longestNs : b.longestNs,
});

/** Runs the program; returns what it made by owner: `service transaction`. */
function makeCalls(threads: number, transactions: number, count: number): Map<string, OwnerCalls> {
  const made = new Map<string, OwnerCalls>();
  const printed = run(compileProgram('shed_owners'), [threads, transactions, count].map(String));
  for (const line of printed.trim().split('\n')) {
    const [thread, transaction, number, bytes, durationNs, longestNs] = line.split(' ');
    const owner = transaction === '-' ? 'shed_owners -' : `shop${thread} ${transaction}`;
    const calls = {
      count: Number(number),
      bytes: BigInt(bytes!),
      durationNs: BigInt(durationNs!),
      longestNs: BigInt(longestNs!),
    };
    made.set(owner, addCalls(made.get(owner) ?? NO_CALLS, calls));
  }
  return made;
}

/** Returns the calls that are recorded one by one and the calls that are summed up, by owner. */
function readCalls(recorded: Recorded): { calls: Map<string, OwnerCalls>; unowned: number } {
  const calls = new Map<string, OwnerCalls>();
  const add = (service: string, transactionId: string | null, more: OwnerCalls) => {
    const owner = `${service} ${transactionId ?? '-'}`;
    calls.set(owner, addCalls(calls.get(owner) ?? NO_CALLS, more));
  };
  for (const { service_name, transaction_id, result, duration_ns } of recorded.writes({ comms: ['shed_owners'] }))
    add(service_name, transaction_id, { count: 1, bytes: result, durationNs: duration_ns, longestNs: duration_ns });
  let unowned = 0;
  const divided: (OwnerCalls & { service: string })[] = [];
  for (const { cause, lost, service, transactionId, isDivided, sums } of recorded.losses('all')) {
    if (cause !== 'shed') continue;
    if (service === undefined || !(transactionId ?? isDivided)) unowned += lost;
    else if (transactionId !== undefined) add(service, transactionId, { count: lost, ...sums! });
    else divided.push({ service, count: lost, ...sums! });
  }
  // Calls of a service that are in no part have no transaction.
  for (const [service, all] of Map.groupBy(divided, (loss) => loss.service)) {
    const total = all.reduce(addCalls, NO_CALLS);
    for (const { lost, sums } of recorded
      .losses('all')
      .filter((loss) => loss.service === service && loss.transactionId)) {
      total.count -= lost;
      total.bytes -= sums!.bytes;
      total.durationNs -= sums!.durationNs;
    }
    if (total.count > 0) add(service, null, total);
    else expect(total).toMatchObject({ count: 0, bytes: 0n, durationNs: 0n });
  }
  return { calls, unowned };
}

/** Records the program while the agent is stopped. */
async function recordOwners(threads: number, transactions: number, count: number) {
  const agent = await startAgent(temporaryFolder(), ['--ring-size', '1', '--comm', 'shed_owners']);
  agent.process.kill('SIGSTOP');
  const made = makeCalls(threads, transactions, count);
  agent.process.kill('SIGCONT');
  await agent.stop();
  const recorded = readRecording(agent.dataFolder);
  const missedEnds = recorded.losses().reduce((sum, { cause, lost }) => sum + (cause === 'end_missed' ? lost : 0), 0);
  return { made, missedEnds, recorded, ...readCalls(recorded) };
}

test('what is left out is summed up by service and transaction', async () => {
  const { made, calls, unowned, missedEnds } = await recordOwners(4, 20, 2000);
  expect(unowned).toBe(0);
  expect([...calls.keys()].sort()).toEqual([...made.keys()].sort());
  let missing = 0;
  for (const [owner, known] of calls) {
    const own = made.get(owner)!;
    missing += own.count - known.count;
    // A missed end is a call with an unknown number of bytes.
    if (own.count === known.count) expect({ owner, bytes: known.bytes }).toEqual({ owner, bytes: own.bytes });
    // The program's own clock includes the way into the kernel and back.
    expect(known.durationNs).toBeLessThan(own.durationNs);
    expect(known.longestNs).toBeLessThan(own.longestNs);
    expect(known.longestNs).toBeGreaterThan(known.durationNs / BigInt(known.count));
  }
  expect(missing).toBeLessThanOrEqual(missedEnds);
}, 60_000);

test('of more owners than the kernel side sums up, each call is counted and none is given to another owner', async () => {
  const { made, calls, unowned, missedEnds } = await recordOwners(8, 600, 30);
  const total = [...made.values()].reduce((sum, { count }) => sum + count, 0);
  const known = [...calls.values()].reduce((sum, { count }) => sum + count, 0);
  expect(unowned).toBeGreaterThan(0);
  expect(known + unowned).toBeLessThanOrEqual(total);
  expect(known + unowned).toBeGreaterThanOrEqual(total - missedEnds);
  for (const [owner, { count }] of calls) expect([owner, count <= made.get(owner)!.count]).toEqual([owner, true]);
}, 60_000);
