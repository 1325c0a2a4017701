// Agent and daemon notify a service manager when they are ready and while they work, and do not when they hang.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endAll, freePort, KREPLAY, start } from '../../e2e/kreplay.ts';
import { listenForNotifications, type Notifications } from './notifications.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-service-'));
const disk = join(folder, 'disk');
/** Whether the disk is frozen, so that nothing can be written to it. */
let isFrozen = false;
const opened: Notifications[] = [];

const WATCHDOG_MS = 2000;

afterAll(() => {
  endAll();
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

test('the agent is ready when it records, and sends no watchdog message while its writer hangs', async () => {
  mkdirSync(disk);
  const image = join(folder, 'image');
  execFileSync('truncate', ['--size=200M', image]);
  execFileSync('mkfs.ext4', ['-q', image]);
  execFileSync('mount', ['-o', 'loop', image, disk]);
  const { manager, running } = await managed('agent', ['agent', '--data', join(disk, 'data')]);
  expect(await manager.told(/^READY=1/)).toBe(`READY=1 STATUS=recording to ${disk}/data/recording.kreplay`);
  expect(running.output()).toContain('recording to');
  // Messages come at least twice as often as the timeout asks for.
  expect(await manager.countIn(2 * WATCHDOG_MS, /^WATCHDOG=1$/)).toBeGreaterThanOrEqual(4);
  // The writer's thread waits in the kernel when it writes; the other thread continues.
  isFrozen = true;
  execFileSync('fsfreeze', ['--freeze', disk]);
  await new Promise((resolve) => setTimeout(resolve, 3 * WATCHDOG_MS));
  expect(await manager.countIn(2 * WATCHDOG_MS, /^WATCHDOG=1$/)).toBe(0);
  execFileSync('fsfreeze', ['--unfreeze', disk]);
  isFrozen = false;
  expect(await manager.countIn(3 * WATCHDOG_MS, /^WATCHDOG=1$/)).toBeGreaterThanOrEqual(4);
  running.process.kill('SIGTERM');
  await manager.told(/^STOPPING=1$/);
  expect(await running.ended).toEqual({ status: 0, signal: null });
});

test('the daemon is ready when it listens, and sends no watchdog message when it is stopped', async () => {
  const port = await freePort();
  const data = join(folder, 'served');
  mkdirSync(data);
  const { manager, running } = await managed('daemon', ['daemon', '--data', data, '--listen', `127.0.0.1:${port}`]);
  expect(await manager.told(/^READY=1/)).toBe(`READY=1 STATUS=serving at http://127.0.0.1:${port}`);
  expect(await manager.countIn(2 * WATCHDOG_MS, /^WATCHDOG=1$/)).toBeGreaterThanOrEqual(4);
  running.process.kill('SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(await manager.countIn(2 * WATCHDOG_MS, /^WATCHDOG=1$/)).toBe(0);
  running.process.kill('SIGCONT');
  expect(await manager.countIn(2 * WATCHDOG_MS, /^WATCHDOG=1$/)).toBeGreaterThanOrEqual(4);
  running.process.kill('SIGTERM');
  await manager.told(/^STOPPING=1$/);
  expect(await running.ended).toEqual({ status: 0, signal: null });
});

test('up is one service: its parts do not notify for it', async () => {
  const args = ['up', '--data', join(folder, 'up'), '--listen', '127.0.0.1:0'];
  const { manager, running } = await managed('up', args);
  await manager.told(/^READY=1 STATUS=serving at/);
  expect(await manager.countIn(2 * WATCHDOG_MS, /^WATCHDOG=1$/)).toBeLessThanOrEqual(10);
  running.process.kill('SIGTERM');
  await running.ended;
  expect(manager.lines().filter((line) => line.startsWith('READY'))).toHaveLength(1);
});

test('a socket without a listener does not keep a service from its work', async () => {
  const path = join(folder, 'nobody.sock');
  const running = start(['daemon', '--data', folder, '--listen', '127.0.0.1:0'], ['env', `NOTIFY_SOCKET=${path}`]);
  await running.says('serving');
  running.process.kill('SIGTERM');
  expect(await running.ended).toEqual({ status: 0, signal: null });
});

test('the journal receives the priority, but neither time nor name', async () => {
  const path = join(folder, 'journal');
  const log = openSync(path, 'w');
  const { dev, ino } = statSync(path);
  const env = { ...process.env, JOURNAL_STREAM: `${dev}:${ino}` };
  const args = ['daemon', '--data', folder, '--no-state', '--listen', '127.0.0.1:0', '--log-level', 'debug'];
  const daemon = spawn(KREPLAY, args, { env, stdio: ['ignore', 'pipe', log] });
  await new Promise((resolve) => daemon.stdout!.once('data', resolve));
  daemon.kill('SIGTERM');
  await new Promise((resolve) => daemon.once('exit', resolve));
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  expect(lines).toContain('<6>replay sessions end with the daemon; --state keeps them reason=--no-state');
  expect(lines.filter((line) => !/^<[3-7]>/.test(line))).toEqual([]);
});
