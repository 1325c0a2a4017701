/**
 * No transaction is charged for more than it wrote: not for what others wrote to the same pages, not for what a file
 * system keeps for itself, not for a journal that others took part in. The programs know how much they wrote.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BlockIoEvent } from '../../../bpf/schema/api.ts';
import { loopDevice } from '../loop_device.ts';
import { bash, run } from '../programs.ts';
import { newRecorder, record, removeFolders, temporaryFolder } from '../recorded_run.ts';

const PAGE_BYTES = 4096;
const PROGRAM = join(temporaryFolder(), 'program.py');

/** The steps that labelled programs take in the mounted folder. */
const STEPS = `
import mmap, os, subprocess, sys, threading, time
step, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
path = folder + '/f'

def label(text):
    null = os.open('/dev/null', os.O_WRONLY)
    os.write(null, b'KREPLAY1 ' + text)
    os.close(null)

def open_file(flags=0):
    return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)

def write_pages():
    file = open_file()
    for page in range(count): os.pwrite(file, b'x' * 4096, page * 4096)

def write_pages_and_sync():
    write_pages()
    os.fsync(open_file())

def append():
    os.write(open_file(os.O_APPEND), b'x' * count)

def store():
    file = open_file()
    stores = mmap.mmap(file, count * 4096)
    for page in range(count): stores[page * 4096] = 1
    stores.flush()

def stores_of_two():
    file = open_file()
    os.posix_fallocate(file, 0, count * 4096)
    stores = mmap.mmap(file, count * 4096)
    for name in (b'txn=one', b'txn=two'):
        label(name)
        for page in range(count): stores[page * 4096 + len(name)] = 1
    label(b'end')

def write_parts():
    file = open_file()
    for page in range(count): os.pwrite(file, b'x' * 512, page * 4096)

def store_over():
    file = open_file()
    stores = mmap.mmap(file, os.fstat(file).st_size)
    for page in range(count): stores[page * 4096:page * 4096 + 4096] = b'y' * 4096
    stores.close()

def fault_in_a_call(how):
    write_pages_and_sync()
    stores = mmap.mmap(open_file(), count * 4096)
    label(b'txn=A')
    if how == 'populate': stores.madvise(23) # MADV_POPULATE_WRITE
    zero = open('/dev/zero', 'rb', buffering=0)
    for page in range(count):
        if how == 'read': zero.readinto(memoryview(stores)[page * 4096:page * 4096 + 1])
    label(b'txn=B')
    for page in range(count): stores[page * 4096:page * 4096 + 4096] = b'y' * 4096
    label(b'end')

def data_in_a_commit():
    # Data that a kernel thread writes to a file: nobody's.
    image = folder + '/image'
    with open(image, 'w') as file: file.truncate(count * 4096)
    device = subprocess.check_output(['losetup', '--find', '--show', image], text=True).strip()
    file, data = os.open(device, os.O_WRONLY | os.O_DIRECT), mmap.mmap(-1, 1 << 20)
    for at in range(0, count * 4096, 1 << 20): os.pwritev(file, [data], at)
    # Ends a commit that these data belong to.
    label(b'txn=A')
    write_and_sync()
    label(b'end')
    os.close(file)
    subprocess.check_call(['losetup', '--detach', device])

def populate(): fault_in_a_call('populate')

def read(): fault_in_a_call('read')

def create():
    for i in range(count): os.close(os.open(f'{folder}/{sys.argv[4]}{i}', os.O_WRONLY | os.O_CREAT))

def make_folders():
    for i in range(count): os.mkdir(f'{folder}/d{i}')

def rename():
    for i in range(count): os.rename(f'{folder}/a{i}', f'{folder}/b{i}')

def write_and_sync():
    file = os.open(folder + '/g', os.O_WRONLY | os.O_CREAT)
    os.write(file, b'x' * count)
    os.fsync(file)

def after_the_end():
    file = open_file()
    labelled, ended = threading.Event(), threading.Event()
    def work():
        os.pwrite(file, b'x' * 4096, 0)
        labelled.set()
        ended.wait()
        for page in range(1, count): os.pwrite(file, b'x' * 4096, page * 4096)
    label(b'txn=A')
    worker = threading.Thread(target=work)
    worker.start()
    labelled.wait()
    label(b'end')
    ended.set()
    worker.join()

globals()[step]()
`;

