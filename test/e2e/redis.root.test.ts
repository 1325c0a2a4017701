/**
 * Redis that syncs its append-only file after every command, on a disk that a labelled neighbour writes to as well. The
 * truth is what Redis reports about its file, the file itself, and where the file system has put it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BlockIoEvent } from '../../bpf/schema/api.ts';
import { truthOf } from '../kernel/disk_truth.ts';
import { type LoopDevice, loopDevice } from '../kernel/loop_device.ts';
import { run } from '../kernel/programs.ts';
import { record, removeFolders } from '../kernel/recorded_run.ts';
import { KREPLAY } from './kreplay.ts';
import { expectOwners, knowsOwners, lostOf } from './owners.ts';

const COMMANDS = 503;
const NEIGHBOUR_BLOCKS = 211;
const READY_MS_MAX = 20_000;

let disk: LoopDevice;
let server: ChildProcess | undefined;
let ended: Promise<unknown>;

beforeEach(() => {
  disk = loopDevice(128);
  run('mkfs.ext4', ['-q', '-F', '-E', 'lazy_itable_init=0', disk.path]);
  run('mount', [disk.path, disk.mountPoint]);
});

afterEach(async () => {
  await stopServer('SIGKILL');
  disk.remove();
});

afterAll(removeFolders);

const socket = () => join(disk.mountPoint, 'socket');
const redis = (...command: string[]) => run('redis-cli', ['-s', socket(), ...command], { stdio: 'pipe' });

async function startServer(label: readonly string[]): Promise<void> {
  const settings = {
    ...{ port: '0', unixsocket: socket(), dir: disk.mountPoint, daemonize: 'no', save: '' },
    ...{ appendonly: 'yes', appendfsync: 'always', 'auto-aof-rewrite-percentage': '0' },
  };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  // The other variables are dropped: some of them name a service.
  const env = { PATH: process.env.PATH };
  server = spawn(KREPLAY, ['exec', ...label, '--', 'redis-server', ...args], { stdio: 'ignore', env });
  ended = once(server, 'exit');
  const deadline = performance.now() + READY_MS_MAX;
  while (!isReady()) {
    if (server.exitCode !== null || performance.now() > deadline) throw new Error('redis-server does not start');
    await sleep(20);
  }
}

function isReady(): boolean {
  try {
    return redis('PING').startsWith('PONG');
  } catch {
    return false;
  }
}

async function stopServer(signal: NodeJS.Signals): Promise<void> {
  if (!server) return;
  server.kill(signal);
  await ended;
  server = undefined;
}

/** Four clients at a time set values of a kilobyte. redis-benchmark's default values may look like the neighbour's. */
function setValues(): void {
  const load = ['-n', COMMANDS, '-c', 4, '-r', 1000, '-q'].map(String);
  run('redis-benchmark', ['-s', socket(), ...load, 'SET', 'key:__rand_int__', 'v'.repeat(1000)]);
}

const WRITER = join(import.meta.dirname, '../kernel/patterned_writes.py');

const neighbourFile = () => join(disk.mountPoint, 'neighbour');

/** Its blocks are allocated before the test: none can come from a removed file of another owner. */
function makeNeighbourFile(): void {
  run('dd', [
    'if=/dev/zero',
    `of=${neighbourFile()}`,
    'bs=4k',
    `count=${NEIGHBOUR_BLOCKS}`,
    'conv=fsync',
    'status=none',
  ]);
}

/** Writes blocks that contain their owner, and syncs each. */
function startNeighbour(): Promise<unknown> {
  const args = [neighbourFile(), 'neighbour', 'fsync', '0', String(NEIGHBOUR_BLOCKS), '1'];
  return once(spawn('python3', [WRITER, ...args], { stdio: 'ignore' }), 'exit');
}

/** The fields of one section of Redis's INFO. */
function factsOf(section: string): Map<string, string> {
  const lines = redis('INFO', section).split('\r\n');
  return new Map(lines.filter((line) => line.includes(':')).map((line) => line.split(':', 2) as [string, string]));
}

interface Extent {
  first: bigint;
  end: bigint;
}

