// An answer says until when it is complete, and reports at once an agent that is gone, stopped or cannot write: a real
// daemon with a real agent is asked.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readClocks } from 'libbpf-ts/kernel';
import { times } from '../repeats.ts';
import { isOthersLoss } from './missed_ends.ts';
import { ROOT } from './programs.ts';
import { type Agent, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';
import { FILE_SYSTEMS, type SmallDisk } from './small_disk.ts';

/** How long hosts are watched. */
const WATCHED_S = times(3);
const PATIENCE_MS = 10_000;
/** The number of clocks that are read at once. */
const CLOCKS = 4;

const daemons: ChildProcess[] = [];
const agents: ChildProcess[] = [];
const disks: SmallDisk[] = [];

async function end(processes: ChildProcess[]): Promise<void> {
  for (const process of processes.splice(0)) {
    if (process.exitCode !== null || process.signalCode !== null) continue;
    process.kill('SIGKILL');
    await once(process, 'exit');
  }
}

// Only one agent at a time records into a folder.
afterEach(() => end(agents));

afterAll(async () => {
  await end(daemons);
  for (const disk of disks) disk.remove();
  removeFolders();
});

/** A folder that a daemon serves; agents record into it one after another. */
interface Served {
  folder: string;
  url: string;
}

interface Pair extends Served {
  agent: Agent;
}

interface Window {
  fromNs: bigint;
  toNs: bigint;
}

interface Coverage {
  complete: boolean;
  gaps: { from: bigint; to: bigint; cause: string }[];
  recorded_until: bigint;
}

async function serve(folder: string): Promise<Served> {
  const daemon = fork(join(ROOT, 'kreplay.ts'), ['daemon', '--data', folder, '--listen', '127.0.0.1:0'], {
    execArgv: [],
    stdio: ['ignore', 'pipe', 'ignore', 'ipc'],
  });
  daemons.push(daemon);
  const [line] = (await once(daemon.stdout!.setEncoding('utf8'), 'data')) as [string];
  return { folder, url: /http:\/\/[\d.:]+/.exec(line)![0] };
}

async function startIn(served: Served, flags: readonly string[] = []): Promise<Pair> {
  const agent = await startAgent(served.folder, ['--retain-bytes', '1GB', ...flags]);
  agents.push(agent.process);
  return { ...served, agent };
}

/** The folder of all tests but those of a full disk. */
let shared: Served;
/** Files outside of what the agents record into. */
let written: string;

beforeAll(async () => {
  written = join(temporaryFolder(), 'written');
  shared = await serve(temporaryFolder());
});

async function ask({ url }: Served, path: string): Promise<string> {
  const answer = await fetch(url + path, { signal: AbortSignal.timeout(PATIENCE_MS) });
  return answer.text();
}

async function coverageOf(pair: Served, query = ''): Promise<Coverage> {
  const text = await ask(pair, `/api/events?limit=1&coverage=full${query}`);
  const coverage = text.slice(text.indexOf('"coverage":') + '"coverage":'.length, -1);
  return JSON.parse(coverage, (key, value, context?: { source: string }) =>
    ['from', 'to', 'recorded_until'].includes(key) && value !== null ? BigInt(context!.source) : value,
  );
}

const stateOf = async (pair: Served): Promise<string> =>
  JSON.parse(await ask(pair, '/readyz')).recordings[0].agent.state;

/** Writes, and returns the window in which it wrote. */
function write(): Window {
  const fromNs = nowNs();
  appendFileSync(written, 'x');
  return { fromNs, toNs: nowNs() };
}

function nowNs(): bigint {
  const clocks = new BigInt64Array(CLOCKS);
  readClocks(clocks);
  return clocks[0]!;
}

const within = ({ fromNs, toNs }: Window) => `&from=${fromNs}&to=${toNs}`;

async function until(holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await holds()) && performance.now() < deadline) await sleep(50);
  expect(await holds()).toBe(true);
}

/** Resolves when nothing is missing of a time, but what a busy host may lose of others. */
async function untilWhole(pair: Pair, window: Window): Promise<void> {
  const missing = async () => (await coverageOf(pair, within(window))).gaps.filter((gap) => !isOthersLoss(gap));
  const deadline = performance.now() + PATIENCE_MS;
  while ((await missing()).length > 0 && performance.now() < deadline) await sleep(50);
  expect(await missing()).toEqual([]);
}

/** Expects that a write that was just made is in the recording soon. */
async function expectWholeSoon(pair: Pair, window: Window): Promise<void> {
  // Other programs of the host may be in a call at that time.
  const { gaps, recorded_until } = await coverageOf(pair, `${within(window)}&pid=${process.pid}`);
  const causes = gaps.filter((gap) => !isOthersLoss(gap)).map(({ cause }) => cause);
  expect(causes).toEqual(recorded_until >= window.toNs ? [] : ['not_written_yet']);
  await untilWhole(pair, window);
  expect((await coverageOf(pair, within(window))).recorded_until).toBeGreaterThanOrEqual(window.toNs);
  const answer = await ask(pair, `/api/events?${within(window).slice(1)}&pid=${process.pid}`);
  expect(JSON.parse(answer).events).not.toEqual([]);
}