type Step = [transaction: string | undefined, step: string, count: number, name?: string];

interface Case {
  /** The type for mkfs, and its options. */
  fileSystem: string;
  mountOptions?: string;
  /** These steps are not recorded. */
  before?: readonly Step[];
  /** The data of the steps before is synced to the disk before the recording begins. */
  isSynced?: boolean;
  /** The agent starts after the steps before. */
  startsLate?: boolean;
  steps: readonly Step[];
  /** How many bytes each transaction wrote. */
  wrote: Readonly<Record<string, number>>;
  /** Judges only the journal's requests, or all others; all of them by default. */
  of?: 'journal' | 'others';
  /** Counts what is reported as possibly shared with others as well. */
  evenUnsure?: boolean;
}

const CASES: Readonly<Record<string, Case>> = {
  'XFS: two writers append to one page': {
    fileSystem: 'xfs',
    steps: [
      ['A', 'append', 100],
      ['B', 'append', 100],
    ],
    wrote: { A: 0, B: 0 },
  },
  'btrfs: two writers append to one page': {
    fileSystem: 'btrfs',
    steps: [
      ['A', 'append', 100],
      ['B', 'append', 100],
    ],
    wrote: { A: 0, B: 0 },
    of: 'others',
  },
  'ext4: two writers append to one page': {
    fileSystem: 'ext4',
    steps: [
      ['A', 'append', 100],
      ['B', 'append', 100],
    ],
    wrote: { A: 0, B: 0 },
    of: 'others',
  },
  'two transactions of a process that stores to a map': {
    fileSystem: 'ext4',
    steps: [[undefined, 'stores_of_two', 16]],
    wrote: { one: 0, two: 0 },
    of: 'others',
  },
  ...Object.fromEntries(
    ['ext4', 'ext4 nodelalloc', 'ext3', 'ext2', 'xfs', 'btrfs'].flatMap((name) => {
      const [fileSystem, mountOptions] = name.split(' ') as [string, string?];
      const common = { fileSystem, ...(mountOptions && { mountOptions }), of: 'others', evenUnsure: true } as const;
      // A task that changes the times of a file changes a block of inodes, which is written like data without a journal.
      const inode = name === 'ext2' ? PAGE_BYTES : 0;
      const stored: Case = {
        ...common,
        before: [[undefined, 'write_pages', 16]],
        isSynced: true,
        steps: [
          ['A', 'write_parts', 16],
          ['B', 'store_over', 16],
        ],
        wrote: { A: inode, B: 16 * PAGE_BYTES + inode },
      };
      const written: Case = {
        ...common,
        before: [[undefined, 'write_pages', 16]],
        isSynced: true,
        steps: [
          ['B', 'store_over', 16],
          ['A', 'write_parts', 16],
        ],
        wrote: { A: 16 * 512 + inode, B: 16 * (PAGE_BYTES - 512) + inode },
        // btrfs does not show who writes to a page that is dirty already.
        evenUnsure: name !== 'btrfs',
      };
      const filled = (step: string): Case => ({ ...common, steps: [[undefined, step, 64]], wrote: { A: inode } });
      return [
        [`${name}: pages that a store through a map replaces after a write to them`, stored],
        [`${name}: pages that a write changes after a store through a map`, written],
        [`${name}: pages of a map that another transaction has populated`, filled('populate')],
        [`${name}: pages of a map that another transaction has read into`, filled('read')],
      ];
    }),
  ),
  'trees of btrfs that the next writer to sync commits': {
    fileSystem: 'btrfs',
    steps: [
      ['A', 'create', 300, 'a'],
      ['B', 'write_and_sync', PAGE_BYTES],
    ],
    wrote: { A: 0, B: PAGE_BYTES },
    evenUnsure: true,
  },
  ...Object.fromEntries(
    ['ext4 nodelalloc', 'xfs', 'btrfs'].map((name) => {
      const [fileSystem, mountOptions] = name.split(' ') as [string, string?];
      const stored: Case = {
        fileSystem,
        ...(mountOptions && { mountOptions }),
        before: [[undefined, 'write_pages', 256]],
        isSynced: true,
        steps: [
          ['A', 'write_pages_and_sync', 256],
          ['B', 'store', 256],
        ],
        wrote: { A: 256 * PAGE_BYTES, B: 256 * PAGE_BYTES },
        of: 'others',
        evenUnsure: true,
      };
      return [`${name}: pages that were written back, and then changed through a map by another writer`, stored];
    }),
  ),
  'the log of XFS, written by the next writer to sync': {
    fileSystem: 'xfs',
    steps: [
      ['A', 'create', 300, 'a'],
      ['B', 'write_and_sync', PAGE_BYTES],
    ],
    wrote: { A: 0, B: PAGE_BYTES },
  },
  'fast commits of ext4, written by the next writer to sync': {
    fileSystem: 'ext4 -O fast_commit',
    before: [[undefined, 'create', 50, 'a']],
    isSynced: true,
    steps: [
      ['A', 'rename', 50],
      ['B', 'write_and_sync', PAGE_BYTES],
    ],
    wrote: { A: 0, B: PAGE_BYTES },
    of: 'others',
  },
  'blocks of a journal that the next writer to need its space writes': {
    fileSystem: 'ext4 -J size=4',
    steps: [
      ['A', 'make_folders', 3000],
      ['B', 'create', 20_000, 'b'],
    ],
    wrote: { A: 0, B: 0 },
    of: 'others',
  },
  'a transaction of the journal that began before the agent looked': {
    fileSystem: 'ext4',
    mountOptions: 'commit=60',
    before: [['A', 'create', 500, 'a']],
    startsLate: true,
    steps: [['B', 'create', 1, 'b']],
    wrote: { A: 0, B: 0 },
    of: 'journal',
  },
  "pages that a thread wrote after the end of its creator's transaction": {
    fileSystem: 'ext4',
    steps: [[undefined, 'after_the_end', 16]],
    wrote: { A: PAGE_BYTES },
    of: 'others',
  },
};

