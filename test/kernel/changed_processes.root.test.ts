/** Processes that become another service while they run: their events are named, and filtered, as what they are then. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findCgroups } from '../../agent/attribution/cgroups.ts';
import { bash, compileProgram } from './programs.ts';
import { newRecorder, type Recorded, readRecording, record, removeFolders, temporaryFolder } from './recorded_run.ts';

const cgroup = join(findCgroups().root, `kreplay-moved-${process.pid}.service`);
/** The agent has seen an event, and has told the kernel side to drop the process if it is not wanted. */
const SEEN_S = 1;
/** The agent has checked a process for the first time: whether it publishes OpenTelemetry's contexts. */
const CHECKED_MS = 4500;
/** The agent has checked a process for the last time. */
const CHECKED_LAST_S = 38;

const recorder = newRecorder();

beforeAll(() => {
  mkdirSync(cgroup);
});

afterAll(async () => {
  await recorder.stop();
  rmdirSync(cgroup);
  removeFolders();
});

/** Pairs of a file's name and the service that wrote it, in the order of the writes. */
function servicesByFile(recorded: Recorded, folder: string): [string, string][] {
  const writes = recorded.writes().filter(({ file }) => file?.startsWith(`${folder}/`));
  return writes.map(({ file, service_name }) => [basename(file!), service_name!]);
}

/** The shell writes, then becomes another program; then another shell writes, moves and writes again. */
const WORKLOAD = `
  cd "$folder"
  bash -c 'echo x > wrapper; sleep ${SEEN_S}; OTEL_SERVICE_NAME=shop exec /bin/echo x > shop'
  bash -c 'echo x > outside; sleep ${SEEN_S}; echo $$ > ${cgroup}/cgroup.procs; echo x > inside'`;

const runWorkload = (folder: string) => bash(WORKLOAD, { env: { ...process.env, folder } });

test('events after an exec, and after a move to another cgroup, have the new service', async () => {
  const folder = temporaryFolder();
  const recorded = await recorder.record(() => void runWorkload(folder));
  expect(servicesByFile(recorded, folder)).toEqual([
    ['wrapper', 'bash'],
    ['shop', 'shop'],
    ['outside', 'bash'],
    ['inside', basename(cgroup, '.service')],
  ]);
});

test.concurrent.each<[string[], string[]]>([
  [['--service', 'shop'], ['shop']],
  [['--service', basename(cgroup, '.service')], ['inside']],
  [['--cgroup', `/${basename(cgroup)}`], ['inside']],
  [
    ['--except-service', 'bash'],
    ['shop', 'inside'],
  ],
  [
    ['--except-service', 'shop'],
    ['wrapper', 'outside', 'inside'],
  ],
])('%j records %j, whatever the process was before', async (flags, files) => {
  const folder = temporaryFolder();
  const recorded = await record(() => void runWorkload(folder), flags);
  expect(servicesByFile(recorded, folder).map(([file]) => file)).toEqual(files);
});

test.concurrent('a service name that a process publishes later is what the filter goes by', async () => {
  const folder = temporaryFolder();
  const program = compileProgram('otel_writes', ['-rdynamic']);
  const recorded = await record(async () => {
    const child = spawn(program, [folder], { stdio: ['pipe', 'ignore', 'inherit'] });
    await once(child, 'spawn');
    await sleep(CHECKED_MS);
    child.stdin.write('go\n');
    await once(child, 'exit');
  }, ['--service', 'otel-shop']);
  const services = servicesByFile(recorded, folder);
  expect(services.length).toBe(8 * 50 * 4);
  expect(new Set(services.map(([, service]) => service))).toEqual(new Set(['otel-shop']));
});

/** Programs with the thread-local variable at the same place. */
const publisher = () => compileProgram('otel_writes', ['-rdynamic']);
const publisherThatExecutes = () => compileProgram('otel_writes', ['-rdynamic', '-DBECOMES_NEXT'], 'otel_becomes');
const noPublisher = () => compileProgram('otel_writes', ['-rdynamic', '-DPUBLISHES_NO_PROCESS'], 'otel_no_process');

