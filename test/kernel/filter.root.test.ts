/** Only what the filter asks for is recorded, markers count all the same, and it can change while the agent runs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isTold, missingNumbers, recordedNumbers, startNumberedWrites } from './numbered_writes.ts';
import { bash } from './programs.ts';
import { type Agent, readRecording, record, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

let folder: string;

beforeEach(() => {
  folder = temporaryFolder();
});

afterAll(removeFolders);

/** Each command writes to its own file: a shell, a program, a service, a renamed shell, a labelled one, a slow one. */
const WORKLOAD = `
  cd "$folder"
  echo x > shell
  /bin/echo x > program
  OTEL_SERVICE_NAME=shop /bin/echo x > shop
  (exec -a renamed bash -c 'echo x > renamed')
  bash -c 'echo "KREPLAY1 txn=a" > /dev/null; echo x > labelled; /bin/echo x > labelled-child'
  head -c 30000000 /dev/zero > large`;

/** Names of the files whose writes were recorded. */
async function recordedWith(...flags: string[]): Promise<string[]> {
  const folder = temporaryFolder();
  const recorded = await record(() => void bash(WORKLOAD, { env: { ...process.env, folder } }), flags);
  const files = recorded.writes().map(({ file }) => file!);
  const names = files.filter((file) => file?.startsWith(`${folder}/`)).map((file) => basename(file));
  return [...new Set(names)].sort();
}

const ALL = ['labelled', 'labelled-child', 'large', 'program', 'renamed', 'shell', 'shop'];
const but = (...names: string[]) => ALL.filter((name) => !names.includes(name));

// Each has an agent of its own; while some of them start, another one records.
test.concurrent.each<[string[], string[]]>([
  [[], ALL],
  [['--only-labelled'], ['labelled', 'labelled-child']],
  [
    ['--comm', 'echo'],
    ['labelled-child', 'program', 'shop'],
  ],
  [['--except-comm', 'echo'], but('labelled-child', 'program', 'shop')],
  [['--service', 'shop'], ['shop']],
  [['--except-service', 'shop', 'head'], but('shop', 'large')],
  [['--event-type', 'block_io'], []],
  [['--except-pid', String(process.pid)], ALL],
  [['--pid', String(process.pid)], []],
  [['--cgroup', '/nowhere'], []],
  [['--cgroup', '/'], ALL],
  [['--except-cgroup', '/'], []],
  [['--comm', 'echo', '--only-labelled'], ['labelled-child']],
])('%j records %j', async (flags, names) => {
  expect(await recordedWith(...flags)).toEqual(names);
});

/** A process writes `own` after the agent has started; then another one, with the same pid, writes `other`. */
async function recordedOfOneNumber(flag: string): Promise<string[]> {
  const options = {
    env: { ...process.env, folder },
    stdio: ['pipe', 'ignore', 'inherit'] as ['pipe', 'ignore', 'inherit'],
  };
  const first = spawn('bash', ['-c', 'read; echo x > "$folder/own"'], options);
  const recorded = await record(async () => {
    first.stdin!.end('go\n');
    await once(first, 'exit');
    bash(
      `for attempt in $(seq 200); do
           echo $((number - 1)) > /proc/sys/kernel/ns_last_pid
           bash -c '[ $$ = $number ] && echo x > "$folder/other"' && exit
         done; exit 1`,
      { env: { ...options.env, number: String(first.pid) } },
    );
  }, [flag, String(first.pid)]);
  const written = recorded.writes().filter(({ file }) => file?.startsWith(`${folder}/`));
  return written.map(({ file }) => basename(file!));
}

test.each([
  ['--pid', ['own']],
  ['--except-pid', ['other']],
])('%s applies to the process that has the PID when the agent starts', async (flag, names) => {
  expect(await recordedOfOneNumber(flag)).toEqual(names);
});

