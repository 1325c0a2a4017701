/**
 * Calls and requests that have begun and not ended: answers say so while they last, and that they are lost when the agent
 * ends meanwhile. The times are those of the programs that make the calls.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Served, serve } from '../daemon/served.ts';
import { type LoopDevice, loopDevice } from './loop_device.ts';
import { isOthersLoss } from './missed_ends.ts';
import { ROOT, run, wallClockNs } from './programs.ts';
import { type Agent, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

const PATIENCE_MS = 10_000;
/**
 * Number of looks that have to find a call in progress, of so many: nearly half of them do on a quick machine, and a
 * quarter where others take two thirds of its CPU time.
 */
const FINDS_MIN = 100;
const LOOKS_MAX = 800;
const KREPLAY = join(ROOT, 'build/kreplay');

const dataFolder = temporaryFolder();
const programs: ChildProcess[] = [];
const disks: LoopDevice[] = [];
let agent: Agent;
let daemon: Served;

beforeAll(async () => {
  agent = await startAgent(dataFolder);
  daemon = await serve(dataFolder);
}, 60_000);

afterEach(() => {
  for (const program of programs.splice(0)) program.kill('SIGKILL');
});

afterAll(async () => {
  await daemon?.close();
  await agent?.stop();
  for (const disk of disks) {
    run('sh', ['-c', `fsfreeze --unfreeze ${disk.mountPoint} 2> /dev/null || true`]);
  }
  for (const disk of disks.reverse()) disk.remove();
  removeFolders();
});

interface Gap {
  from: bigint;
  to: bigint;
  lost: bigint;
  cause: string;
}

interface Coverage {
  complete: boolean;
  recorded_until: bigint;
  gaps: Gap[];
  // biome-ignore lint/suspicious/noExplicitAny: calls and requests have different fields
  in_progress?: { count: bigint; oldest: bigint; events: any[] };
}

// biome-ignore lint/suspicious/noExplicitAny: answers of several shapes
async function ask(path: string, body?: object): Promise<any> {
  daemon.setNow(wallClockNs());
  const sent = body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const { text } = await daemon.get(path, sent || {});
  return JSON.parse(text, (_key, value, context?: { source?: string }) =>
    typeof value === 'number' && Number.isInteger(value) ? BigInt(context!.source!) : value,
  );
}

/** What programs of other suites lose is left out. */
async function coverageOf(path: string): Promise<Coverage> {
  const { coverage } = await ask(`${path}${path.includes('?') ? '&' : '?'}coverage=full`);
  const gaps = coverage.gaps.filter((gap: Gap) => !isOthersLoss(gap));
  return { ...coverage, gaps, complete: gaps.length === 0 };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await holds()) && performance.now() < deadline) await sleep(50);
  expect(await holds()).toBe(true);
}

interface Blocked {
  pid: number;
  /** When its write begins, at the earliest. */
  beforeNs: bigint;
  /** Ends the write, and returns when it has ended. */
  release(): Promise<bigint>;
}

