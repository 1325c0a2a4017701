// System calls on the recording's files fail for a while: the agent recovers by itself, or ends with a clear error.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { PAGE_BYTES } from '../../agent/recording/format/schema.ts';
import {
  isTold,
  missingNumbers,
  type NumberedWrites,
  recordedNumbers,
  startNumberedWrites,
} from './numbered_writes.ts';
import { ROOT } from './programs.ts';
import { type Agent, committed, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

const WRITES_PER_MS = 80;
const FAILING_MS = 700;
const PATIENCE_MS = 40_000;
const SQLITE_HEADER_BYTES = 100;
const CHECKSUM_BYTES = 8;

const agents: Agent[] = [];
afterAll(async () => {
  if (running && isRunning(running)) await running.stop();
  for (const agent of agents) agent.process.kill('SIGKILL');
  removeFolders();
});

interface Spoiling {
  calls(): number;
  stop(): Promise<void>;
}

/** Makes strace inject errors into calls on the recording and its log; counts those injected. */
async function spoil(agent: Agent, inject: string): Promise<Spoiling> {
  const recording = join(agent.dataFolder, 'recording.kreplay');
  const list = join(temporaryFolder(), 'calls');
  const calls = inject.split(':')[0];
  const tracer = spawn(
    'strace',
    [
      ...['-f', '-o', list, '-p', String(agent.process.pid)],
      ...['-P', recording, '-P', `${recording}-wal`],
      ...['-e', `trace=${calls}`, '-e', `inject=${inject}`],
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const ended = once(tracer, 'exit');
  await once(tracer.stderr, 'data');
  return {
    calls: () => readFileSync(list, 'utf8').split('(INJECTED)').length - 1,
    async stop() {
      tracer.kill('SIGINT');
      await ended;
    },
  };
}

async function until(holds: () => boolean): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!holds() && performance.now() < deadline) await sleep(50);
  expect(holds()).toBe(true);
}

const nowNs = () => BigInt(Date.now()) * 1_000_000n;

/** Resolves when writes of the load that begin from now on are recorded. */
async function isRecorded(load: NumberedWrites, dataFolder: string): Promise<void> {
  const fromNs = nowNs();
  await until(() => recordedNumbers(load, dataFolder, fromNs).numbers.length > 0);
}

interface Watched extends Agent {
  complaints: string;
}

let running: Watched | undefined;
const isRunning = ({ process: { exitCode, signalCode } }: Agent) => exitCode === null && signalCode === null;

/** The agent of all tests whose faults it survives: it is another one only if it has ended. */
async function survivor(): Promise<Watched> {
  if (running && isRunning(running)) return running;
  // The smallest recording has the smallest log, which is copied to the main file often.
  const agent: Watched = {
    ...(await startAgent(temporaryFolder(), ['--retain-bytes', '64MiB'])),
    complaints: '',
  };
  agents.push(agent);
  agent.process.stderr!.on('data', (text: string) => {
    agent.complaints += text;
  });
  running = agent;
  return agent;
}

test.each([
  ['the first write', 'pwrite64:error=EIO:when=1'],
  ['every seventh write', 'pwrite64:error=EIO:when=7+7'],
  ['every write', 'pwrite64:error=EIO'],
  ['every third write, for space', 'pwrite64:error=ENOSPC:when=3+3'],
  ['every sync', 'fdatasync,fsync:error=EIO'],
  ['every second sync', 'fdatasync,fsync:error=EIO:when=2+2'],
  ['every read', 'pread64:error=EIO'],
  ['every change of size', 'ftruncate:error=EIO'],
])('%s fails', async (_name, inject) => {
  const agent = await survivor();
  const { dataFolder } = agent;
  agent.complaints = '';
  const load = startNumberedWrites(temporaryFolder(), WRITES_PER_MS);
  await isRecorded(load, dataFolder);
  const spoiling = await spoil(agent, inject);
  await sleep(FAILING_MS);
  await until(() => spoiling.calls() > 0);
  const before = recordedNumbers(load, dataFolder).numbers;
  const spoiled = spoiling.calls();
  await spoiling.stop();
  await isRecorded(load, dataFolder);
  const began = await load.stop();
  await committed(dataFolder, nowNs() + 1_000_000n);

  if (process.env.FAULTS) process.stderr.write(`${inject} ${spoiled} ${agent.complaints}\n`);
  for (const line of agent.complaints.split('\n').filter(Boolean))
    expect(JSON.parse(line)).toMatchObject({ name: 'kreplay-agent' });
  const { numbers, losses } = recordedNumbers(load, dataFolder);
  expect(new Set(numbers).size).toBe(numbers.length);
  const there = new Set(numbers);
  expect(before.filter((number) => !there.has(number))).toEqual([]);
  const missing = missingNumbers(began, numbers);
  expect(missing.filter((number) => !isTold(losses, began, number)).slice(0, 5)).toEqual([]);
  const database = new Database(join(dataFolder, 'recording.kreplay'), { readonly: true });
  expect(database.pragma('integrity_check', { simple: true })).toBe('ok');
  database.close();
});

test('if every write fails until the end, the agent ends with one clear error, and earlier data is kept', async () => {
  const dataFolder = temporaryFolder();
  const agent = await startAgent(dataFolder);
  agents.push(agent);
  const load = startNumberedWrites(temporaryFolder(), WRITES_PER_MS);
  await isRecorded(load, dataFolder);
  const spoiling = await spoil(agent, 'pwrite64:error=EIO');
  await sleep(FAILING_MS);
  const before = recordedNumbers(load, dataFolder).numbers;
  await expect(agent.stop()).rejects.toThrow(/ended with 1: (\{[^\n]*\n)*kreplay: [^\n]*check the disk[^\n]*\n$/);
  await spoiling.stop();
  const next = await startAgent(dataFolder);
  agents.push(next);
  const began = await load.stop();
  await next.stop();
  const { numbers, losses } = recordedNumbers(load, dataFolder);
  expect(numbers.slice(0, before.length)).toEqual(before);
  const missing = missingNumbers(began, numbers);
  expect(missing.filter((number) => !isTold(losses, began, number)).slice(0, 5)).toEqual([]);
});

let endedAgent: Promise<string> | undefined;

async function folderOfEndedAgent(): Promise<string> {
  const dataFolder = temporaryFolder();
  await (await startAgent(dataFolder)).stop();
  return dataFolder;
}

/** A folder in which an agent has recorded: the same for all tests, so that a single agent does it. */
async function recordedFolder(): Promise<string> {
  endedAgent ??= folderOfEndedAgent();
  const dataFolder = temporaryFolder();
  cpSync(await endedAgent, dataFolder, { recursive: true });
  return dataFolder;
}

function change(path: string, sql: string): void {
  const database = new Database(path);
  database.exec(sql);
  database.close();
}

/** All but SQLite's header, which says how the file was opened last, and the checksum of its page. */
function contentOf(path: string): Buffer {
  const bytes = readFileSync(path);
  return bytes.fill(0, PAGE_BYTES - CHECKSUM_BYTES, PAGE_BYTES).fill(0, 0, SQLITE_HEADER_BYTES);
}

test.each<[string, RegExp, (path: string) => void]>([
  ['a text', /is not a kreplay recording/, (path) => writeFileSync(path, 'no database at all '.repeat(500))],
  [
    'a foreign database',
    /is not a kreplay recording/,
    (path) => change(path, 'CREATE TABLE theirs (a); PRAGMA application_id = 7'),
  ],
  [
    'a later format',
    /has format version 99.* use the kreplay that wrote it/,
    (path) => change(path, 'PRAGMA user_version = 99'),
  ],
])('%s in place of the recording is refused in one line and left unchanged', async (_name, words, spoilFile) => {
  const dataFolder = await recordedFolder();
  const path = join(dataFolder, 'recording.kreplay');
  spoilFile(path);
  const before = contentOf(path);
  const args = [join(ROOT, 'kreplay.ts'), 'agent', '--data', dataFolder];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: PATIENCE_MS });
  expect([status, stderr]).toEqual([1, expect.stringMatching(/^kreplay: [^\n]*\n$/)]);
  expect(stderr).toMatch(words);
  expect(contentOf(path).equals(before)).toBe(true);
});

test.each<[string, (path: string) => void]>([
  ['tables that are missing', (path) => change(path, 'DROP TABLE segment')],
  ['a file cut short', (path) => truncateSync(path, 4096)],
])('%s in place of the recording is set aside unchanged, and a new recording begins', async (_name, spoilFile) => {
  const dataFolder = await recordedFolder();
  const path = join(dataFolder, 'recording.kreplay');
  spoilFile(path);
  const before = contentOf(path);
  const agent = await startAgent(dataFolder);
  agents.push(agent);
  await agent.stop();
  const [aside, ...others] = readdirSync(dataFolder).filter((name) => /^recording\.damaged-.*\.kreplay$/.test(name));
  expect([typeof aside, others]).toEqual(['string', []]);
  expect(contentOf(join(dataFolder, aside!)).equals(before)).toBe(true);
  expect(contentOf(path).equals(before)).toBe(false);
});

test('a second agent on the same folder is refused at once, and the first continues', async () => {
  const { dataFolder } = await survivor();
  await expect(startAgent(dataFolder)).rejects.toThrow(/another agent records to/);
  const load = startNumberedWrites(temporaryFolder(), 1);
  await isRecorded(load, dataFolder);
  await load.stop();
});
