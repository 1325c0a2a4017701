// An answer says until when it is complete, and reports at once an agent that is gone, stopped or cannot write: curl
// asks a real daemon with a real agent.
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ROOT, wallClockNs } from './programs.ts';
import { type Agent, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';
import { FILE_SYSTEMS, type SmallDisk } from './small_disk.ts';

/** How long quiet hosts are watched; QUIET_S=300 watches them longer. */
const QUIET_S = Number(process.env.QUIET_S ?? 12);
/** A busy machine may delay an agent, which commits every second; a window that begins later is not recorded at all. */
const LAG_NS_MAX = 5_000_000_000n;
const PATIENCE_MS = 10_000;

const processes: ChildProcess[] = [];
const disks: SmallDisk[] = [];
afterAll(async () => {
  for (const process of processes.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)) {
    process.kill('SIGKILL');
    await once(process, 'exit');
  }
  for (const disk of disks) disk.remove();
  removeFolders();
});

interface Pair {
  agent: Agent;
  url: string;
}

interface Coverage {
  complete: boolean;
  gaps: { from: bigint; to: bigint; cause: string }[];
  recorded_until: bigint;
}

async function start(folder: string, flags: readonly string[] = []): Promise<Pair> {
  const agent = await startAgent(folder, ['--retain-bytes', '1GB', ...flags]);
  processes.push(agent.process);
  const daemon = fork(join(ROOT, 'kreplay.ts'), ['daemon', '--data', folder, '--listen', '127.0.0.1:0'], {
    execArgv: [],
    stdio: ['ignore', 'pipe', 'ignore', 'ipc'],
  });
  processes.push(daemon);
  const [line] = (await once(daemon.stdout!.setEncoding('utf8'), 'data')) as [string];
  const url = /http:\/\/[\d.:]+/.exec(line)![0];
  return { agent, url };
}

function ask({ url }: Pair, path: string): string {
  return execFileSync('curl', ['--silent', '--max-time', '5', `${url}${path}`], { encoding: 'utf8' });
}

function coverageOf(pair: Pair, query = ''): Coverage {
  const text = ask(pair, `/api/events?limit=1${query}`);
  const coverage = text.slice(text.indexOf('"coverage":') + '"coverage":'.length, -1);
  return JSON.parse(coverage, (key, value, context?: { source: string }) =>
    ['from', 'to', 'recorded_until'].includes(key) && value !== null ? BigInt(context!.source) : value,
  );
}

const stateOf = (pair: Pair): string => JSON.parse(ask(pair, '/readyz')).recordings[0].agent.state;

/** Writes, and returns the window in which it wrote. */
function write(file: string): { fromNs: bigint; toNs: bigint } {
  const fromNs = wallClockNs();
  appendFileSync(file, 'x');
  return { fromNs, toNs: wallClockNs() };
}

const within = ({ fromNs, toNs }: { fromNs: bigint; toNs: bigint }) => `&from=${fromNs}&to=${toNs}`;

async function until(holds: () => boolean, patienceMs = PATIENCE_MS): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (!holds() && performance.now() < deadline) await sleep(50);
  expect(holds()).toBe(true);
}

/** Expects that a write that was just made is in the recording soon. */
async function expectWholeSoon(pair: Pair, window: { fromNs: bigint; toNs: bigint }): Promise<void> {
  const { complete, gaps, recorded_until } = coverageOf(pair, within(window));
  if (!complete) expect(gaps.map(({ cause }) => cause)).toEqual(['not_written_yet']);
  expect(complete).toBe(recorded_until >= window.toNs);
  await until(() => coverageOf(pair, within(window)).complete);
  expect(coverageOf(pair, within(window)).recorded_until).toBeGreaterThanOrEqual(window.toNs);
  expect(JSON.parse(ask(pair, `/api/events?${within(window).slice(1)}&pid=${process.pid}`)).events).not.toEqual([]);
}

