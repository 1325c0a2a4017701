/**
 * The owners of data on the disk, where the kernel makes them hard to see. Each case has a few programs that know what
 * they wrote, the file system's own report of where it lies, and what was recorded of the requests that wrote there.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BlockIoEvent } from '../../../bpf/schema/api.ts';
import type { NodeLoss } from '../../../daemon/store/store.ts';
import { type LoopDevice, loopDevice } from '../loop_device.ts';
import { bash, run, wallClockNs } from '../programs.ts';
import { newRecorder, type Recorded, removeFolders, temporaryFolder } from '../recorded_run.ts';
import { type Account, accountOf, overcharged } from './account.ts';
import { blocksOf } from './extents.ts';

const SCRIPTS = temporaryFolder();

/**
 * FILE FIRST STEP COUNT [COMMAND]: writes blocks of 4096 bytes, each by its own call; then runs the command, if there
 * is one, and syncs what both wrote.
 */
const WRITER = script(
  'writer.py',
  `
import os, subprocess, sys
path, first, step, count = sys.argv[1], *map(int, sys.argv[2:5])
file = os.open(path, os.O_WRONLY | os.O_CREAT)
for i in range(count): os.pwrite(file, b'x' * 4096, (first + i * step) * 4096)
if len(sys.argv) > 5:
    subprocess.run(sys.argv[5], shell=True, check=True)
    os.fsync(file)
`,
);

/** store FROM: makes FROM dirty through a mapping. load FROM TO: writes TO directly from a mapping of FROM. */
const MAPPED = script(
  'mapped.py',
  `
import mmap, os, sys
what, path, *to = sys.argv[1:]
size = 1 << 20
file = os.open(path, os.O_RDWR | os.O_CREAT)
if what == 'store':
    os.posix_fallocate(file, 0, size)
    stores = mmap.mmap(file, size)
    for at in range(0, size, 4096): stores[at] = 1
else:
    loads = mmap.mmap(file, size, prot=mmap.PROT_READ)
    for at in range(0, size, 4096): loads[at]
    direct = os.open(to[0], os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    assert os.write(direct, memoryview(loads)) == size
`,
);

/** FOLDER COUNT: maps new files for writing, and stores to none of them. The kernel keeps their inodes in memory. */
const MAP_FILES = script(
  'map_files.py',
  `
import mmap, os, sys
for i in range(int(sys.argv[2])):
    file = os.open(f'{sys.argv[1]}/mapped-{i}', os.O_RDWR | os.O_CREAT)
    os.truncate(file, 4096)
    mmap.mmap(file, 4096).close()
    os.close(file)
`,
);

/** MOUNTPOINT: makes a folder `e` in it that is encrypted, with its own key. */
const ENCRYPT = script(
  'encrypt.py',
  `
import fcntl, os, struct, sys
folder = sys.argv[1]
key = bytearray(struct.pack('=II32s', 2, 0, b'') + struct.pack('=III7I', 64, 0, 0, *[0] * 7) + os.urandom(64))
fcntl.ioctl(os.open(folder, os.O_RDONLY), 0xC0506617, key)
os.mkdir(folder + '/e')
policy = struct.pack('=BBBBB3s16s', 2, 1, 4, 3, 0, b'', bytes(key[8:24]))
fcntl.ioctl(os.open(folder + '/e', os.O_RDONLY), 0x800C6613, policy)
`,
);

/** One agent records all cases: each has a file system of its own, and is told apart by its time and device. */
const { record, stop } = newRecorder();

afterAll(async () => {
  await stop();
  removeFolders();
});

function script(name: string, text: string): string {
  const path = join(SCRIPTS, name);
  writeFileSync(path, text);
  return path;
}

const labelled = (transaction: string, command: string) =>
  `printf "KREPLAY1 txn=${transaction}" > /dev/null; exec ${command}`;

