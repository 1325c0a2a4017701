/** Processes that become another service while they run: their events are named, and filtered, as what they are then. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findCgroups } from '../../agent/attribution/cgroups.ts';
import { createPublishers } from '../../agent/attribution/publishers.ts';
import { bash } from './programs.ts';
import {
  CHECKED_MS,
  expectOwned,
  goOn,
  noPublisher,
  noPublisherThatExecutes,
  publisher,
  publisherThatExecutes,
  WRITES,
  writesIn,
} from './publishers.ts';
import {
  type FilteredRecorder,
  newRecorder,
  type Recorded,
  record,
  removeFolders,
  startFilteredAgent,
  temporaryFolder,
} from './recorded_run.ts';

const cgroup = join(findCgroups().root, `kreplay-moved-${process.pid}.service`);
/** The agent has seen an event, and has told the kernel side to drop the process if it is not wanted. */
const SEEN_S = 1;

/** The agent of all tests here that set no filter; it looks at the requests of both HTTP servers. */
const recorder = newRecorder(['--http-services', 'threads-worker', 'events-single']);
let filtered: FilteredRecorder;

beforeAll(async () => {
  mkdirSync(cgroup);
  filtered = await startFilteredAgent();
});

afterAll(async () => {
  await filtered?.agent.stop();
  await recorder.stop();
  rmdirSync(cgroup);
  removeFolders();
});

/** Pairs of a file's name and the service that wrote it, in the order of the writes. */
function servicesByFile(recorded: Recorded, folder: string): [string, string][] {
  return writesIn(recorded, folder).map(({ file, service_name }) => [basename(file!), service_name!]);
}

/** A shell writes, then becomes another program; another shell writes, moves and writes again. */
const WORKLOAD = `
  cd "$folder"
  bash -c 'echo x > wrapper; sleep ${SEEN_S}; OTEL_SERVICE_NAME=shop exec /bin/echo x > shop' &
  bash -c 'echo x > outside; sleep ${SEEN_S}; echo $$ > ${cgroup}/cgroup.procs; echo x > inside'
  wait`;

const runWorkload = (folder: string) => bash(WORKLOAD, { env: { ...process.env, folder } });

const ROUNDS = 101;

test('a process belongs to its new program immediately after any number of execs', async () => {
  const out = join(temporaryFolder(), 'out');
  // The second exec often reuses the memory of the first program: addresses identify nothing.
  const recorded = await recorder.record(() => {
    bash(`for round in $(seq ${ROUNDS}); do
      (printf 1 >>${out}; exec env dd if=/dev/zero bs=2 count=1 status=none >>${out})
    done`);
  });
  const writes = recorded.writes().filter(({ file }) => file === out);
  const services = (bytes: bigint) =>
    writes.filter(({ result }) => result === bytes).map(({ service_name, comm }) => `${comm} ${service_name}`);
  expect(services(1n)).toEqual(Array(ROUNDS).fill('bash bash'));
  expect(services(2n)).toEqual(Array(ROUNDS).fill('dd dd'));
});

test('events after an exec, and after a move to another cgroup, have the new service', async () => {
  const folder = temporaryFolder();
  const recorded = await recorder.record(() => void runWorkload(folder));
  expect(Object.fromEntries(servicesByFile(recorded, folder))).toEqual({
    wrapper: 'bash',
    shop: 'shop',
    outside: 'bash',
    inside: basename(cgroup, '.service'),
  });
});

test.each<[object, string[]]>([
  [{ services: ['shop'] }, ['shop']],
  [{ services: [basename(cgroup, '.service')] }, ['inside']],
  [{ cgroups: [`/${basename(cgroup)}`] }, ['inside']],
  [{ except_services: ['bash'] }, ['inside', 'shop']],
  [{ except_services: ['shop'] }, ['inside', 'outside', 'wrapper']],
])('%j records %j, whatever the process was before', async (filter, files) => {
  const folder = temporaryFolder();
  const recorded = await filtered.record(filter, () => void runWorkload(folder));
  const found = servicesByFile(recorded, folder).map(([file]) => file);
  expect(found.sort()).toEqual(files);
});

