/** `kreplay doctor`: what it finds on this host is true, and it names each missing requirement and the remedy. */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LAYERS } from '../../agent/capture/layers.ts';
import { createDoctorCommand } from '../../agent/doctor/command.ts';
import type { Diagnosis } from '../../agent/doctor/diagnosis.ts';
import { FILE_SYSTEMS } from '../kernel/small_disk.ts';
import { AS_NOBODY } from '../unprivileged.ts';
import { endAll, type Finished, KREPLAY, kreplay, runCommand, start, temporaryFolder } from './kreplay.ts';

const folder = temporaryFolder();

afterEach(endAll);
afterAll(folder.remove);

const NOT_HERE = 77;

function doctor(front: readonly string[], ...flags: string[]): Finished {
  const [file, ...args] = [...front, KREPLAY, 'doctor', '--sample', '0', ...flags];
  return spawnSync(file!, args, { encoding: 'utf8', timeout: 30_000 }) as Finished;
}

function diagnosis(...flags: string[]): Diagnosis {
  return JSON.parse(kreplay(['doctor', '--output', 'json', '--data', folder.path, ...flags]).stdout);
}

function check({ checks }: Diagnosis, name: string) {
  return checks.find((each) => each.name === name)!;
}

const COLUMNS = 72;
/** The text and the JSON of doctor about a host that can be recorded. */
let text: Finished;
let plain: Diagnosis;

beforeAll(() => {
  const script = `stty cols ${COLUMNS}; ${KREPLAY} doctor --sample 0 --data ${folder.path}`;
  text = spawnSync('script', ['-qec', script, '/dev/null'], { encoding: 'utf8' }) as Finished;
  plain = diagnosis('--sample', '0.1');
});

test('this host can be recorded, as text and as JSON', () => {
  expect([text.status, text.stdout]).toEqual([0, expect.stringMatching(/^ok +kernel .*This host can be recorded/s)]);
  const { ok, checks, layers } = plain;
  expect([ok, checks.filter(({ state }) => state === 'failed' || state === 'unknown')]).toEqual([true, []]);
  expect(layers.map(({ name }) => name)).toEqual(Object.keys(LAYERS));
});

/** A mount namespace in which systemd runs, and in which the unit of the Debian package is installed or is not. */
function withSystemd(isInstalled: boolean): string[] {
  const script = `
    mount -t tmpfs tmpfs /run
    mkdir -p /run/systemd/system
    mount -t tmpfs tmpfs /usr/lib/systemd/system
    ${isInstalled ? 'touch /usr/lib/systemd/system/kreplay-agent.service' : ''}
    exec "$@"`;
  return ['unshare', '--mount', 'sh', '-ec', script, 'sh'];
}

test('the advice is to start the service where it is installed, and else kreplay up', () => {
  const findVerdict = (front: readonly string[]) => doctor(front, '--data', folder.path).stdout.split('\n').at(-2);
  expect([withSystemd(true), withSystemd(false), []].map(findVerdict)).toEqual([
    'This host can be recorded: systemctl start kreplay-agent',
    'This host can be recorded: kreplay up',
    'This host can be recorded: kreplay up',
  ]);
});

test('it checks the configuration of the agent, and flags take precedence', () => {
  const file = join(folder.path, 'kreplay.toml');
  const configured = join(folder.path, 'configured');
  mkdirSync(configured);
  writeFileSync(file, `data = ${JSON.stringify(configured)}\n[agent]\nring-size = 4\nretain-bytes = "64MiB"\n`);
  const { stdout } = kreplay(['doctor', '--sample', '0.1', '--config', file, '--output', 'json']);
  const [ring, disk] = ['event ring', 'disk'].map((name) => check(JSON.parse(stdout), name).text);
  expect([ring, disk]).toEqual([expect.stringContaining('4 MiB'), expect.stringContaining(configured)]);
  expect(disk).toContain('up to 67.1 MB are kept');
  const said = kreplay([
    'doctor',
    '--sample',
    '0.1',
    '--config',
    file,
    '--ring-size',
    '8',
    '--data',
    folder.path,
  ]).stdout;
  expect(said).toMatch(/event ring .*8 MiB/s);
  expect(said).toContain(`${folder.path} (`);
  writeFileSync(file, '[agent]\nring_size = 4\n');
  const { status, stderr } = kreplay(['doctor', '--config', file]);
  expect([status, stderr]).toEqual([2, expect.stringContaining('did you mean ring-size?')]);
});