/** Runs a command as its own process, under a label. */
function as(transaction: string, command: string): void {
  bash(labelled(transaction, command));
}

/** Files of one transaction. */
const WAITING = Array.from({ length: 32 }, (_, i) => `waiting-${i}`);

interface Case {
  /** The type for mkfs, and its options. */
  fileSystem: string;
  sizeMiB?: number;
  /** Runs before anything is recorded. */
  prepare?(folder: string): void;
  run(folder: string): void;
  /** The owner of each block, by file. */
  owners: Readonly<Record<string, (block: number) => string | undefined>>;
  expected: Partial<Account>;
}

/**
 * Two writers of neighbouring blocks of one file, whose pages are in memory already, many to a folio. The last writer
 * leaves the write-back to the kernel, or one of the two syncs the file.
 */
function neighbours(
  fileSystem: string,
  filled: 'written' | 'read',
  expected: Case['expected'],
  syncer?: 'A' | 'B',
): Case {
  const [FIRST, COUNT] = [256, 32];
  const isTheirs = (block: number) => block >= FIRST && block < FIRST + 2 * COUNT;
  return {
    fileSystem,
    prepare(folder) {
      run('dd', ['if=/dev/zero', `of=${folder}/t`, 'bs=4M', 'count=16', 'status=none']);
      run('sync', ['-f', folder]);
      if (filled === 'read') {
        run('sh', ['-c', 'echo 1 > /proc/sys/vm/drop_caches']);
        run('cat', [`${folder}/t`], { stdio: 'ignore' });
      }
    },
    run(folder) {
      const a = `python3 ${WRITER} ${folder}/t ${FIRST} 2 ${COUNT}`;
      const b = `python3 ${WRITER} ${folder}/t ${FIRST + 1} 2 ${COUNT}`;
      if (syncer === 'A') return as('A', `${a} '${labelled('B', b)}'`);
      as('A', a);
      as('B', syncer === 'B' ? `${b} true` : b);
    },
    owners: { t: (block) => (isTheirs(block) ? (block % 2 === 0 ? 'A' : 'B') : undefined) },
    expected,
  };
}

