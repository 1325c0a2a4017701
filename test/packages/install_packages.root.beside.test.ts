/**
 * Tests that the installation of packages for the tests changes no server of the machine: in a copy of this Debian, with
 * packages of a server that the suite makes, and Debian's own apt, dpkg and init scripts.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type DebianRoot, newDebianRoot } from '../daemon/package/debian_root.ts';
import { AS_NOBODY } from '../unprivileged.ts';

const SCRIPT = join(import.meta.dirname, 'install_packages.sh');
const POLICY = '/usr/sbin/policy-rc.d';

let debian: DebianRoot;

beforeEach(() => {
  debian = newDebianRoot();
  rmSync(inRoot('/etc/apt/sources.list.d'), { recursive: true, force: true });
  write('/etc/apt/sources.list', 'deb [trusted=yes] file:/opt/repository ./\n');
  write('/opt/repository/Packages', '');
  copyFileSync(SCRIPT, inRoot('/opt/install_packages.sh'));
});

afterEach(() => debian.remove());

const inRoot = (path: string) => join(debian.path, path);
const isThere = (path: string) => existsSync(inRoot(path));

function write(path: string, text: string, mode = 0o644): void {
  mkdirSync(dirname(inRoot(path)), { recursive: true });
  writeFileSync(inRoot(path), text, { mode });
  chmodSync(inRoot(path), mode);
}

interface Package {
  name: string;
  priority?: string;
  depends?: string;
  /** Shell commands that its installation runs after the service has been enabled and started. */
  last?: string;
}

const isEnabled = (name: string) => isThere(`/etc/rc2.d/S01${name}`);
const isRunning = (name: string) => isThere(`/run/${name}.running`);

/** Makes a package of a server, as debhelper does, and adds it to the repository from which apt installs. */
function add({ name, priority = 'optional', depends = '', last = '' }: Package): void {
  const files: [path: string, text: string, mode: number][] = [
    [
      `lib/systemd/system/${name}.service`,
      `[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n`,
      0o644,
    ],
    [`etc/init.d/${name}`, buildInitScript(name), 0o755],
    [
      'DEBIAN/control',
      [
        `Package: ${name}`,
        'Version: 1',
        'Architecture: all',
        'Maintainer: nobody <nobody@localhost>',
        `Priority: ${priority}`,
        ...(depends ? [`Depends: ${depends}`] : []),
        'Description: a server',
        '',
      ].join('\n'),
      0o644,
    ],
    [
      'DEBIAN/postinst',
      `#!/bin/sh\nset -e
deb-systemd-helper enable ${name}.service >/dev/null
update-rc.d ${name} defaults >/dev/null
invoke-rc.d ${name} start || exit 1
${last}\n`,
      0o755,
    ],
  ];
  for (const [path, text, mode] of files) write(`/opt/made/${name}/${path}`, text, mode);
  const deb = inRoot(`/opt/repository/${name}.deb`);
  execFileSync('dpkg-deb', ['--root-owner-group', '--build', inRoot(`/opt/made/${name}`), deb], { stdio: 'ignore' });
  const control = readFileSync(inRoot(`/opt/made/${name}/DEBIAN/control`), 'utf8');
  const sum = createHash('sha256').update(readFileSync(deb)).digest('hex');
  const entry = `${control}Filename: ./${name}.deb\nSize: ${statSync(deb).size}\nSHA256: ${sum}\n\n`;
  writeFileSync(inRoot('/opt/repository/Packages'), entry, { flag: 'a' });
}

function buildInitScript(name: string): string {
  return `#!/bin/sh
### BEGIN INIT INFO
# Provides: ${name}
# Required-Start:
# Required-Stop:
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
### END INIT INFO
case $1 in
start) : >/run/${name}.running ;;
stop) rm -f /run/${name}.running ;;
esac
`;
}

const entryOf = (name: string) => `${name}:/etc/init.d/${name}`;
const install = (...names: string[]) =>
  debian.run('/opt/install_packages.sh', 'the tests', 'wanted', ...names.map(entryOf));

test('a new server is neither running nor enabled, and is named; a server that was there is as it was', () => {
  add({ name: 'kr-old' });
  add({ name: 'kr-new', depends: 'kr-needed' });
  add({ name: 'kr-needed' });
  add({ name: 'kr-system', priority: 'important' });
  execFileSync('chroot', [debian.path, 'dpkg', '--install', '/opt/repository/kr-old.deb'], { stdio: 'ignore' });
  debian.run('/etc/init.d/kr-old', 'start');
  const { status, stdout, stderr } = install('kr-old', 'kr-new', 'kr-system');
  expect([status, stderr]).toEqual([0, '']);
  const servers = ['kr-old', 'kr-new', 'kr-needed'].map((name) => [name, isEnabled(name), isRunning(name)]);
  expect(servers).toEqual([
    ['kr-old', true, true],
    ['kr-new', false, false],
    ['kr-needed', false, false],
  ]);
  const wants = '/etc/systemd/system/multi-user.target.wants';
  expect(['kr-old', 'kr-new', 'kr-system'].map((name) => isLinked(`${wants}/${name}.service`))).toEqual([
    true,
    false,
    true,
  ]);
  expect(isThere(POLICY)).toBe(false);
  expect(stdout.trim().split('\n')).toEqual([
    'installing packages for the tests: kr-new kr-system',
    "  reading Debian's lists of packages",
    '  downloading what is missing',
    expect.stringMatching(/^ {2}unpacking [\d,.]+ k?B, .*; Ctrl-C ends this when dpkg has finished$/),
    'installed 3 packages for the tests: kr-new kr-system (the others are what these need)',
    'to remove them again: apt-get purge kr-new kr-system && apt-get autoremove --purge',
    'not enabled at boot, and not running: kr-needed kr-new',
  ]);
  expect(install('kr-old', 'kr-new', 'kr-system')).toMatchObject({ status: 0, stdout: '', stderr: '' });
});