test('a host that ships is checked for that too, and its trouble does not keep it from being recorded', () => {
  const file = join(folder.path, 'shipping.toml');
  const state = join(folder.path, 'ship');
  writeFileSync(file, `[ship]\nurl = ["http://127.0.0.1:9"]\nstate = ${JSON.stringify(state)}\n`);
  const flags = ['--sample', '0', '--output', 'json', '--config', file, '--data', folder.path];
  const { status, stdout } = kreplay(['doctor', ...flags, '--retain-age', '7d']);
  const found: Diagnosis = JSON.parse(stdout);
  expect([status, found.ok]).toEqual([0, true]);
  expect(check(found, 'ship server')).toMatchObject({
    state: 'warning',
    text: expect.stringContaining('ECONNREFUSED'),
  });
  expect(check(found, 'ship position').advice).toBe(`set retain-unshipped = "${state}/position.json" in [agent]`);
  expect(plain.checks.filter(({ name }) => name.startsWith('ship'))).toEqual([]);
});

test('beside an agent it reports that agent instead of a sample, and the layers that the agent reported at its start', async () => {
  const agent = start(['agent', '--data', folder.path, '--http-services', 'x', '--ring-size', '32']);
  await agent.says('recording to');
  expect(doctor([], '--data', folder.path).stdout).toMatch(/\nThis host can be recorded, and an agent records it\.\n$/);
  const beside = diagnosis();
  expect([plain.recording, beside.recording]).toEqual([false, true]);
  const said = /attribution by (.*)/.exec(agent.output())![1]!;
  for (const { name, on } of beside.layers) {
    expect(said.includes(`${name} off`)).toBe(!on);
    expect(said).toContain(name);
  }
  const ring = check(beside, 'event ring');
  expect(ring.text).toMatch(/^the agent that records here has taken .* its ring of 32 MiB was \d+ % full at most/);
  expect(ring.facts).toMatchObject({ ring_bytes: 32 << 20, lost: 0 });
});

