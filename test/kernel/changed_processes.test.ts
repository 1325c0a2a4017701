/** Processes that become another service while they run: their events are named, and filtered, as what they are then. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findCgroups } from '../../agent/attribution/cgroups.ts';
import { bash, compileProgram } from './programs.ts';
import { newRecorder, type Recorded, record, removeFolders, temporaryFolder } from './recorded_run.ts';

const cgroup = join(findCgroups().root, `kreplay-moved-${process.pid}.service`);
/** The agent has seen an event, and has told the kernel side to drop the process if it is not wanted. */
const SEEN_S = 1;

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
    await sleep(2500);
    child.stdin.write('go\n');
    await once(child, 'exit');
  }, ['--service', 'otel-shop']);
  const services = servicesByFile(recorded, folder);
  expect(services.length).toBe(8 * 50 * 4);
  expect(new Set(services.map(([, service]) => service))).toEqual(new Set(['otel-shop']));
});
