/** The purpose of each capability: without it the agent refuses to start or reports what is missing; the rest works. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { loopDevice } from '../kernel/loop_device.ts';
import { compileProgram } from '../kernel/programs.ts';
import { AS_NOBODY, asNobodyWith } from '../unprivileged.ts';
import { endAll, freePort, KREPLAY, start, temporaryFolder } from './kreplay.ts';
import { folderOfNobody, type LimitedAgent, startLimitedAgent } from './least_privilege.ts';

const CAPTURE = ['bpf', 'perfmon'];

const programs: ChildProcess[] = [];
const folder = temporaryFolder();
let agent: LimitedAgent | undefined;

afterEach(() => {
  for (const program of programs.splice(0)) program.kill('SIGKILL');
  endAll();
  agent?.folder.remove();
  agent = undefined;
});
afterAll(folder.remove);

/** Runs a command as root. */
function program(command: readonly string[], env: NodeJS.ProcessEnv = process.env): ChildProcess {
  const [file, ...args] = command;
  const child = spawn(file!, args, { stdio: ['pipe', 'pipe', 'inherit'], env });
  programs.push(child);
  return child;
}

test.each<[string[], string]>([
  [[], 'CAP_BPF and CAP_PERFMON missing'],
  [['bpf'], 'CAP_PERFMON missing'],
  [['perfmon'], 'CAP_BPF missing'],
  [['sys_ptrace', 'dac_read_search', 'net_admin'], 'CAP_BPF and CAP_PERFMON missing'],
])('with capabilities %j the agent does not start', (capabilities, missing) => {
  const owned = folderOfNobody();
  const [file, ...args] = [...asNobodyWith(...capabilities), KREPLAY, 'agent', '--data', owned.path];
  const { status, stdout, stderr } = spawnSync(file, args, { encoding: 'utf8', timeout: 30_000 });
  owned.remove();
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^kreplay: the kernel refused to load the BPF programs.* \(EPERM\): .*\n$/);
  expect(stderr).toContain(`${missing}: run as root, or with CAP_BPF and CAP_PERFMON`);
});

test('CAP_BPF and CAP_PERFMON record all data of other users; the daemon and the runner need no privileges', async () => {
  agent = await startLimitedAgent(CAPTURE);
  const disk = loopDevice();
  const dd = ['dd', 'if=/dev/zero', `of=${disk.path}`, 'bs=4k', 'count=31', 'oflag=direct', 'status=none'];
  execFileSync(KREPLAY, ['exec', '--transaction', 'order-7', '--service', 'shop', '--', ...dd]);
  const copy = (to: string) => ['dd', 'if=/dev/zero', `of=${to}`, 'bs=512', 'count=3', 'conv=fsync', 'status=none'];
  execFileSync(KREPLAY, ['exec', '--transaction', 'order-8', '--', ...copy(join(agent.folder.path, 'copy'))]);
  rmSync(join(agent.folder.path, 'copy'));
  disk.remove();
  const port = await freePort();
  const daemon = start(['daemon', '--data', agent.folder.path, '--listen', `127.0.0.1:${port}`], AS_NOBODY);
  await daemon.says('serving');
  const recorded = await agent.finish();
  const writes = recorded
    .writes({ transactionId: 'order-7' })
    .filter(({ bytes_requested }) => bytes_requested === 4096n);
  expect(writes).toHaveLength(31);
  expect(new Set(writes.map(({ service_name }) => service_name))).toEqual(new Set(['shop']));
  expect(recorded.blockIos({ transactionId: 'order-7' }).length).toBeGreaterThanOrEqual(31);

  const answer = await fetch(
    `http://127.0.0.1:${port}/api/events?transaction_id=order-7&event_type=sys_write&limit=100`,
  );
  expect(((await answer.json()) as { events: unknown[] }).events.length).toBeGreaterThanOrEqual(31);

  const incident = ['--bundle', join(agent.folder.path, 'recording.kreplay'), '--transaction', 'order-8'];
  const again = copy(join(agent.folder.path, 'copy'));
  const [file, ...args] = [...AS_NOBODY, KREPLAY, 'run', ...incident, '--extra-latency', '20ms', '--', ...again];
  const startMs = performance.now();
  const { status, stderr } = spawnSync(file, args, { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, expect.stringMatching(/^kreplay run: replayed/)]);
  expect(performance.now() - startMs).toBeGreaterThan(4 * 20);
});

test('a program that ran before the agent is named nevertheless', async () => {
  const shell = program(['sh', '-c', 'while read -r line; do echo "$line" > /dev/null; done'], {
    ...process.env,
    OTEL_SERVICE_NAME: 'early-shop',
  });
  agent = await startLimitedAgent(CAPTURE);
  shell.stdin!.end('go\n');
  await once(shell, 'exit');
  const written = (await agent.finish()).writes().filter(({ pid }) => pid === shell.pid);
  expect(written.map(({ service_name }) => service_name)).toEqual(['early-shop']);
});

