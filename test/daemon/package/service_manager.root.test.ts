// Agent, daemon and watcher notify a service manager when they are ready and while they work, and do not when they hang.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { endAll, freePort, KREPLAY, start } from '../../e2e/kreplay.ts';
import { listenForNotifications, type Notifications } from './notifications.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-service-'));
const disk = join(folder, 'disk');
/** Whether the disk is frozen, so that nothing can be written to it. */
let isFrozen = false;
const opened: Notifications[] = [];
/** Processes that endAll() does not know. */
const unnamed: ChildProcess[] = [];

const WATCHDOG_MS = 1000;
const WATCHDOG = /^WATCHDOG=1$/;

afterAll(() => {
  endAll();
  for (const child of unnamed) child.kill('SIGKILL');
  for (const one of opened) one.close();
  if (isFrozen) execFileSync('fsfreeze', ['--unfreeze', disk]);
  execFileSync('sh', ['-c', 'umount "$1" 2>/dev/null || true', 'sh', disk]);
  rmSync(folder, { recursive: true, force: true });
});

async function managed(name: string, args: readonly string[]) {
  const manager = await listenForNotifications(join(folder, `${name}.sock`));
  opened.push(manager);
  const variables = [`NOTIFY_SOCKET=${manager.path}`, `WATCHDOG_USEC=${WATCHDOG_MS * 1000}`];
  return { manager, running: start(args, ['env', ...variables]) };
}

/** Expects that messages come at least twice as often as the timeout asks for: half of them may be late. */
async function expectMessages(manager: Notifications): Promise<void> {
  const times = (await manager.next(8, WATCHDOG)).map(({ atMs }) => atMs);
  const gaps = times.slice(1).map((atMs, i) => atMs - times[i]!);
  expect(gaps.sort((a, b) => a - b)[gaps.length >> 1]).toBeLessThan(WATCHDOG_MS / 2);
}

/** Resolves when no message has come for so long that a manager would have lost its patience twice. */
async function silence(manager: Notifications): Promise<void> {
  for (let heard = -1; heard < manager.messages.length; ) {
    heard = manager.messages.length;
    await sleep(2 * WATCHDOG_MS);
  }
}

test('the agent is ready when it records, and sends no watchdog message while its writer hangs', async () => {
  mkdirSync(disk);
  const image = join(folder, 'image');
  execFileSync('truncate', ['--size=200M', image]);
  execFileSync('mkfs.ext4', ['-q', image]);
  execFileSync('mount', ['-o', 'loop', image, disk]);
  // The agent has to do no more than to write something at any time.
  const comm = readFileSync('/proc/self/comm', 'utf8').trim();
  const load = setInterval(() => writeFileSync('/dev/null', 'x'), 50);
  const args = ['agent', '--data', join(disk, 'data'), '--event-type', 'sys_write', '--comm', comm];
  const { manager, running } = await managed('agent', args);
  try {
    expect(await manager.told(/^READY=1/)).toBe(`READY=1 STATUS=recording to ${disk}/data/recording.kreplay`);
    expect(running.output()).toContain('recording to');
    await expectMessages(manager);
    // The writer's thread waits in the kernel when it writes; the other thread continues.
    isFrozen = true;
    execFileSync('fsfreeze', ['--freeze', disk]);
    await silence(manager);
    execFileSync('fsfreeze', ['--unfreeze', disk]);
    isFrozen = false;
    await expectMessages(manager);
  } finally {
    clearInterval(load);
  }
  running.process.kill('SIGTERM');
  await manager.told(/^STOPPING=1$/);
  expect(await running.ended).toEqual({ status: 0, signal: null });
});

/** Expects that a service says that it works for as long as it does, and when it ends. */
async function expectWatched({ manager, running }: Awaited<ReturnType<typeof managed>>): Promise<void> {
  await expectMessages(manager);
  running.process.kill('SIGSTOP');
  await silence(manager);
  running.process.kill('SIGCONT');
  await expectMessages(manager);
  running.process.kill('SIGTERM');
  await manager.told(/^STOPPING=1$/);
  expect(await running.ended).toEqual({ status: 0, signal: null });
}

test('the daemon is ready when it listens, and sends no watchdog message when it is stopped', async () => {
  const port = await freePort();
  const data = join(folder, 'served');
  mkdirSync(data);
  const service = await managed('daemon', ['daemon', '--data', data, '--listen', `127.0.0.1:${port}`]);
  expect(await service.manager.told(/^READY=1/)).toBe(`READY=1 STATUS=serving at http://127.0.0.1:${port}`);
  await expectWatched(service);
});

test('the watcher is ready when it watches, and sends no watchdog message when it is stopped', async () => {
  const data = join(folder, 'watched');
  const rules = join(folder, 'rules.toml');
  mkdirSync(data);
  writeFileSync(rules, '[[rule]]\nname = "slow"\nmin-duration = "1s"\n');
  const args = ['watch', '--data', data, '--rules', rules, '--state', join(folder, 'watch')];
  const service = await managed('watch', args);
  expect(await service.manager.told(/^READY=1/)).toBe(`READY=1 STATUS=watching ${data}/recording.kreplay`);
  await expectWatched(service);
});

test('up is one service: its parts do not notify for it', async () => {
  const args = ['up', '--data', join(folder, 'up'), '--listen', '127.0.0.1:0', '--event-type', 'sys_sync'];
  const { manager, running } = await managed('up', args);
  await manager.told(/^READY=1 STATUS=serving at/);
  await manager.next(4, WATCHDOG);
  running.process.kill('SIGTERM');
  await running.ended;
  expect(new Set(manager.messages.map(({ pid }) => pid))).toEqual(new Set([running.process.pid]));
  expect(manager.messages.filter(({ text }) => text.startsWith('READY'))).toHaveLength(1);
});

test('a socket without a listener does not keep a service from its work; the journal gets the priority, not time and name', async () => {
  const path = join(folder, 'journal');
  const log = openSync(path, 'w');
  const { dev, ino } = statSync(path);
  const env = { ...process.env, JOURNAL_STREAM: `${dev}:${ino}`, NOTIFY_SOCKET: join(folder, 'nobody.sock') };
  const args = ['daemon', '--data', folder, '--no-state', '--listen', '127.0.0.1:0', '--log-level', 'debug'];
  const daemon = spawn(KREPLAY, args, { env, stdio: ['ignore', 'pipe', log] });
  unnamed.push(daemon);
  closeSync(log);
  await new Promise((resolve) => daemon.stdout!.once('data', resolve));
  daemon.kill('SIGTERM');
  expect(await once(daemon, 'exit')).toEqual([0, null]);
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  expect(lines).toContain('<6>replay sessions end with the daemon; --state keeps them reason=--no-state');
  expect(lines.filter((line) => !/^<[3-7]>/.test(line))).toEqual([]);
});

test('the reason why a service did not start is an error of the journal', async () => {
  const path = join(folder, 'refused');
  const log = openSync(path, 'w');
  const { dev, ino } = statSync(path);
  const env = { ...process.env, JOURNAL_STREAM: `${dev}:${ino}` };
  const agent = spawn(KREPLAY, ['agent', '--data', '/dev/null/none'], { env, stdio: ['ignore', 'ignore', log] });
  unnamed.push(agent);
  closeSync(log);
  const [status] = await once(agent, 'exit');
  expect(status).not.toBe(0);
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  expect(lines.filter((line) => !/^<3>kreplay: /.test(line))).toEqual([]);
});
