/** What a program was started with, as the kernel read it: services and traces of processes that live for a moment. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { type Recorded, record, removeFolders, temporaryFolder } from './recorded_run.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const TRACEPARENT = `00-${TRACE}-${SPAN}-01`;
const SECRET = 'tr0ub4dor-and-3';

afterAll(removeFolders);

/** Runs each script by its name; `$out` is the file that tells its writes. */
async function recordScripts(
  scripts: Readonly<Record<string, { env?: Readonly<Record<string, string>>; script: string }>>,
): Promise<{ recorded: Recorded; of(name: string): SysWriteEvent }> {
  const folder = temporaryFolder();
  const recorded = await record(() => {
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

test('a service is what the environment of its program says', async () => {
  const long = `a=${'x'.repeat(900)},service.name=long`;
  const { of } = await recordScripts({
    otel: { env: { OTEL_SERVICE_NAME: 'orders' }, script: '/bin/echo x > $out' },
    attributes: { env: { OTEL_RESOURCE_ATTRIBUTES: 'a=b,service.name=pay%20er' }, script: '/bin/echo x > $out' },
    long: { env: { OTEL_RESOURCE_ATTRIBUTES: long }, script: '/bin/echo x > $out' },
    ci: { env: { CI_JOB_NAME: 'unit tests' }, script: '/bin/echo x > $out' },
    none: { script: '/bin/echo x > $out' },
    // The writer is gone long before anybody could look into /proc.
    builtin: { env: { OTEL_SERVICE_NAME: 'orders' }, script: '(echo x > $out)' },
    similar: { env: { OTEL_SERVICE_NAMES: 'no', xOTEL_SERVICE_NAME: 'no' }, script: '/bin/echo x > $out' },
  });
  const services = ['otel', 'attributes', 'long', 'ci', 'none', 'builtin', 'similar'].map(
    (name) => of(name).service_name,
  );
  expect(services).toEqual(['orders', 'pay er', 'long', 'unit tests', 'echo', 'orders', 'echo']);
});

test('behind hundreds of variables and long ones they are still found, or asked of /proc', async () => {
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`V${i}`, 'x']));
  const lived = 'sleep 0.6; echo x > $out; sleep 0.6';
  const { of } = await recordScripts({
    many: { env: { ...many(240), OTEL_SERVICE_NAME: 'last' }, script: '/bin/echo x > $out' },
    long: { env: { A: 'x'.repeat(5000), OTEL_SERVICE_NAME: 'behind' }, script: '/bin/echo x > $out' },
    // Its third kilobyte looks like a variable of its own.
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

test('no other variable leaves the kernel', async () => {
  const { recorded, of } = await recordScripts({
    secret: {
      env: { SECRET_TOKEN: SECRET, BUILDKITE_AGENT_ACCESS_TOKEN: SECRET, BUILDKITE_LABEL: 'deploy' },
      script: '/bin/echo x > $out',
    },
  });
  expect(of('secret').service_name).toBe('deploy');
  expect(readFileSync(join(recorded.dataFolder, 'recording.kreplay')).includes(SECRET)).toBe(false);
});

test('a trace comes with the environment, until a marker or another program says otherwise', async () => {
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
