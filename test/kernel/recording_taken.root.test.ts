// The recording is removed, replaced, overwritten or moved while an agent and a daemon work with it: both notice and
// report it, and continue with what is there then.
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, copyFileSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isWhole, verifyRecording } from '../../agent/recording/read/verify.ts';
import { ROOT } from './programs.ts';
import { type Agent, readRecording, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

const PATIENCE_MS = 10_000;
/** An agent that begins a new recording loads its probes, which takes long on a busy machine. */
const BEGIN_PATIENCE_MS = 40_000;

const processes: ChildProcess[] = [];
afterAll(async () => {
  for (const process of processes.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)) {
    process.kill('SIGKILL');
    await once(process, 'exit');
  }
  removeFolders();
});

let folder: string;
let written: string;
let agent: Agent;
let daemon: ChildProcess;
let url: string;
let log = '';

beforeAll(async () => {
  folder = join(temporaryFolder(), 'data');
  written = temporaryFolder();
  mkdirSync(folder);
  agent = await startAgent(folder);
  agent.process.stderr!.on('data', (text: string) => {
    log += text;
  });
  daemon = fork(join(ROOT, 'kreplay.ts'), ['daemon', '--data', folder, '--listen', '127.0.0.1:0'], {
    execArgv: [],
    stdio: ['ignore', 'pipe', 'ignore', 'ipc'],
  });
  processes.push(agent.process, daemon);
  const [line] = (await once(daemon.stdout!.setEncoding('utf8'), 'data')) as [string];
  url = /http:\/\/[\d.:]+/.exec(line)![0];
}, 30_000);

// biome-ignore lint/suspicious/noExplicitAny: answers of several shapes
async function ask(path: string, body?: string): Promise<any> {
  const asked = body === undefined ? {} : { method: 'POST', headers: { 'Content-Type': 'application/json' }, body };
  const answer = await fetch(url + path, { ...asked, signal: AbortSignal.timeout(PATIENCE_MS) });
  const text = await answer.text();
  return text === '' ? {} : JSON.parse(text);
}

const recordingId = async (): Promise<string | undefined> => (await ask('/readyz')).recordings?.[0].recording_id;
const filesOf = ({ pid }: ChildProcess) => readdirSync(`/proc/${pid}/fd`).length;

async function until(holds: () => boolean | Promise<boolean>, patienceMs = PATIENCE_MS): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (!(await holds()) && performance.now() < deadline) await sleep(100);
  expect(await holds()).toBe(true);
}

/** Expects that an event of this process on a file of its own can be queried soon. */
async function expectRecorded(name: string): Promise<void> {
  const file = join(written, name);
  const isThere = async () => {
    appendFileSync(file, 'x');
    const { events } = await ask(`/api/events?order=desc&pid=${process.pid}`);
    return events?.some((event: { file: string }) => event.file === file) ?? false;
  };
  await until(isThere, BEGIN_PATIENCE_MS);
}

/** Starts a session of a transaction that is recorded, and long enough to be played in parts. */
async function startSession(): Promise<string> {
  const writes = `for i in $(seq 20); do echo x >> ${join(written, 'session')}; sleep 0.01; done`;
  execFileSync('sh', ['-c', `printf 'KREPLAY1 txn=order-1' > /dev/null; ${writes}`]);
  await until(async () => (await ask('/api/events?transaction_id=order-1')).events?.length >= 20);
  return (await ask('/api/replay/sessions', '{"transaction_id":"order-1"}')).session_id;
}

