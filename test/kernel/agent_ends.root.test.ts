// An agent that is asked to end at any instant, even while it starts, leaves one file that every user can read.
import { type ChildProcess, type ChildProcessByStdio, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { openReader } from '../../agent/recording/read/reader.ts';
import { times } from '../repeats.ts';
import { AS_NOBODY } from '../unprivileged.ts';
import { withoutMissedEnds } from './missed_ends.ts';
import { isTold, missingNumbers, recordedNumbers, startNumberedWrites } from './numbered_writes.ts';
import { ROOT } from './programs.ts';
import { removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

const END_MS_MAX = 10_000;

/** Shares of the time from the start of the process until it records: one at random in each part of that time. */
const moments = () => Array.from({ length: times(2) }, (_, part) => (part + Math.random()) / times(2));

const dataFolder = temporaryFolder();
chmodSync(dataFolder, 0o755);
const started: ChildProcess[] = [];
afterAll(() => {
  for (const child of started) child.kill('SIGKILL');
  removeFolders();
});

/** Prints the number of events of the recording for each line that it reads. */
const READER = `
  import { createInterface } from 'node:readline';
  import { openReader } from '${join(ROOT, 'agent/recording/read/reader.ts')}';
  for await (const path of createInterface(process.stdin)) {
    try {
      const reader = openReader(path);
      console.log(reader.info().eventCount);
      reader.close();
    } catch (error) {
      console.log(error.message);
    }
  }`;
let reader: ChildProcessByStdio<Writable, Readable, null>;

beforeAll(() => {
  const [command, ...args] = AS_NOBODY;
  reader = spawn(command, [...args, process.execPath, '--input-type=module', '-e', READER], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  started.push(reader);
  reader.stdout.setEncoding('utf8');
});

async function eventsAsNobody(): Promise<number> {
  const said = once(reader.stdout, 'data');
  reader.stdin.write(`${join(dataFolder, 'recording.kreplay')}\n`);
  const [line] = (await said) as [string];
  expect(line).toMatch(/^\d+\n$/);
  return Number(line);
}

interface RunningAgent {
  ready: Promise<unknown>;
  end(signal: NodeJS.Signals): Promise<void>;
}

function runAgent(): RunningAgent {
  const agent = fork(join(ROOT, 'kreplay.ts'), ['agent', '--data', dataFolder], {
    execArgv: [],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  started.push(agent);
  let complaints = '';
  agent.stderr!.setEncoding('utf8').on('data', (text: string) => {
    complaints += text;
  });
  const ended = once(agent, 'close');
  return {
    ready: once(agent, 'message'),
    async end(signal) {
      // Before the agent handles signals, a signal ends it at once, and there is nothing to clean up.
      agent.kill(signal);
      const toldMs = performance.now();
      const [code, endedBy] = await ended;
      expect([withoutMissedEnds(complaints), code === 0 || endedBy === signal]).toEqual(['', true]);
      expect(performance.now() - toldMs).toBeLessThan(END_MS_MAX);
    },
  };
}

/** The files that an agent left, except the lock. */
const filesLeft = () => readdirSync(dataFolder).filter((file) => file !== 'recording.lock');

test.each(['SIGINT', 'SIGTERM'] as const)('%s at any moment leaves one clean file', async (signal) => {
  const startMs = performance.now();
  const first = runAgent();
  await first.ready;
  const untilReady_ms = performance.now() - startMs;
  writeFileSync('/dev/null', 'a write to record');
  await first.end(signal);
  expect(filesLeft()).toEqual(['recording.kreplay']);
  let events = await eventsAsNobody();
  expect(events).toBeGreaterThan(0);

  for (const moment of moments()) {
    const agent = runAgent();
    await sleep(moment * untilReady_ms);
    await agent.end(signal);
    expect(filesLeft()).toEqual(['recording.kreplay']);
    const now = await eventsAsNobody();
    expect(now).toBeGreaterThanOrEqual(events);
    events = now;
  }

  rmSync(join(dataFolder, 'recording.kreplay'));
  for (const moment of moments()) {
    const agent = runAgent();
    await sleep(moment * untilReady_ms);
    await agent.end(signal);
    expect([[], ['recording.kreplay']]).toContainEqual(filesLeft());
    if (filesLeft().length === 0) continue;
    await eventsAsNobody();
    rmSync(join(dataFolder, 'recording.kreplay'));
  }
});

test('SIGHUP during the shutdown is not an error, and does not end the agent before its last commit', async () => {
  for (let round = 0; round < times(1); round++) {
    const agent = fork(join(ROOT, 'kreplay.ts'), ['agent', '--data', dataFolder], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    started.push(agent);
    let complaints = '';
    agent.stderr!.setEncoding('utf8').on('data', (text: string) => {
      complaints += text;
    });
    await once(agent, 'message');
    const before = await eventsAsNobody();
    const written = join(dataFolder, 'written');
    for (let n = 0; n < 500; n++) writeFileSync(written, `${n}`);
    const ended = once(agent, 'close');
    agent.kill('SIGINT');
    const hangups = setInterval(() => agent.kill('SIGHUP'), 1);
    const [code, signal] = await ended.finally(() => clearInterval(hangups));
    // Node stops listening to signals before its process is gone; everything is committed by then.
    expect([
      withoutMissedEnds(complaints).replaceAll(/^{.*"the filter was read again"}\n/gm, ''),
      code === 0 || signal === 'SIGHUP',
    ]).toEqual(['', true]);
    expect((await eventsAsNobody()) - before).toBeGreaterThanOrEqual(500);
  }
});

test('events during the last drain are not within the time that the agent reports as recorded', async () => {
  const ownFolder = temporaryFolder();
  const agent = await startAgent(ownFolder);
  const load = startNumberedWrites(ownFolder, 300);
  await sleep(500);
  await agent.stop();
  const began = await load.stop();
  const { numbers, losses } = recordedNumbers(load, ownFolder);
  const reader = openReader(join(ownFolder, 'recording.kreplay'));
  const { toNs, end } = reader.recordedSpan()!;
  reader.close();
  const missing = missingNumbers(began, numbers).filter((number) => !isTold(losses, began, number));
  // A write has ended when the next one begins.
  const said = missing.filter((number) => began[number] !== undefined && began[number] <= toNs);
  expect([end, numbers.length > 1000, missing.length > 0, said]).toEqual(['closed', true, true, []]);
});
