/**
 * A thread with the number of one that ended has nothing of that one: no request that it read, and no context that it
 * published. For labels see ../pid_reuse.test.ts.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { compileProgram } from '../programs.ts';
import { type Recorded, readRecording, record, removeFolders, temporaryFolder } from '../recorded_run.ts';

const SERVICE = 'reused-numbers';
const LOOK_MS = 10;
/** The agent inspects a process one second after it first saw it, once its loop gets to it. */
const LOOKED_AT_MS = 4500;

afterAll(removeFolders);

const canChoose = existsSync('/proc/sys/kernel/ns_last_pid');
if (!canChoose) console.warn('skipped: the number of a thread cannot be chosen in this kernel');
const whenChosen = canChoose ? test : test.skip;

/** Starts a program, which continues once the agent knows it. */
async function startKnown(command: readonly string[], dataFolder: string): Promise<void> {
  const [file, ...args] = command;
  const program = spawn(file!, args, {
    env: { PATH: process.env.PATH, OTEL_SERVICE_NAME: SERVICE },
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const ended = once(program, 'exit');
  while (
    readRecording(dataFolder)
      .writes()
      .every(({ pid }) => pid !== program.pid)
  )
    await sleep(LOOK_MS);
  await sleep(LOOKED_AT_MS);
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
  const [folder, dataFolder] = [temporaryFolder(), temporaryFolder()];
  const [first, second] = [randomBytes(16).toString('hex'), randomBytes(16).toString('hex')];
  const script = join(import.meta.dirname, '../http_servers/reused_tid.py');
  const recorded = await record(
    () => startKnown(['/usr/bin/python3', script, folder, first, second], dataFolder),
    ['--http-services', SERVICE],
    dataFolder,
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
  const [folder, dataFolder] = [temporaryFolder(), temporaryFolder()];
  const program = compileProgram('otel_writes', ['-rdynamic', '-DSAME_NUMBER'], 'otel_writes_same_number');
  const recorded = await record(() => startKnown([program, folder], dataFolder), [], dataFolder);
  const written = writtenIn(recorded, folder);
  const trace = `b0${'0'.repeat(28)}01`;
  const expected = ['published', 'none', 'published', 'none', 'published', 'none', 'published', 'none'];
  expect(written.map(({ name, trace }) => [name, trace])).toEqual(
    expected.map((name) => [name, name === 'none' ? null : trace]),
  );
  expect(new Set(written.map(({ tid }) => tid)).size).toBe(1);
});