const CASES: Readonly<Record<string, Case>> = {
  'ext4, folios of a file that was written in large pieces': neighbours('ext4', 'written', { shared: 64 }),
  'ext4, folios of a file that was read ahead': neighbours('ext4', 'read', { shared: 64 }),
  'XFS, folios of a file that was written in large pieces': neighbours('xfs', 'written', {}),
  'XFS, folios of a file that was read ahead': neighbours('xfs', 'read', {}),
  'XFS, folios that the first writer syncs': neighbours('xfs', 'written', {}, 'A'),
  'XFS, folios that the second writer syncs': neighbours('xfs', 'written', {}, 'B'),
  'ext4, folios that the first writer syncs': neighbours('ext4', 'written', { shared: 64 }, 'A'),
  'ext4, folios that the second writer syncs': neighbours('ext4', 'written', { shared: 64 }, 'B'),
  'btrfs, folios of a file that was written in large pieces': neighbours('btrfs', 'written', {}),
  'btrfs, folios of a file that was read ahead': neighbours('btrfs', 'read', {}),
  'an encrypted file that another process syncs': {
    fileSystem: 'ext4 -O encrypt',
    prepare: (folder) => run('python3', [ENCRYPT, folder]),
    run(folder) {
      as('enA', `python3 ${WRITER} ${folder}/e/f 0 1 1024`);
      as('enB', `python3 -c "import os; os.fsync(os.open('${folder}/e/f', os.O_RDONLY))"`);
    },
    owners: { 'e/f': () => 'enA' },
    expected: { right: 1024 },
  },
  'an encrypted file that the kernel writes back': {
    fileSystem: 'ext4 -O encrypt',
    prepare: (folder) => run('python3', [ENCRYPT, folder]),
    run: (folder) => as('enA', `python3 ${WRITER} ${folder}/e/f 0 1 1024`),
    owners: { 'e/f': () => 'enA' },
    expected: { right: 1024 },
  },
  "a direct write out of a map of another process's dirty pages": {
    fileSystem: 'ext4',
    run(folder) {
      as('mapA', `python3 ${MAPPED} store ${folder}/source`);
      as('dioB', `python3 ${MAPPED} load ${folder}/source ${folder}/target`);
    },
    owners: { source: () => 'mapA', target: () => 'dioB' },
    expected: { right: 512 },
  },
  'one transaction of eight processes': {
    fileSystem: 'ext4',
    run: (folder) =>
      bash(
        `printf 'KREPLAY1 txn=many' > /dev/null; for i in 0 1 2 3 4 5 6 7; do` +
          ` dd if=/dev/zero of=${folder}/f bs=4k count=1 seek=$i conv=notrunc status=none; done`,
      ),
    owners: { f: () => 'many' },
    expected: { right: 8 },
  },
  'pages that stay dirty while others write more than half a gigabyte': {
    fileSystem: 'ext4',
    sizeMiB: 2048,
    run(folder) {
      as('kept', `python3 ${WRITER} ${folder}/kept 0 1 12800`);
      for (let part = 0; part < 9; part++) {
        const options = 'bs=64k count=1280 conv=notrunc,fsync status=none';
        as('other', `dd if=/dev/zero of=${folder}/other ${options} seek=${part * 1280}`);
      }
    },
    owners: { kept: () => 'kept' },
    expected: { right: 12_800 },
  },
  'files that wait for their write-back while thousands of other files are mapped': {
    fileSystem: 'ext4',
    run(folder) {
      const files = WAITING.map((name) => `${folder}/${name}`).join(' ');
      as('waiting', `tee ${files} < ${WRITER} > /dev/null`);
      run('python3', [MAP_FILES, folder, '10000']);
    },
    owners: Object.fromEntries(WAITING.map((name) => [name, () => 'waiting'])),
    expected: { right: WAITING.length },
  },
  'pages of files that were removed before they were written back, used again': {
    fileSystem: 'ext4',
    run(folder) {
      for (let round = 0; round < 20; round++) {
        as(`gone-${round}`, `python3 ${WRITER} ${folder}/gone 0 1 64`);
        run('rm', [`${folder}/gone`]);
        as('heir', `python3 ${WRITER} ${folder}/heir ${round * 64} 1 64`);
      }
    },
    owners: { heir: () => 'heir' },
    expected: { right: 1280 },
  },
  'pages that were truncated while they were dirty, written again by another process': {
    fileSystem: 'ext4',
    run(folder) {
      as('first', `python3 ${WRITER} ${folder}/f 0 1 256`);
      run('truncate', ['-s', '0', `${folder}/f`]);
      as('second', `python3 ${WRITER} ${folder}/f 0 1 256`);
    },
    owners: { f: () => 'second' },
    expected: { right: 256 },
  },
};

const endOf = ({ timestamp_ns, duration_ns }: BlockIoEvent) => timestamp_ns + BigInt(duration_ns);

function writesTo(recorded: Recorded, device: LoopDevice): BlockIoEvent[] {
  return recorded
    .blockIos()
    .filter((request) => request.device === device.name && request.operation === 'write')
    .sort((a, b) => (endOf(a) < endOf(b) ? -1 : 1));
}

const table: Record<string, Account> = {};
afterAll(() => {
  if (process.env.TRUTH) process.stderr.write(`${JSON.stringify(table, undefined, 1)}\n`);
});

/** Share of the blocks that must be seen whatever is lost. */
const SEEN_SHARE_MIN = 0.5;
const BLOCK_KIBIBYTES = 4;

