/** The purpose of each capability: without it the agent refuses to start or reports what is missing; the rest works. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { loopDevice } from '../kernel/loop_device.ts';
import { compileProgram } from '../kernel/programs.ts';
import type { Recorded } from '../kernel/recorded_run.ts';
import { AS_NOBODY, asNobodyWith } from '../unprivileged.ts';
import { endAll, freePort, KREPLAY, start, temporaryFolder } from './kreplay.ts';
import { folderOfNobody, type LimitedAgent, startLimitedAgent } from './least_privilege.ts';

const CAPTURE = ['bpf', 'perfmon'];
const PTRACE = [...CAPTURE, 'sys_ptrace'];
const READ = [...PTRACE, 'dac_read_search'];
const RESTORE = [...READ, 'checkpoint_restore'];

const programs: ChildProcess[] = [];
const folder = temporaryFolder();
const agents = new Map<string[], LimitedAgent>();
const recorded = new Map<string[], Recorded>();

/** Runs a command as root. */
function program(command: readonly string[], env: NodeJS.ProcessEnv = process.env): ChildProcess {
  const [file, ...args] = command;
  const child = spawn(file!, args, { stdio: ['pipe', 'pipe', 'inherit'], env });
  programs.push(child);
  return child;
}

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

async function serve(): Promise<[server: ChildProcess, port: number]> {
  const server = program(['python3', '-u', '-c', SERVER]);
  const [port] = (await once(server.stdout as Readable, 'data')) as [Buffer];
  return [server, Number(port.toString())];
}

async function ask(port: number): Promise<void> {
  const headers = { traceparent: `00-${TRACE}-b7ad6b7169203331-01`, connection: 'close' };
  await fetch(`http://127.0.0.1:${port}/`, { headers });
}

/** The agent inspects a process one second after it first saw it, once its loop gets to it. */
const LOOKED_AT_MS = 4000;

/** More variables than the kernel side reads: the agent reads the rest from /proc. */
const MANY = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`A${i}`, 'x']));

const lines = join(folder.path, 'lines');
const copied = join(folder.path, 'copied');
const copy = ['dd', 'if=/dev/zero', `of=${copied}`, 'bs=512', 'count=3', 'conv=fsync', 'status=none'];

/** Each program runs once, and all agents record it. */
let early: ChildProcess;
let many: ChildProcess;
let earlyServer: ChildProcess;
let lateServer: ChildProcess;
/** Answers of a daemon without privileges to a query of order-7. */
let served: unknown[];

beforeAll(async () => {
  early = program(['sh', '-c', 'while read -r line; do echo "$line" > /dev/null; done'], {
    ...process.env,
    OTEL_SERVICE_NAME: 'early-shop',
  });
  const publish = compileProgram('otel_writes', ['-rdynamic']);
  let [earlyPort, latePort] = [0, 0];
  [earlyServer, earlyPort] = await serve();
  for (const capabilities of [CAPTURE, PTRACE, READ, RESTORE])
    agents.set(capabilities, await startLimitedAgent(capabilities, ['--http-services', '*']));
  early.stdin!.end('go\n');
  await once(early, 'exit');
  many = program(['sh', '-c', 'echo > /dev/null; read -r line'], {
    ...MANY,
    PATH: process.env.PATH,
    OTEL_SERVICE_NAME: 'late-shop',
  });
  mkdirSync(lines);
  const publisher = program([publish, lines]);
  [lateServer, latePort] = await serve();
  const inspected = sleep(LOOKED_AT_MS);
  served = await runOrders(agents.get(CAPTURE)!);
  await inspected;
  publisher.stdin!.write('go\n');
  await once(publisher, 'exit');
  // The first requests arrive before the servers have written anything.
  await Promise.all([ask(earlyPort), ask(latePort)]);
  await sleep(LOOKED_AT_MS / 2);
  await Promise.all([ask(earlyPort), ask(latePort)]);
  for (const [capabilities, agent] of agents) recorded.set(capabilities, await agent.finish());
}, 120_000);

afterAll(() => {
  for (const program of programs) program.kill('SIGKILL');
  endAll();
  for (const agent of agents.values()) agent.folder.remove();
  folder.remove();
});

