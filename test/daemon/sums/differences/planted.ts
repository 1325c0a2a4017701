/** Recordings of transactions some of which are slow or fail, with a cause or without one. */
import { openWriter, type RecordingWriter } from '../../../../agent/recording/write/writer.ts';
import { appendRows, newFolder, type Row, recordingPath, START } from '../../recorded.ts';

const MS = 1_000_000n;
/** When the first transaction begins; each later one begins `EVERY_NS` after the one before. */
export const FIRST_NS = START - 3_600_000n * MS;
export const EVERY_NS = 20n * MS;
const NODES = ['n1', 'n2'];

/** A generator of numbers below 1 that is the same in each run (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** What one transaction is made of. */
interface Made {
  node: string;
  service: string;
  comm: string;
  device: string;
  file: string;
  call: 'fsync' | 'fdatasync';
  operation: 'write' | 'flush';
  failed: boolean;
  slow: boolean;
  /** Whether a thread of the kernel writes its data while it syncs. */
  byKernel: boolean;
  /** Whether another service has a large request on the same device. */
  hasNeighbour: boolean;
}

function rowsOf(i: number, made: Made, random: () => number): Row[] {
  const at = FIRST_NS + BigInt(i) * EVERY_NS;
  const owner = { service: made.service, transaction: `order-${i}`, comm: made.comm };
  const syncNs = BigInt(Math.round((made.slow ? 100 : 5) * 1e6 * (1 + random())));
  const asked = made.byKernel
    ? { service: 'kernel', comm: 'jbd2', origins: [{ ...owner, bytes: 64n }] }
    : { ...owner, origins: [] };
  const queueNs = made.hasNeighbour ? (syncNs * 9n) / 10n : syncNs / 2n;
  const rows: Row[] = [
    { ...owner, at, duration: 20_000n, file: made.file, ...(made.failed && { result: -28n }) },
    { ...owner, type: 'sys_sync', at: at + 30_000n, duration: syncNs, file: made.file, syscall: made.call, result: 0n },
    {
      ...{ ...asked, type: 'block_io', at: at + 40_000n, duration: syncNs - 20_000n, device: made.device },
      ...{ queue: queueNs, result: 0n, operation: made.operation },
    },
    // Write-back, seconds later and by another device, is no cause.
    {
      ...{ ...owner, type: 'block_io', at: at + 9000n * MS, duration: 1000n, device: 'sdz', source: 'origin' },
      result: 0n,
    },
  ];
  const neighbour = { service: 'backup', comm: 'tar', device: made.device, bytes: 1_048_576n };
  if (made.hasNeighbour) rows.push({ ...neighbour, type: 'block_io', at: at + 35_000n, duration: queueNs, result: 0n });
  return rows;
}

/**
 * Records transactions on two nodes, after a change of what each would be by chance; returns the files. `more` adds to
 * each recording, which begins before the first transaction.
 */
export function recordMade(
  count: number,
  seed: number,
  change: Plant,
  more: (writer: RecordingWriter, node: string) => void = () => {},
): string[] {
  const random = randomOf(seed);
  const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)]!;
  const byNode = new Map<string, Row[]>(NODES.map((node) => [node, []]));
  for (let i = 0; i < count; i++) {
    const plain: Made = {
      ...{ node: pick(NODES), service: pick(['shop', 'cart', 'db']), comm: pick(['node', 'java']) },
      ...{ device: pick(['sda', 'sdb', 'sdc']), file: pick(['/a/1', '/a/2', '/b/1', '/b/2', '/c/1', '/c/2']) },
      ...{
        call: pick(['fsync', 'fdatasync'] as const),
        failed: random() < 0.02,
        slow: random() < 0.1,
        ...{ byKernel: false, hasNeighbour: false },
        operation: i % 3 === 0 ? 'flush' : 'write',
      },
    };
    const made = change(plain, random);
    byNode.get(made.node)!.push(...rowsOf(i, made, random));
  }
  return NODES.map((node) => recordedSince(node, byNode.get(node)!, more));
}

function recordedSince(
  node: string,
  rows: readonly Row[],
  more: (writer: RecordingWriter, node: string) => void,
): string {
  const path = recordingPath(newFolder());
  let nowNs = FIRST_NS - 60_000n * MS;
  const origin = { node, bootId: 'boot', machineId: 'machine' };
  const writer = openWriter({ path, ...origin, nowNs: () => nowNs, retention: { bytes: 1 << 30 } });
  nowNs = START;
  appendRows(writer, rows);
  more(writer, node);
  writer.close();
  return path;
}

export type Plant = (made: Made, random: () => number) => Made;
export const slowIf =
  (isCause: (made: Made) => boolean): Plant =>
  (made, random) => ({ ...made, slow: random() < (isCause(made) ? 0.5 : 0.02) });

export interface Planted {
  name: string;
  plant: Plant;
  /** Parameters of the box that selects what the cause did. */
  box: string;
  /** Values that set it apart. */
  wanted: string[];
}

const SLOW = 'min_duration_ms=90';
const FAILED = 'failed=true';