// Each watches its own agent for a while, so they run side by side.
test.concurrent.each([
  ['a busy host', []],
  ['a host where nothing is wanted', ['--min-duration', '1h']],
])(
  'an answer of %s is complete up to what is committed',
  async (_, flags) => {
    const folder = temporaryFolder();
    const pair = await start(folder, flags);
    if (flags.length === 0) await expectWholeSoon(pair, write(join(folder, 'written')));
    else await until(() => coverageOf(pair).recorded_until > 0n);
    const startMs = performance.now();
    const startNs = wallClockNs();
    let furthestNs = 0n;
    let laggedNs = 0n;
    while (performance.now() - startMs < QUIET_S * 1000) {
      const { complete, gaps, recorded_until } = coverageOf(pair, `&from=${startNs - LAG_NS_MAX}`);
      const nowNs = wallClockNs();
      // Without `to` the answer is complete until then, and the last moment raises no alarm.
      const alarms = gaps.filter(({ cause }) => cause === 'not_written_yet' || cause.startsWith('agent_'));
      expect([alarms, complete || gaps.length > 0]).toEqual([[], true]);
      expect(recorded_until).toBeGreaterThanOrEqual(furthestNs);
      expect(recorded_until).toBeLessThan(nowNs);
      furthestNs = recorded_until;
      if (nowNs - recorded_until > laggedNs) laggedNs = nowNs - recorded_until;
      expect(stateOf(pair)).toBe('recording');
      await sleep(100);
    }
    if (process.env.QUIET_S) process.stderr.write(`recorded_until was ${Number(laggedNs) / 1e6} ms ago at most\n`);
    expect(laggedNs).toBeLessThan(LAG_NS_MAX);
    await pair.agent.stop();
    const { recorded_until, complete, gaps } = coverageOf(pair, '&from=-1h&to=-0s');
    expect([complete, gaps.at(-1)!.cause, gaps.at(-1)!.from]).toEqual([false, 'agent_stopped', recorded_until]);
    expect(stateOf(pair)).toBe('stopped');
  },
  600_000,
);

test('a killed agent is reported immediately', async () => {
  const folder = temporaryFolder();
  const pair = await start(folder);
  await expectWholeSoon(pair, write(join(folder, 'written')));
  const ended = once(pair.agent.process, 'exit');
  pair.agent.process.kill('SIGKILL');
  await ended;
  const window = write(join(folder, 'written'));
  for (const query of [within(window), `&from=${window.fromNs}`, '']) {
    const { complete, gaps, recorded_until } = coverageOf(pair, query);
    expect([query, complete, gaps.at(-1)?.cause]).toEqual([query, false, 'agent_killed']);
    expect(recorded_until).toBeLessThan(window.fromNs);
  }
  expect(stateOf(pair)).toBe('killed');
}, 60_000);

test('a stopped agent is reported immediately, and the answer is complete when it continues', async () => {
  const folder = temporaryFolder();
  const pair = await start(folder);
  await expectWholeSoon(pair, write(join(folder, 'written')));
  pair.agent.process.kill('SIGSTOP');
  await sleep(100);
  const window = write(join(folder, 'written'));
  expect(coverageOf(pair, within(window))).toMatchObject({ complete: false, gaps: [{ cause: 'not_written_yet' }] });
  expect(coverageOf(pair).recorded_until).toBeLessThan(window.fromNs);
  expect(stateOf(pair)).toBe('silent');
  await until(() => !coverageOf(pair).complete);
  pair.agent.process.kill('SIGCONT');
  await until(() => coverageOf(pair, within(window)).complete);
  expect(stateOf(pair)).toBe('recording');
  await pair.agent.stop();
}, 60_000);

test('a full disk is reported immediately', async () => {
  const disk = FILE_SYSTEMS.tmpfs(24);
  disks.push(disk);
  const folder = temporaryFolder();
  const pair = await start(disk.path);
  await expectWholeSoon(pair, write(join(folder, 'written')));
  disk.fill();
  let window = write(join(folder, 'written'));
  // Writes until the space that the log has left is used up.
  const logged = once(pair.agent.process.stderr!, 'data');
  const load = setInterval(() => write(join(folder, 'written')), 1);
  await logged;
  clearInterval(load);
  window = write(join(folder, 'written'));
  expect(coverageOf(pair, within(window))).toMatchObject({ complete: false, gaps: [{ cause: 'not_written_yet' }] });
  expect(stateOf(pair)).toBe('failing');
  await sleep(300);
  expect(coverageOf(pair, within(window)).complete).toBe(false);
  disk.free();
  await until(() => coverageOf(pair, within(window)).complete);
  expect(stateOf(pair)).toBe('recording');
  await pair.agent.stop();
}, 60_000);
