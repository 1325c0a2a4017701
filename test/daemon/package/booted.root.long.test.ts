/**
 * The package in a Debian that systemd has booted: what it starts, restarts and stops there, and what becomes of a
 * service that hangs or is misconfigured. Daemon and watcher run under all restrictions of their units. The agent
 * refuses a container with processes of its own, so no more of its unit is tested here.
 */
import { chmodSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { recorded, recordingPath, START } from '../recorded.ts';
import { type BootedDebian, bootDebian } from './debian_root.ts';
import { packageOfThisRun, repack } from './packages.ts';
import { unitFacts } from './unit_facts.ts';

let debian: BootedDebian;

beforeAll(async () => {
  const deb = await packageOfThisRun();
  debian = await bootDebian();
  repack(deb, '0.0.9', join(debian.path, 'opt/older.deb'));
  copyFileSync(deb, join(debian.path, 'opt/kreplay.deb'));
  // These limits are shorter than those of the unit, to save time.
  const patience = join(debian.path, 'etc/systemd/system/kreplay-daemon.service.d');
  mkdirSync(patience, { recursive: true });
  writeFileSync(join(patience, 'patience.conf'), '[Service]\nWatchdogSec=3\nRestartSec=0.1\n');
}, 300_000);

afterAll(async () => {
  await debian?.remove();
}, 60_000);

function done(...command: string[]): string {
  const { status, stdout, stderr } = debian.run(...command);
  if (status !== 0) throw new Error(`${command.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

const write = (path: string, text: string) => writeFileSync(join(debian.path, path), text);

function factOf(unit: string, name: string): string {
  return done('systemctl', 'show', '--property', name, '--value', unit).trim();
}

async function becomes(unit: string, name: string, wanted: string): Promise<void> {
  while (factOf(unit, name) !== wanted) await sleep(100);
}

const journalOf = (unit: string) => done('journalctl', '--unit', unit, '--output', 'cat', '--no-pager');

/** Returns what the installation printed for its administrator about services. */
function install(deb: string): string[] {
  const { status, stdout, stderr } = debian.run('dpkg', '--install', deb);
  expect([status, stdout + stderr]).toEqual([0, expect.not.stringContaining('deb-systemd-invoke')]);
  return stderr.split('\n').filter((line) => line.startsWith('kreplay: '));
}

const AGENT_FAILED = [
  'kreplay: kreplay-agent.service did not start; its reason: journalctl -u kreplay-agent',
  'kreplay: whether this host can be recorded, and what it lacks: kreplay doctor',
  'kreplay: the package is installed; when the reason is gone: systemctl restart kreplay-agent.service',
];

test('after the installation the services are enabled and started, and the agent is named that cannot run here', () => {
  expect(install('/opt/older.deb')).toEqual(AGENT_FAILED);
  expect(done('systemctl', 'is-enabled', 'kreplay-agent', 'kreplay-daemon')).toBe('enabled\nenabled\n');
  expect(factOf('kreplay-daemon', 'ActiveState')).toBe('active');
  expect(factOf('kreplay-daemon', 'StatusText')).toBe('serving at http://127.0.0.1:7467');
  expect(journalOf('kreplay-agent')).toContain('kreplay: the agent is in a pid namespace of its own');
  expect(journalOf('kreplay-agent')).toContain('run `kreplay doctor`');
});

test('the agent of a host that cannot be recorded is not started again', async () => {
  const { RestartSec } = unitFacts('kreplay-agent.service');
  await sleep(2 * Number(RestartSec) * 1000);
  const facts = ['ActiveState', 'NRestarts', 'ExecMainStatus'].map((name) => factOf('kreplay-agent', name));
  expect(facts).toEqual(['failed', '0', '77']);
});

test('systemd knows every key of the units', () => {
  expect(done('journalctl', '--output', 'cat', '--no-pager')).not.toContain('Unknown key');
});

test('the watcher is not enabled; without rules it ends once and names their file', async () => {
  expect(debian.run('systemctl', 'is-enabled', 'kreplay-watch').stdout).toBe('disabled\n');
  expect(factOf('kreplay-watch', 'ActiveState')).toBe('inactive');
  debian.run('systemctl', 'start', 'kreplay-watch');
  await becomes('kreplay-watch', 'ActiveState', 'failed');
  await sleep(2 * Number(unitFacts('kreplay-watch.service').RestartSec) * 1000);
  expect([factOf('kreplay-watch', 'NRestarts'), factOf('kreplay-watch', 'ExecMainStatus')]).toEqual(['0', '2']);
  expect(journalOf('kreplay-watch')).toContain('nothing to watch for: write rules into /etc/kreplay/watch.toml');
});

test('with rules, the enabled watcher waits for a recording, under all restrictions of its unit', () => {
  write('etc/kreplay/watch.toml', '[[rule]]\nname = "all"\nmin-duration = "0s"\n');
  done('systemctl', 'enable', '--now', 'kreplay-watch');
  expect(factOf('kreplay-watch', 'StatusText')).toBe('watching /var/lib/kreplay/recording.kreplay');
  const status = done('cat', `/proc/${factOf('kreplay-watch', 'MainPID')}/status`);
  expect(status).toMatch(/^CapBnd:\s*0+$/m);
  expect(status).toMatch(/^NoNewPrivs:\s*1$/m);
});

test('the daemon may only read the recording of the agent', () => {
  const recording = '/var/lib/kreplay/recording.kreplay';
  const rows = [{ at: START, transaction: 'order-1' }, { at: START + 1n }];
  copyFileSync(recordingPath(recorded(rows)), join(debian.path, recording));
  chmodSync(join(debian.path, recording), 0o640);
  done('chown', 'kreplay:kreplay', recording);
  const past = ['--from', '2000-01-01T00:00:00Z', '--output', 'ndjson'];
  expect(
    done('kreplay', 'events', ...past)
      .trim()
      .split('\n'),
  ).toHaveLength(rows.length);
  const status = done('cat', `/proc/${factOf('kreplay-daemon', 'MainPID')}/status`);
  expect(status).toMatch(/^CapBnd:\s*0+$/m);
  expect(status).toMatch(/^NoNewPrivs:\s*1$/m);
});

test('the watcher writes the bundle of what it finds there, and asks the agent for the pin', async () => {
  const bundles = '/var/lib/kreplay-watch/bundles';
  while (!debian.run('ls', bundles).stdout.includes('order-1-')) await sleep(100);
  expect(done('stat', '--format=%U:%G %a', bundles)).toBe('kreplay-watch:kreplay 750\n');
  // No agent can run here.
  while (!journalOf('kreplay-watch').includes('no agent is running')) await sleep(100);
});

test('a reload takes effect', async () => {
  write('etc/kreplay/kreplay.d/10-level.toml', 'log-level = "debug"\n[daemon]\nsessions-max = 7\n');
  done('systemctl', 'reload', 'kreplay-daemon');
  while (!journalOf('kreplay-daemon').includes('these are read at the next start settings=["sessions-max"]'))
    await sleep(100);
  // The message has its priority: journalctl -p shows it.
  const warnings = done('journalctl', '--unit', 'kreplay-daemon', '--priority', 'warning', '--output', 'cat');
  expect(warnings.split('\n')).toContain(
    'the configuration has changed; these are read at the next start settings=["sessions-max"]',
  );
});

test('a hanging daemon is restarted', async () => {
  done('systemctl', 'kill', '--signal', 'STOP', 'kreplay-daemon');
  await becomes('kreplay-daemon', 'NRestarts', '1');
  await becomes('kreplay-daemon', 'ActiveState', 'active');
  expect(journalOf('kreplay-daemon')).toContain("Failed with result 'watchdog'");
});

test('a daemon with an invalid configuration is not restarted', async () => {
  write('etc/kreplay/kreplay.d/20-wrong.toml', '[daemon]\nlistn = "127.0.0.1:1"\n');
  debian.run('systemctl', 'restart', 'kreplay-daemon');
  await becomes('kreplay-daemon', 'ActiveState', 'failed');
  await sleep(1000);
  expect([factOf('kreplay-daemon', 'NRestarts'), factOf('kreplay-daemon', 'ExecMainStatus')]).toEqual(['0', '2']);
  expect(journalOf('kreplay-daemon')).toContain('20-wrong.toml:2:1: there is no listn in [daemon]');
  rmSync(join(debian.path, 'etc/kreplay/kreplay.d/20-wrong.toml'));
  done('systemctl', 'start', 'kreplay-daemon');
});

test('an upgrade restarts an existing service', () => {
  const units = ['kreplay-daemon', 'kreplay-watch'];
  const before = units.map((unit) => factOf(unit, 'MainPID'));
  expect(install('/opt/kreplay.deb')).toEqual(AGENT_FAILED);
  for (const [i, unit] of units.entries()) {
    expect(factOf(unit, 'ActiveState')).toBe('active');
    expect(factOf(unit, 'MainPID')).not.toBe(before[i]);
  }
});

test('a disabled service stays disabled', () => {
  done('systemctl', 'disable', '--now', 'kreplay-daemon');
  done('dpkg', '--install', '/opt/kreplay.deb');
  expect(factOf('kreplay-daemon', 'ActiveState')).toBe('inactive');
  done('systemctl', 'enable', '--now', 'kreplay-daemon');
});

test('after removal nothing runs, and after a purge nothing remains', () => {
  done('dpkg', '--remove', 'kreplay');
  expect(debian.run('sh', '-c', 'grep --files-with-matches kreplay /proc/[0-9]*/cgroup').stdout).toBe('');
  expect(factOf('kreplay-daemon', 'LoadState')).toBe('not-found');
  for (const file of ['kreplay.d/10-level.toml', 'watch.toml']) rmSync(join(debian.path, 'etc/kreplay', file));
  done('dpkg', '--purge', 'kreplay');
  const left = done('find', '/etc', '/var/lib', '-name', '*kreplay*', '-not', '-path', '*/dpkg/*').trim();
  expect(left.split('\n')).toEqual(['/etc/systemd/system/kreplay-daemon.service.d']);
});
