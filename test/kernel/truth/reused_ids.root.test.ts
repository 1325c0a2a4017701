/**
 * A thread or process with the number of one that ended has nothing of that one: no request that it read, and no
 * context that it published. For labels see ../pid_reuse.test.ts.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { compileProgram } from '../programs.ts';
import { newRecorder, type Recorded, removeFolders, temporaryFolder } from '../recorded_run.ts';

const SERVICE = 'reused-numbers';
const SERVICE_OF_FORKED = 'reused';
const LOOK_MS = 50;
/** The agent inspects a process one second after it first saw it, once its loop gets to it. */
const LOOKED_AT_MS = 4500;

/** One agent for all of these processes: it looks at the requests of both services. */
const agent = newRecorder(['--http-services', SERVICE, SERVICE_OF_FORKED]);

afterAll(async () => {
  await agent.stop();
  removeFolders();
});

const canChoose = existsSync('/proc/sys/kernel/ns_last_pid');
if (!canChoose) console.warn('skipped: the number of a thread cannot be chosen in this kernel');
const whenChosen = canChoose ? test.concurrent : test.concurrent.skip;

/** Starts a program, which continues once the agent knows it. */
async function startKnown([file, ...args]: readonly string[], service: string, lookedAtMs: number): Promise<void> {
  const fromNs = BigInt(Date.now()) * 1_000_000n;
  const program = spawn(file!, args, {
    env: { PATH: process.env.PATH, OTEL_SERVICE_NAME: service },
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const ended = once(program, 'exit');
  const { writes } = await agent.soFar();
  while (writes({ services: [service], pid: program.pid!, fromNs }).length === 0) await sleep(LOOK_MS);
  await sleep(lookedAtMs);
  program.stdin.end('go\n');
  expect((await ended)[0]).toBe(0);
}

/** The traces and threads of the writes to each file in the folder. */
function writtenIn(recorded: Recorded, folder: string): { name: string; trace: string | null; tid: number }[] {
  return recorded
    .writes()
    .filter(({ file }) => file?.startsWith(`${folder}/`) && basename(file) !== 'started')
    .map(({ file, trace_id, tid }) => ({ name: basename(file!), trace: trace_id, tid }));
}

whenChosen('a thread inherits nothing of a request from an earlier thread with its id', async () => {
  const folder = temporaryFolder();
  const [first, second] = [randomBytes(16).toString('hex'), randomBytes(16).toString('hex')];
  const script = join(import.meta.dirname, '../http_servers/reused_tid.py');
  const recorded = await agent.record(() =>
    startKnown(['/usr/bin/python3', script, folder, first, second], SERVICE, LOOKED_AT_MS),
  );
  const written = writtenIn(recorded, folder);
  expect(written.map(({ name, trace }) => [name, trace])).toEqual([
    ['first', first],
    ['between', null],
    ['second', second],
    ['after', null],
  ]);
  expect(new Set(written.map(({ tid }) => tid)).size).toBe(1);
});

whenChosen('a thread inherits nothing of a published context from an earlier thread with its id', async () => {
  const folder = temporaryFolder();
  const program = compileProgram('otel_writes', ['-rdynamic', '-DSAME_NUMBER'], 'otel_writes_same_number');
  const recorded = await agent.record(() => startKnown([program, folder], SERVICE, LOOKED_AT_MS));
  const written = writtenIn(recorded, folder);
  const trace = `b0${'0'.repeat(28)}01`;
  const expected = ['published', 'none', 'published', 'none', 'published', 'none', 'published', 'none'];
  expect(written.map(({ name, trace }) => [name, trace])).toEqual(
    expected.map((name) => [name, name === 'none' ? null : trace]),
  );
  expect(new Set(written.map(({ tid }) => tid)).size).toBe(1);
});

test.concurrent('an open request of an exited process does not affect the next process with its PID', async () => {
  const folder = temporaryFolder();
  const traces = [randomBytes(16).toString('hex'), randomBytes(16).toString('hex')];
  const script = join(import.meta.dirname, '../http_servers/reused_pid.py');
  const recorded = await agent.record(() =>
    startKnown(['/usr/bin/python3', script, folder, ...traces], SERVICE_OF_FORKED, 0),
  );
  const served = recorded.writes({ services: [SERVICE_OF_FORKED] });
  const own = served.filter(({ file }) => file === join(folder, 'served'));
  expect(own.map(({ trace_id }) => trace_id)).toEqual(traces);
});
