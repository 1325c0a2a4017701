/**
 * The owners of data on every file system, against the sectors on the disk: what a request says of a transaction is in
 * its sectors, or it says that others may have written there. `make test-long` prints how much each file system shows.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { BlockIoEvent } from '../../../bpf/schema/api.ts';
import { times } from '../../repeats.ts';
import { type LoopDevice, loopDevice } from '../loop_device.ts';
import { run } from '../programs.ts';
import { newRecorder, removeFolders } from '../recorded_run.ts';

const WRITER = join(import.meta.dirname, '../sector_writes.py');
const SECTOR_BYTES = 512;
const ROUNDS = times(1);

interface FileSystem {
  type: string;
  options?: readonly string[];
  mount?: string;
}

const ext = (type: string, ...options: string[]): FileSystem => ({ type, options: ['-F', ...options] });

const FILE_SYSTEMS: Readonly<Record<string, FileSystem>> = {
  ext4: ext('ext4', '-b', '4096'),
  'ext4 with blocks of 1 KiB': ext('ext4', '-b', '1024'),
  'ext4 bigalloc': ext('ext4', '-b', '4096', '-O', 'bigalloc', '-C', '65536'),
  'ext4 nodelalloc': { ...ext('ext4', '-b', '4096'), mount: 'nodelalloc' },
  'ext4 data=journal': { ...ext('ext4', '-b', '4096'), mount: 'data=journal' },
  ext3: ext('ext3', '-b', '4096'),
  ext2: ext('ext2', '-b', '4096'),
  XFS: { type: 'xfs', options: ['-f'] },
  'XFS with blocks of 1 KiB': { type: 'xfs', options: ['-f', '-b', 'size=1024'] },
  btrfs: { type: 'btrfs', options: ['-f'] },
};

const shared = newRecorder();
let disk: LoopDevice;

beforeEach(() => {
  disk = loopDevice(512);
});
afterEach(() => disk.remove());
afterAll(async () => {
  await shared.stop();
  removeFolders();
});

/** Bytes of file data on the disk, by what is said of their owner. */
interface Account {
  /** Its transaction is named, with these bytes. */
  right: number;
  /** Nothing is said. */
  unnamed: number;
  /** Another transaction is named with them, which may share them with others. */
  unsure: number;
  /** Another transaction is named with them, without a doubt. */
  wrong: number;
}

/** A sector is judged by the last request that wrote it. */
function accountOf(path: string, requests: readonly BlockIoEvent[]): Account {
  const last = new Map<bigint, BlockIoEvent>();
  for (const request of requests)
    for (let at = 0n; at < request.bytes / BigInt(SECTOR_BYTES); at++) last.set(request.sector + at, request);
  const account: Account = { right: 0, unnamed: 0, unsure: 0, wrong: 0 };
  const device = openSync(path, 'r');
  const sector = Buffer.alloc(SECTOR_BYTES);
  try {
    for (const request of requests) {
      const owned = new Map<string, number>();
      let isWhole = true;
      for (let at = 0n; at < request.bytes / BigInt(SECTOR_BYTES); at++) {
        if (last.get(request.sector + at) !== request) isWhole = false;
        readSync(device, sector, 0, SECTOR_BYTES, Number(request.sector + at) * SECTOR_BYTES);
        const owner = /^<([\w-]+)>/.exec(sector.toString('latin1'))?.[1];
        if (owner) owned.set(owner, (owned.get(owner) ?? 0) + SECTOR_BYTES);
      }
      if (isWhole) judge(request, owned, account);
    }
  } finally {
    closeSync(device);
  }
  return account;
}

function judge(request: BlockIoEvent, owned: ReadonlyMap<string, number>, account: Account): void {
  const { origins, attribution } = request;
  const tagged = [...owned.values()].reduce((sum, bytes) => sum + bytes, 0);
  // A request of the file system's own blocks has no such sectors.
  if (tagged === 0) return;
  // A journal's request has some of both: its own blocks are of those who took part as well.
  let own = Number(request.bytes) - tagged;
  let left = tagged;
  for (const { transaction_id, bytes } of origins) {
    if (transaction_id === null) continue;
    const right = Math.min(Number(bytes), owned.get(transaction_id) ?? 0);
    account.right += right;
    const others = Math.max(0, Number(bytes) - right - own);
    own -= Math.min(own, Number(bytes) - right);
    account[attribution.quality === 'ambiguous' ? 'unsure' : 'wrong'] += others;
    left -= right + others;
  }
  account.unnamed += Math.max(0, left);
}

test.each(Object.entries(FILE_SYSTEMS))(
  '%s',
  async (name, { type, options = [], mount = 'defaults' }) => {
    run(`mkfs.${type}`, ['-q', ...options, disk.path]);
    run('mount', ['-o', mount, disk.path, disk.mountPoint]);
    const recorded = await shared.record(() => {
      run('python3', [WRITER, String(ROUNDS), disk.mountPoint]);
      run('sync', ['-f', disk.mountPoint]);
    });
    run('umount', [disk.mountPoint]);
    const endOf = (request: BlockIoEvent) => request.timestamp_ns + BigInt(request.duration_ns);
    const requests = recorded
      .blockIos()
      .filter(({ device, operation }) => device === disk.name && operation === 'write')
      .sort((a, b) => (endOf(a) < endOf(b) ? -1 : 1));
    const account = accountOf(disk.path, requests);
    if (ROUNDS > 1) console.log(`${name}: ${JSON.stringify(account)}`);
    expect(account.wrong).toBe(0);
    // Only btrfs does not show who writes to a page that is dirty already.
    if (type !== 'btrfs') expect(account.unsure).toBe(0);
    expect(account.right).toBeGreaterThan(0);
  },
  240_000,
);
