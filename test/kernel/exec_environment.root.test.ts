/** Services and traces from a program's environment, as the kernel reads it: for processes that live for a moment. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import {
  newRecorder,
  type Recorded,
  readRecording,
  removeFolders,
  startAgent,
  temporaryFolder,
} from './recorded_run.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const TRACEPARENT = `00-${TRACE}-${SPAN}-01`;
const SECRET = 'tr0ub4dor-and-3';

/** The agent of the tests that look only at events. */
const shared = newRecorder();

afterAll(async () => {
  await shared.stop();
  removeFolders();
});

/** Runs each script by its name; `$out` is the file that identifies its writes. */
async function recordScripts(
  scripts: Readonly<Record<string, { env?: Readonly<Record<string, string>>; script: string }>>,
): Promise<{ recorded: Recorded; of(name: string): SysWriteEvent }> {
  const folder = temporaryFolder();
  const recorded = await shared.record(() => {
    for (const [name, { env, script }] of Object.entries(scripts)) {
      const out = join(folder, name);
      const { status } = spawnSync('/bin/sh', ['-c', script], { env: { PATH: process.env.PATH, out, ...env } });
      if (status !== 0) throw new Error(`${script}: ${status}`);
    }
  });
  const writes = recorded.writes();
  return {
    recorded,
    of(name) {
      const [write, ...more] = writes.filter(({ file }) => file === join(folder, name));
      expect(more).toEqual([]);
      return write!;
    },
  };
}

const owner = ({ transaction_id, trace_id, attribution: { source, quality } }: SysWriteEvent) =>
  [transaction_id, trace_id === TRACE ? 'trace' : trace_id, source, quality].join(' ');

test('a service is named by the environment of its program', async () => {
  const long = `a=${'x'.repeat(900)},service.name=long`;
  const { of } = await recordScripts({
    otel: { env: { OTEL_SERVICE_NAME: 'orders' }, script: '/bin/echo x > $out' },
    attributes: { env: { OTEL_RESOURCE_ATTRIBUTES: 'a=b,service.name=pay%20er' }, script: '/bin/echo x > $out' },
    long: { env: { OTEL_RESOURCE_ATTRIBUTES: long }, script: '/bin/echo x > $out' },
    ci: { env: { CI_JOB_NAME: 'unit tests' }, script: '/bin/echo x > $out' },
    none: { script: '/bin/echo x > $out' },
    // The writer exits long before the agent could look into /proc.
    builtin: { env: { OTEL_SERVICE_NAME: 'orders' }, script: '(echo x > $out)' },
    similar: { env: { OTEL_SERVICE_NAMES: 'no', xOTEL_SERVICE_NAME: 'no' }, script: '/bin/echo x > $out' },
  });
  const services = ['otel', 'attributes', 'long', 'ci', 'none', 'builtin', 'similar'].map(
    (name) => of(name).service_name,
  );
  expect(services).toEqual(['orders', 'pay er', 'long', 'unit tests', 'echo', 'orders', 'echo']);
});

test('variables after hundreds of others or long ones are found, or read from /proc', async () => {
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`V${i}`, 'x']));
  const lived = 'sleep 0.6; echo x > $out; sleep 0.6';
  const { of } = await recordScripts({
    many: { env: { ...many(240), OTEL_SERVICE_NAME: 'last' }, script: '/bin/echo x > $out' },
    long: { env: { A: 'x'.repeat(5000), OTEL_SERVICE_NAME: 'behind' }, script: '/bin/echo x > $out' },
    // The kernel side reads 1023 bytes at a time: the second piece looks like a variable of its own.
    forged: { env: { A: `${'x'.repeat(1021)}OTEL_SERVICE_NAME=forged` }, script: '/bin/echo x > $out' },
    tooMany: { env: { ...many(300), OTEL_SERVICE_NAME: 'beyond' }, script: lived },
  });
  expect(['many', 'long', 'forged', 'tooMany'].map((name) => of(name).service_name)).toEqual([
    'last',
    'behind',
    'echo',
    'beyond',
  ]);
});