test('short events are left out', async () => {
  const recorded = await record(
    () => void bash('for i in $(seq 1000); do echo x; done > "$folder/short"', { env: { ...process.env, folder } }),
    ['--min-duration', '1s'],
  );
  expect(recorded.events()).toEqual([]);
});

/** Makes the agent read its filter file again, and returns what it logs. */
async function reload(agent: Agent): Promise<string> {
  const said = new Promise<string>((resolve) => {
    // Besides, the agent may report ends that the kernel hides.
    const listen = (text: unknown) => {
      if (!/filter|comm/.test(String(text))) return;
      agent.process.stderr!.off('data', listen);
      resolve(String(text));
    };
    agent.process.stderr!.on('data', listen);
  });
  agent.process.kill('SIGHUP');
  return said;
}

test('a filter file is read again on SIGHUP, and an invalid one changes nothing', async () => {
  const file = join(folder, 'filter.json');
  writeFileSync(file, '{"comms": ["none"]}');
  const dataFolder = join(folder, 'data');
  const agent = await startAgent(dataFolder, ['--filter-file', file]);
  const write = (name: string) => bash(`echo x > ${folder}/${name}`);
  write('before');
  writeFileSync(file, '{"except_comms": ["none"]}');
  expect(await reload(agent)).toContain('the filter was read again');
  write('after');
  writeFileSync(file, '{"comm": []}');
  expect(await reload(agent)).toMatch(/comm is \[\]: give one of the keys.*the filter stays as it is/);
  write('wrong');
  writeFileSync(file, '{"services": ["shop"]}');
  await reload(agent);
  write('unserved');
  await sleep(300);
  write('unserved-again');
  bash(`OTEL_SERVICE_NAME=shop /bin/echo x > ${folder}/served`);
  await agent.stop();
  const files = readRecording(dataFolder)
    .writes()
    .map(({ file }) => file!);
  const written = files.filter((path) => path?.startsWith(folder)).map((path) => basename(path));
  expect(written.filter((name) => name !== 'filter.json')).toEqual(['after', 'wrong', 'served']);
});

test('events that pass both the old and the new filter are recorded without a gap', async () => {
  const file = join(folder, 'filter.json');
  const comms = ['numbered_writes'];
  writeFileSync(file, JSON.stringify({ comms }));
  const dataFolder = join(folder, 'data');
  const agent = await startAgent(dataFolder, ['--filter-file', file]);
  const load = startNumberedWrites(folder, 300);
  for (let time = 0; time < 16; time++) {
    for (const filter of [{ comms }, { comms: [...comms, 'none'] }, { except_comms: ['none'] }, {}]) {
      writeFileSync(file, JSON.stringify(filter));
      await reload(agent);
    }
  }
  const began = await load.stop();
  await agent.stop();
  const { numbers, losses } = recordedNumbers(load, dataFolder);
  expect(numbers.length).toBeGreaterThan(1000);
  expect(missingNumbers(began, numbers).filter((number) => !isTold(losses, began, number))).toEqual([]);
});

test('a reloaded filter also applies to the recording that replaces a removed one', async () => {
  const file = join(folder, 'filter.json');
  writeFileSync(file, '{}');
  const dataFolder = join(folder, 'data');
  const agent = await startAgent(dataFolder, ['--filter-file', file]);
  writeFileSync(file, '{"except_comms": ["echo"]}');
  expect(await reload(agent)).toContain('the filter was read again');
  const begunAnew = new Promise<void>((resolve) => agent.process.once('message', () => resolve()));
  for (const name of readdirSync(dataFolder).filter((one) => one.startsWith('recording.kreplay')))
    rmSync(join(dataFolder, name));
  await begunAnew;
  bash(`/bin/echo x > ${folder}/unwanted; echo x > ${folder}/wanted`);
  await agent.stop();
  const files = readRecording(dataFolder).writes();
  const written = files.filter(({ file }) => file?.startsWith(`${folder}/`)).map(({ file }) => basename(file!));
  expect(written.filter((name) => name !== 'filter.json')).toEqual(['wanted']);
});