/** Returns the events of order-7 that a daemon of nobody reports, when they are recorded. */
async function runOrders({ folder: { path } }: LimitedAgent): Promise<unknown[]> {
  const disk = loopDevice();
  const dd = ['dd', 'if=/dev/zero', `of=${disk.path}`, 'bs=4k', 'count=31', 'oflag=direct', 'status=none'];
  execFileSync(KREPLAY, ['exec', '--transaction', 'order-7', '--service', 'shop', '--', ...dd]);
  execFileSync(KREPLAY, ['exec', '--transaction', 'order-8', '--', ...copy]);
  rmSync(copied);
  disk.remove();
  const port = await freePort();
  const daemon = start(['daemon', '--data', path, '--listen', `127.0.0.1:${port}`], AS_NOBODY);
  await daemon.says('serving');
  const query = `transaction_id=order-7&event_type=sys_write&limit=100`;
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/api/events?${query}`);
    const { events } = (await answer.json()) as { events: unknown[] };
    if (events.length >= 31) return events;
    await sleep(50);
  }
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
  expect([status, stdout]).toEqual([77, '']);
  expect(stderr).toMatch(/^kreplay: the kernel refused to load the BPF programs.* \(EPERM\): .*\n$/);
  expect(stderr).toContain(`${missing}: run as root, or with CAP_BPF and CAP_PERFMON`);
});

test('CAP_BPF and CAP_PERFMON record all data of other users; the daemon and the runner need no privileges', () => {
  const ofOrders = recorded.get(CAPTURE)!;
  const writes = ofOrders
    .writes({ transactionId: 'order-7' })
    .filter(({ bytes_requested }) => bytes_requested === 4096n);
  expect(writes).toHaveLength(31);
  expect(new Set(writes.map(({ service_name }) => service_name))).toEqual(new Set(['shop']));
  expect(ofOrders.blockIos({ transactionId: 'order-7' }).length).toBeGreaterThanOrEqual(31);
  expect(served.length).toBeGreaterThanOrEqual(31);

  const incident = ['--bundle', join(ofOrders.dataFolder, 'recording.kreplay'), '--transaction', 'order-8'];
  chmodSync(folder.path, 0o777);
  // Longer by far than calls are late on a busy machine, which a verdict would say.
  const [file, ...args] = [...AS_NOBODY, KREPLAY, 'run', ...incident, '--extra-latency', '200ms', '--', ...copy];
  const startMs = performance.now();
  const { status, stderr } = spawnSync(file, args, { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, expect.stringMatching(/^kreplay run: replayed/)]);
  expect(performance.now() - startMs).toBeGreaterThan(4 * 200);
});

test('a program that ran before the agent is named nevertheless', () => {
  const written = recorded
    .get(CAPTURE)!
    .writes()
    .filter(({ pid }) => pid === early.pid);
  expect(written.map(({ service_name }) => service_name)).toEqual(['early-shop']);
});

test.each<[string[], string]>([
  [CAPTURE, 'dash'],
  [PTRACE, 'dash'],
  [READ, 'late-shop'],
])('with %j a service beyond 256 variables is named %s', (capabilities, service) => {
  // Before its exec, the forked copy of the test's own process may write under the same pid.
  const written = recorded
    .get(capabilities)!
    .writes()
    .filter(({ pid, file }) => pid === many.pid && file === '/dev/null');
  expect(written.map(({ service_name }) => service_name)).toEqual([service]);
  const output = agents.get(capabilities)!.output();
  expect(output.includes("environment (not other users' environments")).toBe(service === 'dash');
});

test.each<[string[], string, boolean]>([
  [CAPTURE, 'otel_writes', false],
  [PTRACE, 'otel_writes', false],
  [READ, 'otel-shop', false],
  [RESTORE, 'otel-shop', true],
])('with %j the service of OpenTelemetry is %s, and the traces of threads are known: %j', (...given) => {
  const [capabilities, service, traced] = given;
  const written = recorded
    .get(capabilities)!
    .writes()
    .filter(({ file }) => file?.startsWith(`${lines}/`));
  const labelled = written.filter(({ file }) => !file!.endsWith('none') && !file!.endsWith('started'));
  expect(labelled.length).toBeGreaterThan(100);
  expect(new Set(labelled.map(({ service_name }) => service_name))).toEqual(new Set([service]));
  expect(new Set(labelled.map(({ trace_id }) => trace_id !== null))).toEqual(new Set([traced]));
  const output = agents.get(capabilities)!.output();
  expect(output.includes("not threads' contexts: CAP_CHECKPOINT_RESTORE missing")).toBe(!traced);
  expect(output.includes("otel (not other users' processes")).toBe(service === 'otel_writes');
});

const BOTH = [TRACE, TRACE];

test.each<[string[], 'before' | 'after', (string | null)[]]>([
  [CAPTURE, 'after', [null, null]],
  [PTRACE, 'after', BOTH],
  [PTRACE, 'before', [null, TRACE]],
  [READ, 'before', BOTH],
])('with %j, two requests of a server that started %s the agent have the traces %j', (...given) => {
  const [capabilities, when, traces] = given;
  const server = when === 'before' ? earlyServer : lateServer;
  const answers = recorded
    .get(capabilities)!
    .writes()
    .filter(({ pid, bytes_requested }) => pid === server.pid && bytes_requested === 6n);
  expect(answers.map(({ trace_id }) => trace_id)).toEqual(traces);
  const output = agents.get(capabilities)!.output();
  expect(output.includes("http (not other users' processes: CAP_SYS_PTRACE missing")).toBe(traces[1] === null);
});
