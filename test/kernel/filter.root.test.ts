/** Only what the filter asks for is recorded, markers count all the same, and it can change while the agent runs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findCgroups } from '../../agent/attribution/cgroups.ts';
import { times } from '../repeats.ts';
import { isTold, missingNumbers, recordedNumbers, startNumberedWrites } from './numbered_writes.ts';
import { bash } from './programs.ts';
import {
  committed,
  type FilteredRecorder,
  type Recorded,
  readRecording,
  record,
  removeFolders,
  saidOfFilter,
  startAgent,
  startFilteredAgent,
  temporaryFolder,
} from './recorded_run.ts';

let folder: string;
/** One agent for all filters: in its file they mean what they mean as flags (test/agent/filter). */
let filtered: FilteredRecorder;

beforeAll(async () => {
  filtered = await startFilteredAgent();
});

beforeEach(() => {
  folder = temporaryFolder();
});

afterAll(async () => {
  await filtered?.agent.stop();
  removeFolders();
});

/** Each command writes to its own file: a shell, a program, a service, a renamed shell, a labelled one, one of many writes. */
const WORKLOAD = `
  cd "$folder"
  echo x > shell
  /bin/echo x > program
  OTEL_SERVICE_NAME=shop /bin/echo x > shop
  (exec -a renamed bash -c 'echo x > renamed')
  bash -c 'echo "KREPLAY1 txn=a" > /dev/null; echo x > labelled; /bin/echo x > labelled-child'
  head -c 300000 /dev/zero > large`;

const runWorkload = () => void bash(WORKLOAD, { env: { ...process.env, folder } });

/** Names of the files in the folder whose writes were recorded. */
function writtenIn(recorded: Recorded): string[] {
  const files = recorded.writes().map(({ file }) => file);
  return files.filter((file) => file?.startsWith(`${folder}/`)).map((file) => basename(file!));
}

const namesIn = (recorded: Recorded) => [...new Set(writtenIn(recorded))].sort();

const ALL = ['labelled', 'labelled-child', 'large', 'program', 'renamed', 'shell', 'shop'];
const but = (...names: string[]) => ALL.filter((name) => !names.includes(name));

test.each<[object, string[]]>([
  [{}, ALL],
  [{ only_labelled: true }, ['labelled', 'labelled-child']],
  [{ comms: ['echo'] }, ['labelled-child', 'program', 'shop']],
  [{ except_comms: ['echo'] }, but('labelled-child', 'program', 'shop')],
  [{ services: ['shop'] }, ['shop']],
  [{ except_services: ['shop', 'head'] }, but('shop', 'large')],
  [{ event_types: ['block_io'] }, []],
  [{ except_pids: [process.pid] }, ALL],
  [{ pids: [process.pid] }, []],
  [{ cgroups: ['/nowhere'] }, []],
  [{ cgroups: ['/'] }, ALL],
  [{ except_cgroups: ['/'] }, []],
])('%j records %j', async (filter, names) => {
  expect(namesIn(await filtered.record(filter, runWorkload))).toEqual(names);
});

/** Containers that are gone before anybody could look for the cgroup of what ran in them. */
const CONTAINERS = 20;
const containerOf = (i: number) => `${i}`.repeat(6);
const runContainers = (slice: string) =>
  bash(
    `
    mkdir ${slice}; trap 'rmdir ${slice}' EXIT
    for i in $(seq 10 $((9 + ${CONTAINERS}))); do
      cgroup=${slice}/$(for n in $(seq 32); do printf $i; done)
      mkdir $cgroup
      sh -c "echo \\$\\$ > $cgroup/cgroup.procs; exec dd if=/dev/zero of=$folder/$i bs=10 count=5 status=none"
      rmdir $cgroup
    done`,
    { env: { ...process.env, folder } },
  );

test.each([
  ['is recorded', (slice: string) => ({ cgroups: [slice] }), CONTAINERS],
  ['is left out', (slice: string) => ({ except_cgroups: [slice] }), 0],
  ['is named', () => ({}), CONTAINERS],
])('what ran in a container that is there for a moment %s', async (_, filterOf, count) => {
  const slice = `kreplay-ci-${process.pid}`;
  const recorded = await filtered.record(
    filterOf(`/${slice}`),
    () => void runContainers(join(findCgroups().root, slice)),
  );
  const services = Map.groupBy(
    recorded.writes({ comms: ['dd'] }).filter(({ file }) => file?.startsWith(`${folder}/`)),
    ({ service_name }) => service_name!,
  );
  const expected = Array.from({ length: count }, (_, i) => [containerOf(10 + i), 5]);
  expect([...services].map(([service, { length }]) => [service, length])).toEqual(expected);
});

test('--comm echo --only-labelled records the writes that pass both', async () => {
  const recorded = await record(runWorkload, ['--comm', 'echo', '--only-labelled']);
  expect(namesIn(recorded)).toEqual(['labelled-child']);
});