/** Runs a program, and lets it go on after a time, as often as it waits for a line. */
async function goOn(command: readonly string[], ...afterMs: readonly number[]): Promise<void> {
  const [program, ...args] = command;
  const child = spawn(program!, args, { stdio: ['pipe', 'ignore', 'inherit'] });
  const exited = once(child, 'exit');
  await once(child, 'spawn');
  for (const ms of afterMs) {
    await sleep(ms);
    child.stdin.write('go\n');
  }
  expect(await exited).toEqual([0, null]);
}

describe('a process that publishes contexts', () => {
  test.concurrent('and executes a program that does not is named, and owned, as that', async () => {
    const folder = temporaryFolder();
    const recorded = await recorder.record(() =>
      goOn([publisherThatExecutes(), folder, noPublisher(), folder], CHECKED_MS, CHECKED_MS),
    );
    const writes = recorded.writes().filter(({ file }) => file?.startsWith(`${folder}/`));
    const [, ...next] = writes;
    expect(next.length).toBe(1 + 8 * 50 * 4);
    const owners = next.map(({ service_name, trace_id, transaction_id }) => [service_name, trace_id, transaction_id]);
    expect(new Set(owners.map(String))).toEqual(new Set(['otel_no_process,,']));
  });

  test.concurrent.each<[string, (folder: string) => string[], number[]]>([
    [
      'is executed late',
      () => ['sh', '-c', `echo x > "$1"/shell; sleep ${CHECKED_LAST_S}; exec "$0" "$1"`],
      [CHECKED_LAST_S * 1000 + CHECKED_MS],
    ],
    ['is executed by another one', (folder) => [publisherThatExecutes(), folder], [CHECKED_MS, CHECKED_MS]],
  ])('%s: its threads are owned', async (_, commandOf, afterMs) => {
    const folder = temporaryFolder();
    const recorded = await recorder.record(async () => {
      await goOn([...commandOf(folder), publisher(), folder], ...afterMs);
    });
    const writes = recorded.writes().filter(({ file }) => file?.startsWith(`${folder}/`));
    const own = writes.filter(({ file }) => !['shell', 'started'].includes(basename(file!)));
    expect(own.length).toBe(8 * 50 * 4);
    const owners = own.map(({ file, service_name, trace_id }) => [
      service_name,
      trace_id === null ? 'none' : trace_id === basename(file!),
    ]);
    expect(new Set(owners.map(String))).toEqual(new Set(['otel-shop,none', 'otel-shop,true']));
    expect(own.filter(({ trace_id }) => trace_id !== null).length).toBe(8 * 50 * 2);
  });
});

describe('an HTTP server', () => {
  const script = join(import.meta.dirname, 'http_servers', 'executed.py');

  /** Returns the trace of each file's write. */
  async function tracesOf(before: string, after: string): Promise<Record<string, string | null>> {
    const [folder, dataFolder] = [temporaryFolder(), temporaryFolder()];
    const service = `${before}-${after}`;
    const recorded = await record(
      async () => {
        const child = spawn('/usr/bin/python3', [script, folder, before, after], {
          env: { PATH: process.env.PATH, OTEL_SERVICE_NAME: service },
          stdio: ['pipe', 'ignore', 'inherit'],
        });
        const exited = once(child, 'exit');
        for (const written of [`${before}-ready`, `${after}-ready`]) {
          // The agent knows the program once its first write is recorded.
          while (
            !readRecording(dataFolder)
              .writes()
              .some(({ file }) => file === join(folder, written))
          )
            await sleep(10);
          child.stdin.write('go\n');
        }
        expect(await exited).toEqual([0, null]);
      },
      ['--http-services', service],
      dataFolder,
    );
    const writes = recorded.writes().filter(({ file }) => file?.startsWith(`${folder}/`));
    return Object.fromEntries(writes.map(({ file, trace_id }) => [basename(file!), trace_id]));
  }

  test.concurrent('that served by threads proves nothing about the program that it executes', async () => {
    expect(await tracesOf('threads', 'worker')).toMatchObject({
      'threads-19': 'a'.repeat(32),
      'worker-reader': null,
    });
  });

  test.concurrent('that waited for many connections says nothing about the program that it executes', async () => {
    expect(await tracesOf('events', 'single')).toMatchObject({ 'single-0': 'a'.repeat(32) });
  });
});