test.each([
  ['a busy host', []],
  ['a host where nothing is wanted', ['--min-duration', '1h']],
])(
  'an answer of %s is complete up to what is committed',
  async (_, flags) => {
    const pair = await startIn(shared, flags);
    const startedNs = nowNs();
    if (flags.length === 0) await expectWholeSoon(pair, write());
    else await until(async () => (await coverageOf(pair)).recorded_until > startedNs);
    const startMs = performance.now();
    const startNs = nowNs();
    let furthestNs = 0n;
    while (performance.now() - startMs < WATCHED_S * 1000) {
      const { complete, gaps, recorded_until } = await coverageOf(pair, `&from=${startedNs}`);
      // Without `to` the answer is complete until then, and the last moment raises no alarm.
      const alarms = gaps.filter(({ cause }) => cause === 'not_written_yet' || cause.startsWith('agent_'));
      expect([alarms, complete || gaps.length > 0]).toEqual([[], true]);
      expect(recorded_until).toBeGreaterThanOrEqual(furthestNs);
      expect(recorded_until).toBeLessThan(nowNs());
      furthestNs = recorded_until;
      expect(await stateOf(pair)).toBe('recording');
      await sleep(100);
    }
    // An agent commits every second, whether anything has happened or not; a busy machine may delay it.
    await until(async () => (await coverageOf(pair)).recorded_until > startNs + BigInt(WATCHED_S) * 1_000_000_000n);
    await pair.agent.stop();
    const { recorded_until, complete, gaps } = await coverageOf(pair, '&from=-1h&to=-0s');
    // Others may lose something between the last look and the end.
    const { cause, from } = gaps.filter((gap) => !isOthersLoss(gap)).at(-1)!;
    expect([complete, cause, from]).toEqual([false, 'agent_stopped', recorded_until]);
    expect(await stateOf(pair)).toBe('stopped');
  },
  600_000,
);

test('a stopped agent is reported immediately, and the answer is complete when it continues; a killed one too', async () => {
  // While it is stopped, its ring has to hold what the whole machine does.
  const pair = await startIn(shared, ['--ring-size', '128']);
  const window = write();
  await expectWholeSoon(pair, window);
  await expectStopIsReported(pair, window);
  await expectKillIsReported(pair);
}, 60_000);

/** `before` is recorded. */
async function expectStopIsReported(pair: Pair, before: Window): Promise<void> {
  pair.agent.process.kill('SIGSTOP');
  await sleep(100);
  const window = write();
  expect(await coverageOf(pair, within(window))).toMatchObject({
    complete: false,
    gaps: [{ cause: 'not_written_yet' }],
  });
  expect((await coverageOf(pair)).recorded_until).toBeLessThan(window.fromNs);
  expect(await stateOf(pair)).toBe('silent');
  await until(async () => {
    const { gaps } = await coverageOf(pair, `&from=${before.fromNs}`);
    return gaps.some(({ cause }) => cause === 'not_written_yet' || cause.startsWith('agent_'));
  });
  pair.agent.process.kill('SIGCONT');
  await untilWhole(pair, window);
  expect(await stateOf(pair)).toBe('recording');
}

async function expectKillIsReported(pair: Pair): Promise<void> {
  const ended = once(pair.agent.process, 'exit');
  pair.agent.process.kill('SIGKILL');
  await ended;
  const window = write();
  for (const query of [within(window), `&from=${window.fromNs}`, '']) {
    const { complete, gaps, recorded_until } = await coverageOf(pair, query);
    expect([query, complete, gaps.at(-1)?.cause]).toEqual([query, false, 'agent_killed']);
    expect(recorded_until).toBeLessThan(window.fromNs);
  }
  expect(await stateOf(pair)).toBe('killed');
}

test('a full disk is reported immediately', async () => {
  const disk = FILE_SYSTEMS.tmpfs(24);
  disks.push(disk);
  const pair = await startIn(await serve(disk.path));
  await expectWholeSoon(pair, write());
  disk.fill();
  // Writes until the space that the log has left is used up.
  const load = setInterval(write, 1);
  await until(async () => (await stateOf(pair)) === 'failing');
  clearInterval(load);
  const window = write();
  expect(await coverageOf(pair, within(window))).toMatchObject({
    complete: false,
    gaps: [{ cause: 'not_written_yet' }],
  });
  expect(await stateOf(pair)).toBe('failing');
  await sleep(300);
  expect((await coverageOf(pair, within(window))).complete).toBe(false);
  disk.free();
  await untilWhole(pair, window);
  expect(await stateOf(pair)).toBe('recording');
  await pair.agent.stop();
}, 60_000);