/** Starts a program that is in a write to a full pipe, which lasts until it is released. */
async function startBlocked(transaction: string, quietSeconds = 0, threads = 1): Promise<Blocked> {
  const program = spawn(
    'python3',
    [join(import.meta.dirname, 'blocked_write.py'), transaction, `${quietSeconds}`, `${threads}`],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  programs.push(program);
  const lines = createInterface(program.stdout!)[Symbol.asyncIterator]();
  const next = async () => BigInt((await lines.next()).value ?? '');
  return {
    pid: program.pid!,
    beforeNs: await next(),
    release() {
      program.stdin!.end('\n');
      return next();
    },
  };
}

const within = (fromNs: bigint, toNs: bigint) => `from=${fromNs}&to=${toNs}`;

/** Resolves when everything until now is in answers. */
async function committed(): Promise<void> {
  const nowNs = wallClockNs();
  await until(async () => (await coverageOf('/api/events?limit=1')).recorded_until > nowNs);
}

test('a call is in every answer that it touches while it is in progress, and an event when it has ended', async () => {
  const blocked = await startBlocked('slow-1');
  const of = '/api/events?transaction_id=slow-1';
  await until(async () => (await coverageOf(of)).in_progress !== undefined);
  const { complete, gaps, in_progress, recorded_until } = await coverageOf(of);
  const [event] = in_progress!.events;
  expect(event).toMatchObject({
    event_type: 'sys_write',
    transaction_id: 'slow-1',
    pid: BigInt(blocked.pid),
    syscall: 'write',
    comm: 'python3',
  });
  expect(event.file).toMatch(/^pipe:/);
  expect([complete, in_progress!.count]).toEqual([false, 1n]);
  expect(gaps).toMatchObject([{ cause: 'in_progress', lost: 1n, from: event.timestamp_ns, to: recorded_until }]);
  // The program read its clock right before the call.
  expect(event.timestamp_ns).toBeGreaterThanOrEqual(blocked.beforeNs);
  expect(event.timestamp_ns - blocked.beforeNs).toBeLessThan(1_000_000_000n);

  const startNs = event.timestamp_ns;
  const isIn = async (query: string) => (await coverageOf(query)).in_progress?.count === 1n;
  const windowed = (more: string) =>
    `/api/events?${within(startNs - 1000n, startNs + 1000n)}&pid=${blocked.pid}${more}`;
  expect(await isIn(windowed(''))).toBe(true);
  expect(await isIn(windowed('&event_type=sys_write'))).toBe(true);
  expect(await isIn(windowed('&min_duration_ms=500'))).toBe(true);
  expect(await isIn(windowed('&error=EIO'))).toBe(true);
  expect(await isIn(windowed(`&file=${encodeURIComponent(event.file)}`))).toBe(true);
  expect(await isIn('/api/transactions/slow-1')).toBe(true);
  expect(await isIn('/api/transactions/slow-1/summary')).toBe(true);
  expect(await isIn(`/api/transactions?${within(startNs - 1_000_000_000n, startNs)}&service=python3.11`)).toBe(true);
  expect(await isIn(`/api/stats?${within(startNs - 1000n, startNs + 1000n)}&pid=${blocked.pid}`)).toBe(true);
  // It is no part of other events, nor of another time.
  for (const other of ['&event_type=sys_sync', '&exclude_comm=python3', '&file=/nowhere', '&transaction_id=other'])
    expect([other, (await coverageOf(windowed(other))).in_progress]).toEqual([other, undefined]);
  const later = `/api/events?${within(startNs + 1000n, startNs + 2000n)}&pid=${blocked.pid}`;
  expect((await coverageOf(later)).gaps).toEqual([]);

  // What has ended keeps this deadline, just.
  const { duration_ns } = await ask('/api/replay/whatif', { transaction_id: 'slow-1' });
  const asked = { transaction_id: 'slow-1', timeout_ns: Number(duration_ns) + 1 };
  const whatIf = await ask('/api/replay/whatif', asked);
  expect(whatIf).toMatchObject({
    times_out: false,
    in_progress_times_out: true,
    after_timeout_count: 0n,
    coverage: { complete: false },
  });

  const endedNs = await blocked.release();
  await until(async () => (await coverageOf(of)).in_progress === undefined);
  const { events, coverage } = await ask(of);
  const [ended] = events.filter(({ timestamp_ns }: { timestamp_ns: bigint }) => timestamp_ns === startNs);
  expect(ended).toMatchObject({ result: 1000n, syscall: 'write' });
  expect(ended.timestamp_ns + ended.duration_ns).toBeLessThanOrEqual(endedNs);
  expect(endedNs - ended.timestamp_ns - ended.duration_ns).toBeLessThan(1_000_000_000n);
  expect(coverage.losses.filter((loss: { cause: string }) => !isOthersLoss(loss))).toEqual([]);
}, 60_000);

test('commands say what is in progress, and so does a bundle', async () => {
  const blocked = await startBlocked('slow-2', 2);
  await until(async () => (await coverageOf('/api/events?transaction_id=slow-2')).in_progress !== undefined);
  await committed();
  daemon.setNow(wallClockNs());
  const command = (...args: string[]) => ended(spawn(KREPLAY, [...args, '--url', daemon.url]));
  const said = /in progress since .*: write of pipe:.* by python3 \(pid \d+\) for slow-2/;
  expect((await command('show', 'slow-2', '--output', 'text')).stderr).toMatch(said);
  expect((await command('events', '--transaction', 'slow-2')).stderr).toMatch(said);
  expect((await command('transactions', '--from', `${blocked.beforeNs - 10_000_000_000n}`)).stderr).toMatch(said);
  await until(async () => (await coverageOf('/api/events?limit=1')).recorded_until > blocked.beforeNs + 600_000_000n);
  daemon.setNow(wallClockNs());
  const { duration_ns } = await ask('/api/replay/whatif', { transaction_id: 'slow-2' });
  // What has ended keeps this deadline.
  const timeout = `${duration_ns / 1_000_000n + 1n}ms`;
  const whatIf = await command('whatif', 'slow-2', '--timeout', timeout, '--output', 'table');
  expect(whatIf.stdout).toContain('not kept, a call in progress has not ended by then');
  const patient = await command('whatif', 'slow-2', '--timeout', '3h', '--output', 'table');
  expect(patient.stdout).toContain('kept by what is recorded, which is not all');

  const bundle = join(temporaryFolder(), 'slow-2.kreplay');
  const exporting = ['export', '--transaction', 'slow-2', '--data', dataFolder, '--output', bundle];
  const exported = await ended(spawn(KREPLAY, exporting));
  expect(exported.stdout).toMatch(/; the recording is missing 1 events in this window/);
  // It was quiet for longer than a transaction that goes on.
  const shown = await ended(spawn(KREPLAY, ['show', 'slow-2', '--recording', bundle, '--output', 'text']));
  expect(shown.stderr).toMatch(/warning: 1 event is missing from \S+ to \S+: calls or requests that had begun/);
  await blocked.release();
}, 60_000);

async function ended(child: ChildProcess): Promise<{ stdout: string; stderr: string }> {
  const said = { stdout: '', stderr: '' };
  child.stdout!.setEncoding('utf8').on('data', (text: string) => (said.stdout += text));
  child.stderr!.setEncoding('utf8').on('data', (text: string) => (said.stderr += text));
  await once(child, 'close');
  return said;
}

test.each([
  ['killed', () => agent.process.kill('SIGKILL')],
  ['stopped', () => agent.process.kill('SIGINT')],
])(
  'a call in progress when the agent is %s is a loss from its start, of its transaction only',
  async (how, end) => {
    const [id, other] = [`lost-${how}`, `kept-${how}`];
    await (await startBlocked(other)).release();
    const blocked = await startBlocked(id, 2);
    const of = `/api/events?transaction_id=${id}`;
    await until(async () => (await coverageOf(of)).in_progress !== undefined);
    const startNs = (await coverageOf(of)).in_progress!.oldest;
    await committed();
    const gone = once(agent.process, 'exit');
    end();
    await gone;
    // As nothing records, it may still go on.
    expect((await coverageOf(of)).in_progress).toMatchObject({ count: 1n, oldest: startNs });
    agent = await startAgent(dataFolder);
    await blocked.release();
    await committed();
    for (const path of [of, `/api/transactions/${id}`, `/api/events?${within(startNs - 1000n, startNs + 1000n)}`]) {
      const { complete, gaps, in_progress } = await coverageOf(path);
      expect([path, complete, in_progress]).toEqual([path, false, undefined]);
      expect(gaps).toContainEqual(expect.objectContaining({ cause: 'in_progress', from: startNs, lost: 1n }));
    }
    const later = `/api/events?${within(startNs + 1000n, startNs + 2000n)}`;
    expect((await coverageOf(later)).gaps).toEqual([]);
    const ofOthers = `/api/events?${within(startNs - 1000n, startNs + 1000n)}&exclude_comm=python3`;
    expect((await coverageOf(ofOthers)).gaps).toEqual([]);
    const ofOther = (await coverageOf(`/api/transactions/${other}`)).gaps;
    expect(ofOther.filter(({ cause }) => cause === 'in_progress')).toEqual([]);
  },
  60_000,
);

test('syncs and block requests are in progress for as long as their disk hangs', async () => {
  // A disk whose blocks are in a file of another one, which is frozen: its requests go on until that one goes on.
  const outer = loopDevice(128);
  disks.push(outer);
  run('mkfs.ext4', ['-q', outer.path]);
  run('mount', [outer.path, outer.mountPoint]);
  const image = join(outer.mountPoint, 'image');
  run('truncate', ['-s', '64M', image]);
  const path = run('losetup', ['--find', '--show', image]).trim();
  const inner = join(temporaryFolder(), 'inner');
  run('mkdir', [inner]);
  run('mkfs.ext4', ['-q', path]);
  run('mount', [path, inner]);
  try {
    writeFileSync(join(inner, 'file'), 'x');
    run('sync', ['-f', inner]);
    run('fsfreeze', ['--freeze', outer.mountPoint]);
    const beforeNs = wallClockNs();
    const dd = [`of=${join(inner, 'file')}`, 'if=/dev/zero', 'bs=4k', 'count=1', 'conv=fsync'];
    const program = spawn(KREPLAY, ['exec', '--transaction', 'hung-1', '--', 'dd', ...dd], { stdio: 'ignore' });
    programs.push(program);
    const of = '/api/events?transaction_id=hung-1';
    const types = async () => {
      const { in_progress } = await coverageOf(of);
      return in_progress?.events.map(({ event_type }) => event_type) ?? [];
    };
    await until(async () => (await types()).includes('sys_sync') && (await types()).includes('block_io'));
    const { in_progress, recorded_until } = await coverageOf(of);
    const sync = in_progress!.events.find(({ event_type }) => event_type === 'sys_sync');
    expect(sync).toMatchObject({ syscall: 'fsync', file: join(inner, 'file'), comm: 'dd', transaction_id: 'hung-1' });
    const request = in_progress!.events.find(({ event_type }) => event_type === 'block_io');
    expect(request).toMatchObject({ operation: 'write', device: path.replace('/dev/', '') });
    for (const { timestamp_ns } of in_progress!.events) {
      expect(timestamp_ns).toBeGreaterThan(beforeNs);
      expect(timestamp_ns).toBeLessThan(recorded_until);
    }
    const isEnded = once(program, 'exit');
    run('fsfreeze', ['--unfreeze', outer.mountPoint]);
    await isEnded;
    await until(async () => (await coverageOf(of)).in_progress === undefined);
    const { events } = await ask(of);
    const ended = events.filter(({ timestamp_ns }: { timestamp_ns: bigint }) => timestamp_ns === sync.timestamp_ns);
    expect(ended).toMatchObject([{ syscall: 'fsync', result: 0n }]);
    expect(events.filter(({ event_type }: { event_type: string }) => event_type === 'block_io')).not.toEqual([]);
  } finally {
    run('sh', ['-c', `fsfreeze --unfreeze ${outer.mountPoint} 2> /dev/null || true`]);
    run('umount', [inner]);
    run('losetup', ['--detach', path]);
  }
}, 60_000);

test('an event is either in the answer or in progress, at every moment', async () => {
  const writes = `
import os, sys, threading, time
os.write(os.open('/dev/null', os.O_WRONLY), b'KREPLAY1 txn=steady-1')
start, end = os.pipe()
os.write(end, b'x' * 65536)
asked = threading.Event()
def make_room():
    while True:
        time.sleep(0.01)
        os.read(start, 4096)
threading.Thread(target=make_room, daemon=True).start()
threading.Thread(target=lambda: (sys.stdin.read(), asked.set()), daemon=True).start()
count = 0
while not asked.is_set():
    os.write(end, b'y' * 4096)
    count += 1
print(count)
`;
  const program = spawn('python3', ['-c', writes], { stdio: ['pipe', 'pipe', 'inherit'] });
  programs.push(program);
  const printed = text(program.stdout);
  const of = '/api/events?transaction_id=steady-1&limit=10000&order=asc';
  /** An answer holds the calls since shortly before the last look. */
  const OVERLAP_NS = 50_000_000n;
  let fromNs = wallClockNs();
  type Timed = { timestamp_ns: bigint; duration_ns: bigint };
  const startsOf = (events: Timed[]) => events.map(({ timestamp_ns }) => timestamp_ns);
  const looks: { fromNs: bigint; untilNs: bigint; events: Timed[]; open: Timed[] }[] = [];
  const look = async () => {
    const { events, coverage } = await ask(`${of}&from=${fromNs}`);
    const untilNs = coverage.recorded_until;
    looks.push({ fromNs, untilNs, events, open: coverage.in_progress?.events ?? [] });
    fromNs = untilNs - OVERLAP_NS;
    await sleep(10);
  };
  const finds = () => looks.filter(({ open }) => open.length > 0).length;
  while (finds() < FINDS_MIN && looks.length < LOOKS_MAX) await look();
  program.stdin.end();
  const count = Number(await printed);
  await look();
  await committed();
  const { events: all, coverage } = await ask(of);
  const blocked = all.filter(({ bytes_requested }: { bytes_requested: bigint }) => bytes_requested === 4096n);
  expect([blocked.length, coverage.in_progress]).toEqual([count, undefined]);
  for (const { fromNs: sinceNs, untilNs, events, open } of looks) {
    const shown = new Set([...startsOf(events), ...startsOf(open)]);
    const asked = startsOf(all).filter((startNs) => startNs >= sinceNs && startNs < untilNs);
    expect(asked.filter((startNs) => !shown.has(startNs))).toEqual([]);
    const opened = new Set(startsOf(open));
    // It may have ended between the two, but not before the time of the answer.
    const both = events.filter(({ timestamp_ns }) => opened.has(timestamp_ns));
    expect(both.filter(({ timestamp_ns, duration_ns }) => timestamp_ns + duration_ns < untilNs)).toEqual([]);
  }
  expect(finds()).toBeGreaterThanOrEqual(FINDS_MIN);
}, 180_000);

test('more calls than an answer describes are counted', async () => {
  const threads = 300;
  const blocked = await startBlocked('many-1', 0, threads);
  const of = `/api/events?pid=${blocked.pid}`;
  await until(async () => (await coverageOf(of)).in_progress?.count === BigInt(threads));
  const { in_progress, gaps } = await coverageOf(of);
  expect(in_progress!.events).toHaveLength(100);
  expect(gaps.reduce((sum, { lost }) => sum + lost, 0n)).toBe(BigInt(threads));
  await blocked.release();
  await until(async () => (await coverageOf(of)).in_progress === undefined);
}, 60_000);