/** Whether there is a link, wherever it leads. */
function isLinked(path: string): boolean {
  return spawnSync('test', ['-L', inRoot(path)]).status === 0;
}

test.each([
  ['a file', () => write(POLICY, '#!/bin/sh\nexit 0\n', 0o755)],
  [
    'a link',
    () => {
      write('/opt/policy', '#!/bin/sh\nexit 0\n', 0o755);
      execFileSync('ln', ['-s', '/opt/policy', inRoot(POLICY)]);
    },
  ],
])('the policy of an administrator stays: %s', (_, make) => {
  add({ name: 'kr-new' });
  make();
  const { status } = install('kr-new');
  expect(status).toBe(0);
  expect(debian.run('cat', POLICY).stdout).toBe('#!/bin/sh\nexit 0\n');
  expect([isEnabled('kr-new'), isRunning('kr-new')]).toEqual([false, false]);
});

test('a bare Debian, which has no folders for links, gets the packages too', () => {
  add({ name: 'kr-new' });
  for (const folder of ['systemd', 'rc2.d', 'rc3.d', 'rc4.d', 'rc5.d'])
    rmSync(inRoot(`/etc/${folder}`), { recursive: true, force: true });
  expect(install('kr-new').status).toBe(0);
  expect([isThere('/etc/init.d/kr-new'), isEnabled('kr-new'), isRunning('kr-new')]).toEqual([true, false, false]);
});

test('the policy that a killed run has left is removed', () => {
  add({ name: 'kr-new' });
  const { pid } = spawnSync('true');
  const mark = /^MARK='(.*)'$/m.exec(readFileSync(SCRIPT, 'utf8'))![1];
  write(POLICY, `#!/bin/sh\n# ${mark} ${pid}\nexit 101\n`, 0o755);
  expect(install('kr-new').status).toBe(0);
  expect(isThere(POLICY)).toBe(false);
});

test('a failed installation says so, and leaves no policy and no server', () => {
  add({ name: 'kr-new' });
  add({ name: 'kr-broken', last: 'echo out of order >&2; exit 1' });
  const { status, stderr } = install('kr-new', 'kr-broken');
  expect(status).not.toBe(0);
  expect(stderr).toMatch(/out of order.*not all packages for the tests are installed; .*run make again\n$/s);
  expect(isThere(POLICY)).toBe(false);
  expect(['kr-new', 'kr-broken'].filter((name) => isEnabled(name) || isRunning(name))).toEqual([]);
});

test('a package that does not exist is named', () => {
  const { status, stderr } = install('kr-nowhere');
  expect([status, stderr]).toEqual([
    100,
    expect.stringMatching(/Unable to locate package kr-nowhere\n.*run make again\n$/),
  ]);
  expect(isThere(POLICY)).toBe(false);
});

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('after %s there is no policy and no server', async (signal) => {
  add({ name: 'kr-slow', last: 'touch /run/begun; sleep 2; touch /run/finished' });
  // A terminal sends Ctrl-C to the whole process group.
  const child = spawn('chroot', [debian.path, '/opt/install_packages.sh', 'the tests', 'wanted', entryOf('kr-slow')], {
    detached: true,
    // The folder of this run is not in the root.
    env: { ...process.env, TMPDIR: '/tmp' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const ended = once(child, 'exit');
  while (!isThere('/run/begun')) {
    if (child.exitCode !== null) throw new Error(`the installation ended early: ${output}`);
    await sleep(20);
  }
  expect(isThere(POLICY)).toBe(true);
  process.kill(-child.pid!, signal);
  await ended;
  expect(child.exitCode).toBeGreaterThan(128);
  // dpkg has not been left to go on without the policy.
  expect(isThere('/run/finished')).toBe(true);
  expect([isThere(POLICY), isEnabled('kr-slow'), isRunning('kr-slow')]).toEqual([false, false, false]);
});

test('a disk without room is found before anything is unpacked', () => {
  add({ name: 'kr-large' });
  const packages = inRoot('/opt/repository/Packages');
  writeFileSync(
    packages,
    readFileSync(packages, 'utf8').replace('Description:', 'Installed-Size: 9000000000000\nDescription:'),
  );
  const { status, stdout, stderr } = install('kr-large');
  expect(status).toBe(1);
  expect(stderr).toMatch(/^the packages take [\d,]+ TB in \/usr, where [\d.]+[GMT]B are free: free some space\n/m);
  expect(stdout).not.toContain('unpacking');
});

test.each([
  [
    'wanted',
    0,
    'not installed, so what needs them in the tests fails or is skipped; as root: apt-get install kr-new\n',
  ],
  ['required', 1, 'these Debian packages are missing for the tests; as root: apt-get install kr-new\n'],
])('without root the missing packages are named: %s', (need, code, words) => {
  const [file, ...front] = [...AS_NOBODY, SCRIPT, 'the tests', need, 'kr-new:/nowhere', 'sh:/bin/sh'];
  const { status, stdout, stderr } = spawnSync(file!, front, { encoding: 'utf8' });
  expect([status, stdout, stderr]).toEqual([code, '', words]);
});