test.each([
  ['removed', () => removeAll(), /was removed while it was recorded into: the \d+ events that it held are lost/],
  ['replaced', () => replace(), /was replaced or moved while .* are lost|was removed .* are lost/],
  ['moved with its folder', () => moveFolder(), /was replaced or moved .* events that it held are in .*\.moved\//],
  ['without its log', () => removeBeside(), /the files beside .* were removed .*: it is opened again/],
])(
  'a recording that is %s is noticed, and subsequent events are recorded',
  async (name, take, said) => {
    await expectRecorded(`before ${name}`);
    const before = await recordingId();
    const [agentFiles, daemonFiles] = [filesOf(agent.process), filesOf(daemon)];
    log = '';
    await take();
    const startMs = performance.now();
    await until(() => said.test(log));
    expect(performance.now() - startMs).toBeLessThan(PATIENCE_MS);
    await expectRecorded(`after ${name}`);
    if (name !== 'without its log') expect(await recordingId()).not.toBe(before);
    // Each holds as many files as before, except for the sockets of these requests, which come and go.
    await until(() => filesOf(agent.process) <= agentFiles + 1 && filesOf(daemon) <= daemonFiles + 1);
    const { coverage } = await ask('/api/events?from=-1h&to=-0s&limit=1');
    expect(coverage.complete).toBe(false);
    if (name === 'removed') {
      const gone = coverage.losses.filter(({ cause }: { cause: string }) => cause === 'recording_removed');
      expect(gone).toHaveLength(1);
      expect(gone[0].lost).toBeGreaterThan(0);
    }
  },
  120_000,
);

test('a session that has been read plays to its end after its recording is gone, and no new one can be created', async () => {
  await expectRecorded('session');
  const id = await startSession();
  log = '';
  removeAll();
  await until(() => /are lost/.test(log));
  await expectRecorded('after the session');
  await ask(`/api/replay/sessions/${id}/play`, '');
  await until(async () => (await ask(`/api/replay/sessions/${id}`)).state !== 'playing');
  const { state, failure, event_index, event_count } = await ask(`/api/replay/sessions/${id}`);
  expect([state, failure, event_index]).toEqual(['finished', null, event_count]);
  const { code } = await ask('/api/replay/sessions', '{"transaction_id":"order-1"}');
  expect(code).toBe('transaction_not_found');
}, 120_000);

test('a recording that is overwritten with a copy of another continues as that one, without names of the first', async () => {
  const other = await otherRecording();
  const id = verified(other);
  await expectRecorded('before it is overwritten');
  log = '';
  const begunAnew = once(agent.process, 'message');
  copyFileSync(other, join(folder, 'recording.kreplay'));
  await until(() => /was overwritten while it was recorded into: the \d+ events .* are lost/.test(log));
  await begunAnew;
  await expectRecorded('after it is overwritten');
  expect(await recordingId()).toBe(id);
  const { events } = await ask(`/api/events?pid=${process.pid}`);
  const files = events.map(({ file }: { file: string }) => file).filter((file: string) => file.startsWith(written));
  expect([...new Set(files.map((file: string) => basename(file)))]).toEqual(['other', 'after it is overwritten']);
  expect(verified(join(folder, 'recording.kreplay'))).toBe(id);
  const { losses } = (await ask('/api/events?from=-1h&limit=1')).coverage;
  expect(losses.map(({ cause }: { cause: string }) => cause)).toContain('recording_removed');
}, 120_000);

test('an agent that gets SIGHUP while it begins a new recording continues', async () => {
  await expectRecorded('before SIGHUP');
  log = '';
  removeAll();
  const hangups = setInterval(() => agent.process.kill('SIGHUP'), 5);
  await until(() => /are lost/.test(log));
  await sleep(1000);
  clearInterval(hangups);
  const { exitCode, signalCode } = agent.process;
  expect([exitCode, signalCode, (exitCode ?? signalCode) ? log : '']).toEqual([null, null, '']);
  await expectRecorded('after SIGHUP');
}, 120_000);

function removeAll(): void {
  for (const name of readdirSync(folder).filter((file) => file.startsWith('recording.kreplay')))
    rmSync(join(folder, name));
}

/** Replaces it by a recording of another agent, which has ended. */
async function replace(): Promise<void> {
  renameSync(await otherRecording(), join(folder, 'recording.kreplay'));
}

/** The recording's id; it has to be whole. */
function verified(path: string): string {
  const found = verifyRecording(path);
  expect(isWhole(found)).toBe(true);
  return found.recordingId;
}

let other: Promise<string> | undefined;

/** A copy of a recording of another agent, which has ended. */
async function otherRecording(): Promise<string> {
  other ??= recordOther();
  const copy = join(temporaryFolder(), 'recording.kreplay');
  copyFileSync(await other, copy);
  return copy;
}

async function recordOther(): Promise<string> {
  const dataFolder = temporaryFolder();
  // Only one agent at a time records into a folder, but several may record the host.
  const its = await startAgent(dataFolder);
  appendFileSync(join(written, 'other'), 'x');
  await its.stop();
  expect(readRecording(dataFolder).events().length).toBeGreaterThan(0);
  return join(dataFolder, 'recording.kreplay');
}

function moveFolder(): void {
  renameSync(folder, `${folder}.moved`);
}

function removeBeside(): void {
  for (const name of ['recording.kreplay-wal', 'recording.lock']) rmSync(join(folder, name));
}