test('without privileges it lists the missing ones, and what each layer does without them', () => {
  const { status, stdout } = doctor(AS_NOBODY, '--data', '/tmp');
  expect(status).toBe(NOT_HERE);
  expect(stdout).toMatch(/NO +privileges +CAP_BPF and CAP_PERFMON missing; run as root/);
  expect(stdout).toMatch(/\? +features +unknown without CAP_BPF and CAP_PERFMON/);
  expect(stdout).toMatch(/NO +programs +the kernel refused .*EPERM/);
  expect(stdout).toMatch(/\? +map memory +the programs are not loaded/);
  expect(stdout).toMatch(/on +otel .*not other users' processes: CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH missing/);
  expect(stdout).toContain('This host cannot be recorded as it is.');
});

test('without BTF it explains how the kernel has to be built', () => {
  const hidden = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs tmpfs /sys/kernel/btf && exec "$@"', 'sh'];
  const { status, stdout } = doctor(hidden, '--data', folder.path);
  expect(status).toBe(NOT_HERE);
  expect(stdout).toMatch(/NO +BTF .*boot a kernel built with CONFIG_DEBUG_INFO_BTF=y/);
  expect(stdout).toMatch(/NO +programs/);
});

/** A mount namespace in which a library's file, and each name of it, is absent. */
function without(library: string): string[] {
  const script = `
    lib=$(dirname "$(ldconfig -p | sed -n 's/.*${library} .*x86-64.* => //p')")
    mount -t tmpfs tmpfs /mnt
    mkdir /mnt/upper /mnt/work
    mount -t overlay -o "lowerdir=$lib,upperdir=/mnt/upper,workdir=/mnt/work" overlay "$lib"
    rm "$(readlink -f "$lib/${library}")" "$lib/${library}"
    exec "$@"`;
  return ['unshare', '--mount', 'sh', '-ec', script, 'sh'];
}

describe.each([
  ['libelf.so.1', 'libelf1'],
  ['libz.so.1', 'zlib1g'],
])('without %s', (library, debianPackage) => {
  const front = without(library);

  test('doctor names the package to install, and checks what needs no library', () => {
    const { status, stdout, stderr } = doctor(front, '--data', folder.path);
    expect([status, stderr]).toEqual([NOT_HERE, '']);
    expect(stdout).toMatch(new RegExp(`NO +libraries +.*${library}: .*on Debian: apt install ${debianPackage}\\n`));
    expect(stdout).toMatch(new RegExp(`\\? +features +unknown without ${library}`));
    expect(stdout).toMatch(/ok +privileges /);
    expect(stdout).toMatch(/ok +disk /);
    const { checks } = JSON.parse(doctor(front, '--data', folder.path, '--output', 'json').stdout) as Diagnosis;
    expect(checks.find(({ name }) => name === 'libraries')).toMatchObject({ facts: { missing: library } });
  });

  test('config works', () => {
    const { status, stdout } = runCommand([...front, KREPLAY, 'config', 'print', '--origin', '--config', '/dev/null']);
    expect([status, stdout]).toEqual([0, expect.stringContaining('retain-bytes')]);
  });

  test.each(['agent', 'up'])('%s says in one line what to install', (command) => {
    const { status, stderr } = runCommand([...front, KREPLAY, command, '--data', join(folder.path, 'missing')]);
    expect(status).toBe(NOT_HERE);
    expect(stderr).toMatch(new RegExp(`^kreplay: [^\n]*${library}[^\n]*apt install ${debianPackage}[^\n]*\n$`));
  });
});

test('in its own PID namespace it asks for that of the host', () => {
  const { status, stdout } = doctor(['unshare', '--pid', '--fork', '--mount-proc'], '--data', folder.path);
  expect(status).toBe(NOT_HERE);
  expect(stdout).toMatch(/NO +pid namespace .*docker run --pid=host/);
});

test('in a time namespace with clocks of its own it asks for those of the host', () => {
  const shifted = (name: string) =>
    doctor(['unshare', '--time', '--fork', `--${name}`, '100000'], '--data', folder.path);
  for (const clock of ['boottime', 'monotonic']) {
    const { status, stdout } = shifted(clock);
    expect(status).toBe(NOT_HERE);
    expect(stdout).toMatch(new RegExp(`NO +time namespace .*${clock}.*without unshare --time`));
    expect(stdout).toMatch(/NO +programs +the agent is in a time namespace/);
  }
  // One that sets nothing off changes nothing.
  expect(doctor(['unshare', '--time', '--fork'], '--data', folder.path).stdout).toMatch(
    /yes +time namespace|ok +time namespace/,
  );
});

describe('the disk', () => {
  test('a full disk cannot be recorded to', () => {
    const small = FILE_SYSTEMS.ext4(32);
    try {
      small.fill();
      const { status, stdout } = doctor([], '--data', join(small.path, 'data'));
      expect([status, stdout]).toEqual([NOT_HERE, expect.stringMatching(/NO +disk .*\(ext4\): .* free; .*make room/)]);
    } finally {
      small.remove();
    }
  });

  test('a disk that is too small for the retention, and too little memory, are reported', () => {
    const small = FILE_SYSTEMS.tmpfs(256);
    try {
      expect(check(diagnosis('--data', small.path), 'disk')).toMatchObject({
        state: 'warning',
        advice: expect.stringContaining('gone after a reboot'),
        facts: { file_system: 'tmpfs', free_bytes: 256 << 20, retain_bytes: 64 << 20 },
      });
      expect(check(diagnosis('--data', small.path, '--retain-bytes', '2GB'), 'disk')).toMatchObject({
        state: 'warning',
        advice: expect.stringContaining('--retain-bytes, such as 241MB'),
        facts: { retain_bytes: 2e9 },
      });
    } finally {
      small.remove();
    }
  });

  test('a folder of another user cannot be recorded to', () => {
    const closed = join(folder.path, 'closed');
    mkdirSync(closed);
    chmodSync(folder.path, 0o755);
    expect(doctor(AS_NOBODY, '--data', closed).stdout).toMatch(/NO +disk .*cannot be written; run it as its owner/);
  });
});

test('the size for a maximum age is estimated from the current event rate', () => {
  const writer = spawn('dd', ['if=/dev/zero', 'of=/dev/null', 'bs=1', 'status=none']);
  let busy: Diagnosis;
  try {
    busy = diagnosis('--retain-age', '1s');
  } finally {
    writer.kill();
  }
  const { events_per_second: rate } = check(busy, 'event ring').facts as Record<string, number>;
  expect(rate).toBeGreaterThan(10_000);
  const { bytes_per_day: perDay, retain_bytes: kept } = check(busy, 'disk').facts as Record<string, number>;
  expect(perDay! / 86_400 / rate!).toBeGreaterThan(1);
  expect(kept! / (perDay! / 86_400)).toBeCloseTo(1, 1);
});

test('an unknown argument is a usage error', () => {
  for (const [flag, ...value] of [['--sample', '-1'], ['--sample', ''], ['--ring-size', '3'], ['--nothing']]) {
    const command = createDoctorCommand()
      .exitOverride()
      .configureOutput({ writeErr: () => {} });
    expect(() => command.parse([flag!, ...value], { from: 'user' })).toThrow(flag);
  }
  expect(kreplay(['doctor', '--output', 'xml']).status).toBe(2);
  expect(kreplay(['doctor', '--help']).stdout).toMatch(/^ +77 +this host cannot be recorded$/m);
});

test('a line is no longer than the terminal, unless a word is', () => {
  const lines = text.stdout.split('\r\n');
  expect(lines.length).toBeGreaterThan(20);
  expect(lines.filter((line) => line.length > COLUMNS)).toEqual([]);
});