test.concurrent('a service name that a process publishes later is what the filter goes by', async () => {
  const folder = temporaryFolder();
  const recorded = await record(() => goOn([publisher(), folder], CHECKED_MS), ['--service', 'otel-shop']);
  const services = servicesByFile(recorded, folder);
  expect(services.length).toBe(WRITES);
  expect(new Set(services.map(([, service]) => service))).toEqual(new Set(['otel-shop']));
});

describe('a process that publishes contexts', () => {
  test.concurrent('and executes a program that does not is named, and owned, as that', async () => {
    const folder = temporaryFolder();
    const recorded = await recorder.record(() =>
      goOn([publisherThatExecutes(), folder, noPublisher(), folder], CHECKED_MS, CHECKED_MS),
    );
    const [, ...next] = writesIn(recorded, folder);
    expect(next.length).toBe(1 + WRITES);
    const owners = next.map(({ service_name, trace_id, transaction_id }) => [service_name, trace_id, transaction_id]);
    expect(new Set(owners.map(String))).toEqual(new Set(['otel_no_process,,']));
  });

  test.concurrent('is executed by another one: its threads are owned', async () => {
    const folder = temporaryFolder();
    const recorded = await recorder.record(() =>
      goOn([publisherThatExecutes(), folder, publisher(), folder], CHECKED_MS, CHECKED_MS),
    );
    expectOwned(recorded, folder);
  });

  // The last check is 36 seconds after the first look: here the clock is given.
  test('is executed after the last check of its process: it is checked again', async () => {
    const [before, after] = [temporaryFolder(), temporaryFolder()];
    const child = spawn(noPublisherThatExecutes(), [before, publisher(), after], {
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    const exited = once(child, 'exit');
    const watched: number[] = [];
    const publishers = createPublishers({
      watch: ({ execId }) => void watched.push(execId),
      onService: () => {},
    });
    await untilExists(join(before, 'started'));
    publishers.consider(runningProgram(child.pid!, 1));
    for (const seconds of [2, 8, 40, 100]) publishers.checkDue(performance.now() + seconds * 1000);
    expect(watched).toEqual([]);
    child.stdin.write('go\n');
    await untilExists(join(after, 'started'));
    publishers.checkDue(performance.now() + 200_000);
    expect(watched).toEqual([]);
    publishers.consider(runningProgram(child.pid!, 2));
    publishers.checkDue(performance.now() + 2000);
    expect(watched).toEqual([2]);
    child.stdin.write('go\n');
    expect(await exited).toEqual([0, null]);
  });
});

async function untilExists(file: string): Promise<void> {
  while (!existsSync(file)) await sleep(10);
}

/** The program that a process runs now; /proc counts its start in hundredths of a second. */
function runningProgram(pid: number, execId: number) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
  return { pid, execId, startNs: Number(fields[19]) * 1e7, stackStart: Number(fields[25]) };
}

describe('an HTTP server', () => {
  const script = join(import.meta.dirname, 'http_servers', 'executed.py');

  /** Returns the trace of each file's write. */
  async function tracesOf(before: string, after: string): Promise<Record<string, string | null>> {
    const folder = temporaryFolder();
    const recorded = await recorder.record(async () => {
      const fromNs = BigInt(Date.now()) * 1_000_000n;
      const child = spawn('/usr/bin/python3', [script, folder, before, after], {
        env: { PATH: process.env.PATH, OTEL_SERVICE_NAME: `${before}-${after}` },
        stdio: ['pipe', 'ignore', 'inherit'],
      });
      const exited = once(child, 'exit');
      for (const written of [`${before}-ready`, `${after}-ready`]) {
        // The agent knows the program once its first write is recorded.
        const { writes } = await recorder.soFar();
        while (!writes({ pid: child.pid!, fromNs }).some(({ file }) => file === join(folder, written))) await sleep(50);
        child.stdin.write('go\n');
      }
      expect(await exited).toEqual([0, null]);
    });
    const writes = writesIn(recorded, folder);
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
