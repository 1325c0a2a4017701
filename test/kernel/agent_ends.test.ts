// An agent that is told to end at any instant, also while it starts, leaves one file that anybody can read.
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, test } from '@jest/globals';
import { AS_NOBODY } from '../unprivileged.ts';
import { ROOT } from './programs.ts';
import { temporaryFolder } from './recorded_run.ts';

/** From the start of the process; it takes about half a second until it records. */
const MOMENTS_MS = [50, 150, 250, 350, 450, 550, 700, 900, 1200];
const END_MS_MAX = 10_000;

const dataFolder = temporaryFolder();
chmodSync(dataFolder, 0o755);
const started: ChildProcess[] = [];
afterAll(() => {
  for (const child of started) child.kill('SIGKILL');
  rmSync(dataFolder, { recursive: true });
});

function eventsAsNobody(): number {
  const [command, ...args] = AS_NOBODY;
  const script = `
    import { openReader } from '${join(ROOT, 'agent/recording/reader.ts')}';
    console.log(openReader('${join(dataFolder, 'recording.kreplay')}').info().eventCount);`;
  const options = { encoding: 'utf8' as const };
  return Number(execFileSync(command, [...args, process.execPath, '--input-type=module', '-e', script], options));
}

test.each(['SIGINT', 'SIGTERM'] as const)('%s at any instant leaves one clean file', async (signal) => {
  let events = 0;
  for (const moment_ms of MOMENTS_MS) {
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
    await sleep(moment_ms);
    // Before it listens a signal ends it at once, and it has nothing to clean.
    agent.kill(signal);
    const toldMs = performance.now();
    const [code, endedBy] = await ended;
    expect([complaints, code === 0 || endedBy === signal]).toEqual(['', true]);
    expect(performance.now() - toldMs).toBeLessThan(END_MS_MAX);
    const left = readdirSync(dataFolder).filter((file) => file !== 'recording.lock');
    expect(left).toEqual(left.length === 0 ? [] : ['recording.kreplay']);
    if (left.length === 0) continue;
    const now = eventsAsNobody();
    expect(now).toBeGreaterThanOrEqual(events);
    events = now;
  }
  expect(events).toBeGreaterThan(0);
});