/** Cases are told apart by their time and the device. */
const shared = newRecorder();

beforeAll(() => writeFileSync(PROGRAM, STEPS));
afterAll(async () => {
  await shared.stop();
  removeFolders();
});

function take([transaction, step, count, name = '']: Step, folder: string): void {
  const label = transaction ? `printf 'KREPLAY1 txn=${transaction}' > /dev/null; ` : '';
  bash(`${label}exec python3 ${PROGRAM} ${step} ${folder} ${count} ${name}`);
}

/** Bytes that are reported as a transaction's alone. */
function charged(requests: readonly BlockIoEvent[], transaction: string, evenUnsure: boolean): number {
  return requests
    .filter(({ attribution }) => evenUnsure || attribution.quality !== 'ambiguous')
    .flatMap(({ origins }) => origins.filter(({ transaction_id }) => transaction_id === transaction))
    .reduce((sum, { bytes }) => sum + Number(bytes), 0);
}

test.each(Object.entries(CASES))(
  '%s',
  async (
    _name,
    { fileSystem, mountOptions = 'defaults', before = [], isSynced, startsLate, steps, wrote, of, ...rest },
  ) => {
    const device = loopDevice(512);
    try {
      const [type, ...options] = fileSystem.split(' ');
      const quiet = type!.startsWith('ext') ? ['-q', '-F', '-E', 'lazy_itable_init=0'] : ['-q', '-f'];
      run(`mkfs.${type}`, [...quiet, ...options, device.path]);
      run('mount', ['-o', mountOptions, device.path, device.mountPoint]);
      for (const step of before) take(step, device.mountPoint);
      if (isSynced) run('sync', ['-f', device.mountPoint]);
      const recorded = await (startsLate ? record : shared.record)(() => {
        for (const step of steps) take(step, device.mountPoint);
        run('sync', ['-f', device.mountPoint]);
      });
      const requests = recorded
        .blockIos()
        .filter((request) => request.device === device.name && request.operation === 'write')
        .filter(({ comm }) => of === undefined || comm.startsWith('jbd2/') === (of === 'journal'));
      expect(requests.length).toBeGreaterThan(0);
      const over = Object.entries(wrote).map(([transaction, bytes]) => [
        transaction,
        Math.max(0, charged(requests, transaction, rest.evenUnsure ?? false) - bytes),
      ]);
      expect(over).toEqual(Object.keys(wrote).map((transaction) => [transaction, 0]));
    } finally {
      device.remove();
    }
  },
  240_000,
);