/** Extents of a file on the disk, in sectors. */
function extentsOf(file: string): Extent[] {
  const rows = run('filefrag', ['-e', '-b512', file]).matchAll(/^ *\d+: +\d+\.\. *\d+: +(\d+)\.\. *(\d+):/gm);
  return [...rows].map(([, first, last]) => ({ first: BigInt(first!), end: BigInt(last!) + 1n }));
}

function isIn(extents: readonly Extent[], { sector, bytes }: BlockIoEvent): boolean {
  return extents.some(({ first, end }) => sector < end && sector + bytes / 512n > first);
}

function sectorsOf(parts: readonly (Extent | BlockIoEvent)[]): Set<bigint> {
  const sectors = new Set<bigint>();
  for (const part of parts) {
    const [first, end] = 'first' in part ? [part.first, part.end] : [part.sector, part.sector + part.bytes / 512n];
    for (let sector = first; sector < end; sector++) sectors.add(sector);
  }
  return sectors;
}

describe('Redis', () => {
  test('all appended data, and every disk block of it, belongs to its own run', async () => {
    let file = '';
    let extents: Extent[] = [];
    let sizeSaid = '';
    let setsSaid = '';
    makeNeighbourFile();
    const recorded = await record(async () => {
      await startServer(['--service', 'cache', '--transaction', 'redis-run']);
      const neighbour = startNeighbour();
      setValues();
      await neighbour;
      sizeSaid = factsOf('persistence').get('aof_current_size')!;
      setsSaid = factsOf('commandstats').get('cmdstat_set')!;
      await stopServer('SIGTERM');
      run('sync', ['-f', disk.mountPoint]);
      file = join(disk.mountPoint, 'appendonlydir/appendonly.aof.1.incr.aof');
      extents = extentsOf(file);
    });
    const size = statSync(file).size;
    const sets = readFileSync(file, 'latin1').match(/^\$3\r\nSET\r$/gm)!;
    run('umount', [disk.mountPoint]);
    expect([sizeSaid, setsSaid.split(',')[0], sets.length]).toEqual([String(size), `calls=${COMMANDS}`, COMMANDS]);

    const writes = recorded.writes().filter((event) => event.file === file);
    expectOwners(recorded, writes, ['cache redis-run exact']);

    const onDisk = recorded.blockIos().filter(({ device, operation }) => device === disk.name && operation === 'write');
    const ofFile = onDisk.filter((request) => isIn(extents, request));
    const [wanted, carried] = [extents, ofFile].map(sectorsOf);
    expectOwners(recorded, ofFile, ['cache redis-run exact']);
    const { right, none, shared, wrong } = truthOf(disk.path, onDisk);
    expect({ shared, wrong }).toEqual({ shared: 0, wrong: 0 });
    expect(right + none).toBeLessThanOrEqual(NEIGHBOUR_BLOCKS);
    expect(right + none + lostOf(recorded)).toBeGreaterThanOrEqual(NEIGHBOUR_BLOCKS);
    if (knowsOwners(recorded)) expect(none).toBe(0);
    if (lostOf(recorded) > 0) return;
    expect(writes.reduce((sum, { result }) => sum + Number(result), 0)).toBe(size);
    expect([...wanted!].filter((sector) => !carried!.has(sector))).toEqual([]);
  });

  test('the child that rewrites the file inherits the label, and both are one service', async () => {
    let pid: number | undefined;
    const recorded = await record(async () => {
      await startServer(['--transaction', 'redis-rewrite']);
      pid = server!.pid;
      setValues();
      redis('BGREWRITEAOF');
      while (factsOf('persistence').get('aof_rewrite_in_progress') !== '0') await sleep(20);
      setValues();
      await stopServer('SIGTERM');
    });
    const writes = recorded.writes().filter(({ file }) => file?.startsWith(`${disk.mountPoint}/`));
    const byServer = writes.filter((event) => event.pid === pid);
    const byChild = writes.filter((event) => event.pid !== pid);
    // Debian's redis-server is a link to another of Redis's programs. The process title contains the socket's path.
    const service = basename(realpathSync('/usr/bin/redis-server'));
    expectOwners(recorded, byServer, [`${service} redis-rewrite exact`]);
    expectOwners(recorded, byChild, [`${service} redis-rewrite inherited`]);
    expect(byChild.every(({ file }) => file!.includes('temp-rewriteaof'))).toBe(true);
  });
});