/** More variables than the kernel side reads: the agent reads the rest from /proc. */
const MANY = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`A${i}`, 'x']));

test.each<[string[], string]>([
  [CAPTURE, 'dash'],
  [[...CAPTURE, 'sys_ptrace'], 'dash'],
  [[...CAPTURE, 'sys_ptrace', 'dac_read_search'], 'late-shop'],
])('with %j a service beyond 256 variables is named %s', async (capabilities, service) => {
  agent = await startLimitedAgent(capabilities);
  const shell = program(['sh', '-c', 'echo > /dev/null; read -r line'], {
    ...MANY,
    PATH: process.env.PATH,
    OTEL_SERVICE_NAME: 'late-shop',
  });
  await sleep(1000);
  // Before its exec, the forked copy of the test's own process may write under the same pid.
  const written = (await agent.finish()).writes().filter(({ pid, file }) => pid === shell.pid && file === '/dev/null');
  expect(written.map(({ service_name }) => service_name)).toEqual([service]);
  expect(agent.output().includes("environment (not other users' environments")).toBe(service === 'dash');
});

/** The agent inspects a process one second after it first saw it, once its loop gets to it. */
const LOOKED_AT_MS = 4000;

test.each<[string[], string, boolean]>([
  [CAPTURE, 'otel_writes', false],
  [[...CAPTURE, 'sys_ptrace'], 'otel_writes', false],
  [[...CAPTURE, 'sys_ptrace', 'dac_read_search'], 'otel-shop', false],
  [[...CAPTURE, 'sys_ptrace', 'dac_read_search', 'checkpoint_restore'], 'otel-shop', true],
])(
  'with %j the service of OpenTelemetry is %s, and the traces of threads are known: %j',
  async (capabilities, service, traced) => {
    agent = await startLimitedAgent(capabilities);
    const target = temporaryFolder();
    const publisher = program([compileProgram('otel_writes', ['-rdynamic']), target.path]);
    await sleep(LOOKED_AT_MS);
    publisher.stdin!.write('go\n');
    await once(publisher, 'exit');
    const lines = (await agent.finish()).writes().filter(({ file }) => file?.startsWith(`${target.path}/`));
    target.remove();
    const labelled = lines.filter(({ file }) => !file!.endsWith('none') && !file!.endsWith('started'));
    expect(labelled.length).toBeGreaterThan(100);
    expect(new Set(labelled.map(({ service_name }) => service_name))).toEqual(new Set([service]));
    expect(new Set(labelled.map(({ trace_id }) => trace_id !== null))).toEqual(new Set([traced]));
    expect(agent.output().includes("not threads' contexts: CAP_CHECKPOINT_RESTORE missing")).toBe(!traced);
    expect(agent.output().includes("otel (not other users' processes")).toBe(service === 'otel_writes');
  },
);

const SERVER = `
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        os.write(null, b"served")
        self.send_response(204)
        self.end_headers()
    def log_message(self, *args):
        pass
null = os.open("/dev/null", os.O_WRONLY)
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
`;
const TRACE = '0af7651916cd43dd8448eb211c80319c';

/** The first request arrives before the server has written anything. */
async function askTwice(server: ChildProcess, port: number): Promise<void> {
  for (let i = 0; i < 2; i++) {
    await sleep(1500); // Gives the agent time to inspect the server.
    const headers = { traceparent: `00-${TRACE}-b7ad6b7169203331-01`, connection: 'close' };
    await fetch(`http://127.0.0.1:${port}/`, { headers });
  }
  server.kill();
}

const BOTH = [TRACE, TRACE];

test.each<[string[], 'before' | 'after', (string | null)[]]>([
  [CAPTURE, 'after', [null, null]],
  [[...CAPTURE, 'sys_ptrace'], 'after', BOTH],
  [[...CAPTURE, 'sys_ptrace'], 'before', [null, TRACE]],
  [[...CAPTURE, 'sys_ptrace', 'dac_read_search'], 'before', BOTH],
])('with %j, two requests of a server that started %s the agent have the traces %j', async (...given) => {
  const [capabilities, when, traces] = given;
  const serve = async () => {
    const server = program(['python3', '-u', '-c', SERVER]);
    const [port] = (await once(server.stdout as Readable, 'data')) as [Buffer];
    return [server, Number(port.toString())] as const;
  };
  const early = when === 'before' ? await serve() : undefined;
  agent = await startLimitedAgent(capabilities, ['--http-services', '*']);
  const [server, port] = early ?? (await serve());
  await askTwice(server, port);
  const recorded = await agent.finish();
  const served = recorded.writes().filter(({ pid, bytes_requested }) => pid === server.pid && bytes_requested === 6n);
  expect(served.map(({ trace_id }) => trace_id)).toEqual(traces);
  expect(agent.output().includes("http (not other users' processes: CAP_SYS_PTRACE missing")).toBe(traces[1] === null);
});