test("data that a journal's commit writes first is not of those who took part in it", async () => {
  const PAGES = 4096;
  const device = loopDevice(512);
  try {
    run('mkfs.ext4', ['-q', '-F', '-E', 'lazy_itable_init=0', device.path]);
    run('mount', ['-o', 'nodelalloc', device.path, device.mountPoint]);
    const recorded = await shared.record(() => take([undefined, 'data_in_a_commit', PAGES], device.mountPoint));
    const requests = recorded.blockIos().filter((one) => one.device === device.name && one.operation === 'write');
    const bytesOf = (some: readonly BlockIoEvent[]) => some.reduce((sum, { bytes }) => sum + Number(bytes), 0);
    expect(bytesOf(requests.filter(({ comm }) => comm.startsWith('jbd2/')))).toBeGreaterThan(PAGES * PAGE_BYTES);
    const named = requests.filter(({ origins }) => origins.some(({ transaction_id }) => transaction_id === 'A'));
    expect(named.length).toBeGreaterThan(0);
    expect(bytesOf(named)).toBeLessThan((PAGES * PAGE_BYTES) / 4);
  } finally {
    device.remove();
  }
});

test('data that a store through a map may have replaced has no owner, also in a request of a kernel thread', async () => {
  const PAGES = 16;
  const device = loopDevice(64);
  try {
    run('mkfs.ext4', ['-q', '-F', '-E', 'lazy_itable_init=0', device.path]);
    run('mount', ['-o', 'nodelalloc', device.path, device.mountPoint]);
    take([undefined, 'write_pages', PAGES], device.mountPoint);
    run('sync', ['-f', device.mountPoint]);
    const recorded = await shared.record(() => {
      take(['A', 'write_parts', PAGES], device.mountPoint);
      take(['B', 'store_over', PAGES], device.mountPoint);
      run('sync', ['-f', device.mountPoint]);
    });
    const requests = recorded
      .blockIos()
      .filter(
        ({ device: name, operation, comm }) => name === device.name && operation === 'write' && /kworker/.test(comm),
      )
      .filter(({ origins }) => origins.some(({ transaction_id }) => transaction_id === 'A'));
    expect(requests.length).toBeGreaterThan(0);
    for (const { bytes, unnamed_bytes, transaction_id, service_name, attribution, origins } of requests) {
      expect({ unnamed_bytes, transaction_id, service_name, quality: attribution.quality }).toEqual({
        unnamed_bytes: bytes,
        transaction_id: null,
        service_name: 'unknown',
        quality: 'ambiguous',
      });
      expect(origins.map((origin) => [origin.transaction_id, origin.bytes])).toEqual([['A', 0n]]);
    }
  } finally {
    device.remove();
  }
});