test('a trace from the environment holds until a marker or another program replaces it', async () => {
  const env = { TRACEPARENT };
  const { of } = await recordScripts({
    shell: { env, script: 'echo x > $out' },
    child: { env, script: '/bin/echo x > $out' },
    fork: { env, script: '(echo x > $out)' },
    without: { env, script: 'env -u TRACEPARENT /bin/echo x > $out' },
    marked: { env, script: 'echo "KREPLAY1 txn=a" > /dev/null; echo x > $out' },
    markedChild: { env, script: 'echo "KREPLAY1 txn=a" > /dev/null; env -u TRACEPARENT /bin/echo x > $out' },
    ended: { env, script: 'echo "KREPLAY1 txn=a" > /dev/null; echo "KREPLAY1 end" > /dev/null; echo x > $out' },
    process: { env, script: 'echo "KREPLAY1 proc txn=p" > /dev/null; /bin/echo x > $out' },
    malformed: { env: { TRACEPARENT: TRACEPARENT.toUpperCase() }, script: 'echo x > $out' },
    late: { script: `TRACEPARENT=${TRACEPARENT} /bin/echo x > $out` },
  });
  expect(owner(of('shell'))).toBe(' trace env exact');
  expect(of('shell').span_id).toBe(SPAN);
  expect(owner(of('child'))).toBe(' trace env exact');
  expect(owner(of('fork'))).toBe(' trace env inherited');
  expect(owner(of('without'))).toBe('  none none');
  expect(owner(of('marked'))).toBe('a trace marker exact');
  expect(owner(of('markedChild'))).toBe('a trace inherited inherited');
  expect(owner(of('ended'))).toBe(' trace env exact');
  expect(owner(of('process'))).toBe('p trace inherited inherited');
  expect(owner(of('malformed'))).toBe('  none none');
  expect(owner(of('late'))).toBe(' trace env exact');
});

test('no other variable leaves the kernel', async () => {
  const secret = {
    env: { SECRET_TOKEN: SECRET, BUILDKITE_AGENT_ACCESS_TOKEN: SECRET, BUILDKITE_LABEL: 'deploy' },
    script: '/bin/echo x > $out',
  };
  const { recorded, of } = await recordScripts({ secret });
  // The file holds everything only after the agent's end.
  await shared.stop();
  expect(of('secret').service_name).toBe('deploy');
  expect(readFileSync(join(recorded.dataFolder, 'recording.kreplay')).includes(SECRET)).toBe(false);
});

test('a trace that had no room when its program started is recorded once there is room', async () => {
  // A second agent would take CPU time that this one needs to catch up.
  await shared.stop();
  const dataFolder = temporaryFolder();
  const agent = await startAgent(dataFolder);
  const out = join(temporaryFolder(), 'out');
  const count = () => (existsSync(out) ? statSync(out).size : 0);
  agent.process.kill('SIGSTOP');
  // A single user can fill some 7 MiB a second; the agent has 4 MiB to read when it is awake again.
  const line = 'x'.repeat(900);
  const flood = `
import os, time
null, end = os.open('/dev/null', os.O_WRONLY), time.time() + 2
while time.time() < end: os.write(null, b'KREPLAY1 txn=flood-%d span=${line}' % time.time_ns())`;
  spawnSync('python3', ['-c', flood]);
  const writer = spawn('/bin/sh', ['-c', 'while sleep 0.05; do printf x >> $out; done'], {
    env: { PATH: process.env.PATH, out, TRACEPARENT },
  });
  await until(() => count() > 3);
  agent.process.kill('SIGCONT');
  const isTraced = () =>
    readRecording(dataFolder)
      .writes({ pid: writer.pid! })
      .some((one) => owner(one) !== '  none none');
  await until(isTraced);
  const before = count();
  await until(() => count() >= before + 5);
  writer.kill();
  await agent.stop();
  const writes = readRecording(dataFolder).writes({ pid: writer.pid! });
  const owners = writes.map(owner);
  expect([...new Set(owners)].filter((one) => ![' trace env exact', '  none none'].includes(one))).toEqual([]);
  expect(owners[0]).toBe('  none none');
  expect(owners.slice(-5)).toEqual(Array(5).fill(' trace env exact'));
});

async function until(holds: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!holds() && performance.now() < deadline) await sleep(20);
  expect(holds()).toBe(true);
}