export const PLANTED: Planted[] = [
  { name: 'a device', plant: slowIf(({ device }) => device === 'sdb'), box: SLOW, wanted: ['device sdb'] },
  { name: 'a file', plant: slowIf(({ file }) => file === '/b/2'), box: SLOW, wanted: ['file /b/2'] },
  { name: 'a folder', plant: slowIf(({ file }) => file.startsWith('/c/')), box: SLOW, wanted: ['file /c/'] },
  {
    name: 'a folder with a file for each',
    plant: (made, random) => {
      const slow = random() < 0.1;
      return { ...made, slow, file: `/${slow ? 'x' : 'y'}/${random()}` };
    },
    ...{ box: SLOW, wanted: ['file /x/'] },
  },
  { name: 'a node', plant: slowIf(({ node }) => node === 'n2'), box: SLOW, wanted: ['node n2'] },
  { name: 'a service', plant: slowIf(({ service }) => service === 'db'), box: SLOW, wanted: ['service db'] },
  { name: 'a command', plant: slowIf(({ comm }) => comm === 'java'), box: SLOW, wanted: ['comm java'] },
  { name: 'a system call', plant: slowIf(({ call }) => call === 'fsync'), box: SLOW, wanted: ['syscall fsync'] },
  {
    name: 'an error',
    plant: (made) => ({ ...made, failed: made.device === 'sda' }),
    ...{ box: FAILED, wanted: ['error ENOSPC', 'device sda'] },
  },
  { name: 'an error that delays', plant: slowIf(({ failed }) => failed), box: SLOW, wanted: ['error ENOSPC'] },
  {
    name: 'a device that others write to while a sync waits',
    plant: (made, random) => ({ ...slowIf(({ device }) => device === 'sdc')(made, random), byKernel: true }),
    ...{ box: SLOW, wanted: ['device sdc'] },
  },
  {
    name: 'two at once',
    plant: slowIf(({ device, file }) => device === 'sda' || file === '/b/1'),
    ...{ box: SLOW, wanted: ['device sda', 'file /b/1'] },
  },
  {
    name: 'a device of one node',
    plant: (made, random) => {
      const device = made.node === 'n2' ? 'nvme1' : made.device;
      return slowIf((one) => one.device === 'nvme1')({ ...made, device }, random);
    },
    ...{ box: SLOW, wanted: ['device nvme1', 'node n2'] },
  },
  {
    name: 'an operation',
    plant: slowIf(({ operation }) => operation === 'flush'),
    ...{ box: SLOW, wanted: ['operation flush'] },
  },
  {
    name: 'a neighbour in the queue of a device',
    plant: (made, random) => {
      const slowed = slowIf(({ device }) => device === 'sdb')(made, random);
      return { ...slowed, hasNeighbour: slowed.slow };
    },
    ...{ box: SLOW, wanted: ['neighbour backup', 'device sdb'] },
  },
  {
    name: 'a service on one node',
    plant: slowIf(({ service, node }) => service === 'db' && node === 'n2'),
    ...{ box: SLOW, wanted: ['service db', 'node n2'] },
  },
  {
    name: 'a device that is seldom used',
    plant: (made, random) => {
      const device = random() < 0.05 ? 'sdr' : made.device;
      return slowIf((one) => one.device === 'sdr')({ ...made, device }, random);
    },
    ...{ box: SLOW, wanted: ['device sdr'] },
  },
  {
    name: 'a system call on one device',
    plant: slowIf(({ device, call }) => device === 'sdc' && call === 'fsync'),
    ...{ box: SLOW, wanted: ['device sdc', 'syscall fsync'] },
  },
  {
    name: 'two devices',
    plant: slowIf(({ device }) => device !== 'sda'),
    ...{ box: SLOW, wanted: ['device sdb', 'device sdc'] },
  },
  {
    name: 'a service that fails',
    plant: (made, random) => ({ ...made, failed: made.service === 'cart' && random() < 0.3 }),
    ...{ box: FAILED, wanted: ['error ENOSPC', 'service cart'] },
  },
];

/** Orders of three programs that each write and sync; one in 25 runs beside a backup with four writers. */
export function ordersBesideBackup(orders: number): Row[] {
  const beside = (order: number) => order % 25 === 7;
  const device = 'vda';
  const random = randomOf(3);
  return Array.from({ length: orders }, (_, order) => {
    const at = FIRST_NS + BigInt(order) * 1000n * MS;
    const stepNs = BigInt(Math.round((beside(order) ? 80e6 : 1.3e6) * (0.9 + 0.2 * random())));
    const owner = { service: 'shop', transaction: `order-${order}`, comm: 'dd' };
    const steps = [0n, 1n, 2n].flatMap((step): Row[] => {
      const from = at + step * stepNs;
      const request = { ...owner, type: 'block_io', device, at: from + 40_000n, result: 0n } as const;
      return [
        { ...owner, at: from, duration: 20_000n, file: `/srv/${order}` },
        { ...owner, type: 'sys_sync', at: from + 30_000n, duration: stepNs - 30_000n, result: 0n },
        { ...request, duration: stepNs - 50_000n, queue: (stepNs * 9n) / 10n },
      ];
    });
    const writers = [0, 1, 2, 3].flatMap((writer) =>
      Array.from({ length: 13 }, (_, i): Row => {
        const begun = at - 20n * MS + BigInt(i * 20 + writer) * MS;
        const writes = { type: 'block_io', device, duration: 25n * MS, bytes: 1_048_576n, result: 0n } as const;
        return { ...writes, service: 'backup', comm: 'dd', at: begun };
      }),
    );
    return beside(order) ? [...steps, ...writers] : steps;
  })
    .flat()
    .sort((a, b) => (a.at < b.at ? -1 : 1));
}