/** Starts a process; `write` makes it write the file `own` and end. */
function startOwn() {
  const own = spawn('bash', ['-c', 'read; echo x > "$folder/own"'], {
    env: { ...process.env, folder },
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  return {
    pid: own.pid!,
    async write() {
      own.stdin.end('go\n');
      await once(own, 'exit');
    },
  };
}

/** Starts processes until one has the PID, and returns a function that makes that process write the file `other`. */
async function startOther(pid: number) {
  const other = spawn(
    'bash',
    [
      '-c',
      `for attempt in $(seq 200); do
         echo $((number - 1)) > /proc/sys/kernel/ns_last_pid
         bash -c '[ $$ = $number ] || exit; echo; read; echo x > "$folder/other"; kill $PPID'
       done`,
    ],
    { env: { ...process.env, folder, number: String(pid) }, stdio: ['pipe', 'pipe', 'inherit'] },
  );
  const exited = once(other, 'exit');
  await once(other.stdout, 'data');
  return async () => {
    other.stdin.end('go\n');
    await exited;
  };
}

test.each([
  ['--pid', ['own']],
  ['--except-pid', ['other']],
])('%s applies to the process that has the PID when the agent starts', async (flag, names) => {
  const own = startOwn();
  const recorded = await record(async () => {
    await own.write();
    await (await startOther(own.pid))();
  }, [flag, String(own.pid)]);
  expect(writtenIn(recorded)).toEqual(names);
});

test.each([
  ['pids', ['own']],
  ['except_pids', ['other']],
])('%s that are read again do not apply to the next process with the PID', async (list, names) => {
  const own = startOwn();
  const filter = { [list]: [own.pid] };
  const recorded = await filtered.record(filter, async () => {
    await own.write();
    const writeOther = await startOther(own.pid);
    await filtered.reload({ ...filter, except_comms: ['none'] });
    await writeOther();
  });
  expect(writtenIn(recorded)).toEqual(names);
});

test('short events are left out', async () => {
  const recorded = await filtered.record({ min_duration: '1s' }, () => {
    bash('for i in $(seq 1000); do echo x; done > "$folder/short"', { env: { ...process.env, folder } });
  });
  expect(recorded.events()).toEqual([]);
});

test('calls that failed are recorded however short they were', async () => {
  const recorded = await filtered.record({ min_duration: '1s' }, () => {
    bash(
      `python3 -c '
import os
full, (reader, writer), file = os.open("/dev/full", os.O_WRONLY), os.pipe(), os.open(os.environ["folder"] + "/short", os.O_WRONLY | os.O_CREAT)
for call in [lambda: os.write(full, b"x"), lambda: os.pwrite(full, b"x", 0), lambda: os.writev(full, [b"x"]),
             lambda: os.fsync(reader), lambda: os.fdatasync(writer), lambda: os.write(file, b"x")] * 100:
    try: call()
    except OSError: pass
os.fsync(file)'`,
      { env: { ...process.env, folder } },
    );
  });
  const results = recorded.events({ comms: ['python3'] }).map((event) => `${event.event_type} ${event.result}`);
  const counts = Object.fromEntries(
    [...Map.groupBy(results, (text) => text)].map(([text, { length }]) => [text, length]),
  );
  expect(counts).toEqual({ 'sys_write -28': 300, 'sys_sync -22': 200 });
});

test('a filter file is read again on SIGHUP, and an invalid one changes nothing', async () => {
  const file = join(folder, 'filter.json');
  writeFileSync(file, '{"comms": ["none"]}');
  const dataFolder = join(folder, 'data');
  const agent = await startAgent(dataFolder, ['--filter-file', file]);
  const write = (name: string) => bash(`echo x > ${folder}/${name}`);
  write('before');
  writeFileSync(file, '{"except_comms": ["none"]}');
  expect(await saidOfFilter(agent)).toContain('the filter was read again');
  write('after');
  writeFileSync(file, '{"comm": []}');
  expect(await saidOfFilter(agent)).toMatch(/comm is \[\]: give one of the keys.*the filter stays as it is/);
  write('wrong');
  writeFileSync(file, '{"services": ["shop"]}');
  await saidOfFilter(agent);
  write('unserved');
  await sleep(300);
  write('unserved-again');
  bash(`OTEL_SERVICE_NAME=shop /bin/echo x > ${folder}/served`);
  await agent.stop();
  const written = writtenIn(readRecording(dataFolder));
  expect(written.filter((name) => name !== 'filter.json')).toEqual(['after', 'wrong', 'served']);
});

test('events that pass both the old and the new filter are recorded without a gap', async () => {
  const comms = ['numbered_writes'];
  const { dataFolder } = filtered.agent;
  await filtered.reload({ comms });
  const load = startNumberedWrites(folder, 100);
  for (let time = 0; time < times(6); time++) {
    for (const filter of [{ comms }, { comms: [...comms, 'none'] }, { except_comms: ['none'] }, {}])
      await filtered.reload(filter);
  }
  const began = await load.stop();
  await committed(dataFolder, BigInt(Date.now() + 1) * 1_000_000n);
  const { numbers, losses } = recordedNumbers(load, dataFolder);
  expect(numbers.length).toBeGreaterThan(1000);
  expect(missingNumbers(began, numbers).filter((number) => !isTold(losses, began, number))).toEqual([]);
});

test('a reloaded filter also applies to the recording that replaces a removed one', async () => {
  const { agent, reload } = filtered;
  expect(await reload({ except_comms: ['echo'] })).toContain('the filter was read again');
  const begunAnew = once(agent.process, 'message');
  for (const name of readdirSync(agent.dataFolder).filter((one) => one.startsWith('recording.kreplay')))
    rmSync(join(agent.dataFolder, name));
  await begunAnew;
  bash(`/bin/echo x > ${folder}/unwanted; echo x > ${folder}/wanted`);
  await committed(agent.dataFolder, BigInt(Date.now() + 1) * 1_000_000n);
  expect(writtenIn(readRecording(agent.dataFolder))).toEqual(['wanted']);
});