/** Most blocks that the counted losses hide: the kernel may hide a request's end on a busy host, with all its blocks. */
function hiddenBlocks(losses: readonly NodeLoss[], device: LoopDevice): number {
  const requestKibibytes = Number(readFileSync(`/sys/block/${device.name}/queue/max_sectors_kb`, 'utf8'));
  return losses.reduce((blocks, { lost }) => blocks + (lost * requestKibibytes) / BLOCK_KIBIBYTES, 0);
}

test.each(Object.entries(CASES))(
  '%s',
  async (name, { fileSystem, sizeMiB = 512, prepare, run: work, owners, expected }) => {
    const device = loopDevice(sizeMiB);
    try {
      const [type, ...options] = fileSystem.split(' ');
      run(`mkfs.${type}`, [
        '-q',
        ...(type === 'ext4' ? ['-F', '-E', 'lazy_itable_init=0'] : ['-f']),
        ...options,
        device.path,
      ]);
      run('mount', [device.path, device.mountPoint]);
      prepare?.(device.mountPoint);
      run('sync', ['-f', device.mountPoint]);
      const recorded = await record(() => {
        work(device.mountPoint);
        run('sync', ['-f', device.mountPoint]);
      });
      const truth = new Map<number, string>();
      for (const [file, ownerOf] of Object.entries(owners)) {
        for (const [block, at] of blocksOf(join(device.mountPoint, file))) {
          const owner = ownerOf(at);
          if (owner !== undefined) truth.set(block, owner);
        }
      }
      const requests = writesTo(recorded, device);
      const account = accountOf(truth, requests);
      table[name] = account;
      expect(truth.size).toBeGreaterThan(0);
      expect([account.wrong, overcharged(truth, requests)]).toEqual([0, 0]);
      const hidden = Math.min(hiddenBlocks(recorded.losses(), device), truth.size * (1 - SEEN_SHARE_MIN));
      expect(account.unseen).toBeLessThanOrEqual(hidden);
      const { unseen, ...others } = account;
      const missing = Object.entries(expected).filter(
        ([verdict, count]) => others[verdict as keyof typeof others] < count - hidden - unseen,
      );
      expect([missing, account]).toEqual([[], account]);
      if (Object.keys(expected).length > 0) expect(account).toMatchObject({ ambiguous: 0, unknown: 0 });
      for (const request of requests) {
        const sum = request.origins.reduce((bytes, origin) => bytes + BigInt(origin.bytes), 0n);
        if (request.unnamed_bytes !== null) expect(sum + BigInt(request.unnamed_bytes)).toBe(BigInt(request.bytes));
      }
    } finally {
      device.remove();
    }
  },
  120_000,
);

test('a journal names no owner from a file system that had the same device number before', async () => {
  const device = loopDevice(200);
  const windows: { transaction: string; from: bigint; to: bigint }[] = [];
  let recorded: Recorded;
  try {
    recorded = await record(async () => {
      for (const transaction of ['first', 'second', 'third']) {
        const from = wallClockNs();
        run('mkfs.ext4', ['-q', '-F', '-E', 'lazy_itable_init=0', device.path]);
        run('mount', [device.path, device.mountPoint]);
        const one = `${device.mountPoint}/$i`;
        as(transaction, `sh -c 'for i in $(seq 10); do echo x > ${one}; sync ${one}; done'`);
        await device.unmount();
        windows.push({ transaction, from, to: wallClockNs() });
      }
    });
  } finally {
    device.remove();
  }
  const requests = writesTo(recorded, device).filter(({ comm }) => comm.startsWith('jbd2/'));
  for (const { transaction, from, to } of windows) {
    const own = requests.filter(({ timestamp_ns }) => timestamp_ns >= from && timestamp_ns < to);
    const named = own.flatMap((request) => request.origins.map((origin) => origin.transaction_id ?? 'nobody'));
    expect(named).toContain(transaction);
    expect([...new Set(named)].filter((id) => ![transaction, 'nobody'].includes(id))).toEqual([]);
  }
});
