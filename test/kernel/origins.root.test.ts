/**
 * The owner of data on the disk: each block names its writer, and is read back from the disk. Whatever the kernel does
 * on the way, no block may be charged to another transaction.
 */
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BlockIoEvent, SysSyncEvent } from '../../bpf/schema/api.ts';
import { parseJson } from '../../daemon/base/exact_json.ts';
import { served } from '../daemon/served.ts';
import { times } from '../repeats.ts';
import { type TruthTable, truthOf } from './disk_truth.ts';
import { type LoopDevice, loopDevice } from './loop_device.ts';
import { bash, compileProgram, run } from './programs.ts';
import { newRecorder, type Recorded, record, removeFolders, temporaryFolder } from './recorded_run.ts';
import { withSysctl } from './sysctl.ts';

const WRITER = join(import.meta.dirname, 'patterned_writes.py');

let disk: LoopDevice;

beforeEach(() => {
  disk = loopDevice(512);
});

afterEach(() => disk.remove());

const folder = temporaryFolder();

/** The agent of all tests here that need no options. */
const shared = newRecorder();

afterAll(async () => {
  await shared.stop();
  removeFolders();
});

interface Scenario {
  recorded: Recorded;
  /** Requests to the disk, in the order of their ends. */
  writes: BlockIoEvent[];
  truth: TruthTable;
}

/** Runs `workload` on a fresh file system of the disk, and writes everything back before the recording ends. */
async function onFresh(
  workload: () => void | Promise<void>,
  { type = 'ext4', flags, options = [] }: { type?: string; flags?: string[]; options?: string[] } = {},
): Promise<Scenario> {
  run(`mkfs.${type}`, [
    '-q',
    ...(type === 'ext4' ? ['-F', '-E', 'lazy_itable_init=0'] : ['-f']),
    ...options,
    disk.path,
  ]);
  run('mount', [disk.path, disk.mountPoint]);
  const work = async () => {
    await workload();
    run('sync', ['-f', disk.mountPoint]);
  };
  const recorded = await (flags ? record(work, flags) : shared.record(work));
  run('umount', [disk.mountPoint]);
  const endOf = (request: BlockIoEvent) => request.timestamp_ns + BigInt(request.duration_ns);
  const writes = recorded
    .blockIos()
    .filter(({ device, operation }) => device === disk.name && operation === 'write')
    .sort((a, b) => (endOf(a) < endOf(b) ? -1 : 1));
  return { recorded, writes, truth: truthOf(disk.path, writes) };
}

/** The command of a writer, which is its own process; `file` is in the file system. */
function writer(file: string, transaction: string, how: string, { first = 0, count = 256, step = 1 } = {}): string {
  return ['python3', WRITER, join(disk.mountPoint, file), transaction, how, first, count, step].join(' ');
}

/** Transactions of each of eight processes: many more than a request can name. */
const TRANSACTIONS = times(10);

/** Time limit of hundreds of processes on a busy host. */
const SLOW_MS = 180_000;

/** On a busy host, the kernel hides the ends of some requests in a burst. */
const RIGHT_SHARE_MIN = 0.9;

/** Nothing is wrong, and all is right except for requests whose end the kernel did not show: these are counted. */
function expectRight({ truth, recorded }: Scenario, blocks: number): void {
  const { right, ...others } = truth;
  expect(others).toEqual({ shared: 0, none: 0, wrong: 0, doubtful: [] });
  expectCount(right, blocks, recorded);
}

function expectCount(found: number, blocks: number, recorded: Recorded): void {
  expect(found).toBeLessThanOrEqual(blocks);
  expect(found).toBeGreaterThanOrEqual(recorded.losses().length > 0 ? blocks * RIGHT_SHARE_MIN : blocks);
}

test.each([
  ['ext4', 'exact'],
  // XFS and btrfs do not show which task writes to a page that is dirty already.
  ['xfs', 'ambiguous'],
  ['btrfs', 'ambiguous'],
])('%s: direct, synced by the writer, synced by another, and mapped', async (type, quality) => {
  const scenario = await onFresh(
    () => {
      run('sh', ['-c', writer('direct', 'direct', 'direct')]);
      run('sh', ['-c', writer('fsync', 'fsync', 'fsync', { count: 64 })]);
      run('sh', ['-c', writer('buffered', 'buffered', 'write', { count: 512 })]);
      run('sh', ['-c', writer('mapped', 'mapped', 'mmap')]);
    },
    { type },
  );
  expectRight(scenario, 256 + 64 + 512 + 256);
  const { writes } = scenario;
  const byKernel = writes.filter(
    ({ comm, transaction_id }) => transaction_id === 'buffered' && /^kworker|^sync/.test(comm),
  );
  expect(byKernel.length).toBeGreaterThan(0);
  for (const { attribution, service_name } of byKernel) {
    expect([attribution, service_name]).toEqual([{ source: 'origin', quality }, 'patterned_writes']);
  }
});

test.each([1024, 2048])('blocks of %i bytes, of which a page has several, have owners of their own', async (block) => {
  const PAGES = 9;
  const put = (file: string, transaction: string, from: number, size: number) =>
    bash(`echo 'KREPLAY1 txn=${transaction}' > /dev/null; exec python3 -c '
import os
file = os.open("${join(disk.mountPoint, file)}", os.O_RDWR | os.O_CREAT)
for page in range(${PAGES}): os.pwrite(file, b"x" * ${size}, page * 8192 + ${from})'`);
  const sync = () => run('sync', ['-f', disk.mountPoint]);
  const { writes, recorded } = await onFresh(
    () => {
      for (const file of ['stale', 'beside', 'over'])
        bash(`dd if=/dev/zero of=${disk.mountPoint}/${file} bs=1M count=1 status=none`);
      sync();
      // A block whose neighbour was written, and synced, long ago.
      put('stale', 'before', 0, block);
      sync();
      put('stale', 'now', block, block);
      // Two blocks of a page at the same time, and one that both have written to.
      put('beside', 'left', 0, block);
      put('beside', 'right', block, block);
      put('over', 'under', 0, 2 * block);
      put('over', 'above', block, block);
      // Data that never reaches the disk.
      put('gone', 'discarded', 0, 4096);
      bash(`truncate -s 0 ${disk.mountPoint}/gone`);
      put('gone', 'rewritten', 0, 4096);
      sync();
    },
    { options: ['-b', String(block)] },
  );
  const data = writes.filter(({ comm }) => !comm.startsWith('jbd2/'));
  const bytes = (name: string) =>
    data
      .flatMap(({ origins }) => origins.filter(({ transaction_id }) => transaction_id === name))
      .reduce((sum, origin) => sum + Number(origin.bytes), 0) / PAGES;
  if (recorded.losses().length > 0) return;
  expect(
    Object.fromEntries(
      ['before', 'now', 'left', 'right', 'under', 'above', 'discarded', 'rewritten'].map((name) => [name, bytes(name)]),
    ),
  ).toEqual({
    ...{ before: block, now: block, left: block, right: block },
    ...{ under: block, above: 0, discarded: 0, rewritten: 4096 },
  });
});

test.each([['4M'], ['64k'], ['4k']])(
  'XFS: pages of a file made in pieces of %s, whose folios are as large',
  async (piece) => {
    const WRITERS = 8;
    const PAGES = 40;
    const file = () => join(disk.mountPoint, 'f');
    const scenario = await onFresh(
      () => {
        bash(
          `dd if=/dev/zero of=${file()} bs=${piece} count=$((8388608 / $(numfmt --from=iec ${piece.toUpperCase()}))) status=none`,
        );
        run('sync', ['-f', disk.mountPoint]);
        // No two of them are beside each other: each is a request of its own.
        const writers = Array.from({ length: WRITERS }, (_, i) =>
          writer('f', `w${i}`, 'write', { first: 2 * i, count: PAGES, step: 2 * WRITERS }),
        );
        for (const command of writers) run('sh', ['-c', command]);
        // Its own request is queued in its call, among pages that others have made dirty.
        run('sh', ['-c', writer('f', 'synced', 'fsync', { first: 2001, count: 1 })]);
        // Data that was discarded before it reached the disk is nobody's when others write there.
        run('sh', ['-c', writer('g', 'discarded', 'write', { count: 16 })]);
        bash(`truncate -s 0 ${disk.mountPoint}/g`);
        run('sh', ['-c', writer('g', 'rewritten', 'write', { count: 16 })]);
        // The same pages in turn; one of them has two owners at first.
        for (const name of ['r0', 'r1', 'r2', 'r3']) {
          run('sh', ['-c', writer('h', name, 'write', { count: 4 })]);
          if (name === 'r0') run('sh', ['-c', writer('h', 'over', 'write', { count: 1 })]);
          run('sync', ['-f', disk.mountPoint]);
        }
      },
      { type: 'xfs' },
    );
    expectRight(scenario, WRITERS * PAGES + 1 + 16 + 4);
    const bytes = (name: string) =>
      scenario.writes
        .flatMap(({ origins }) => origins.filter(({ transaction_id }) => transaction_id === name))
        .reduce((sum, origin) => sum + Number(origin.bytes), 0);
    if (scenario.recorded.losses().length > 0) return;
    expect(['w0', 'w7', 'synced', 'discarded', 'rewritten', 'r0', 'over', 'r1', 'r2', 'r3'].map(bytes)).toEqual(
      [PAGES, PAGES, 1, 0, 16, 3, 0, 4, 4, 4].map((pages) => pages * 4096),
    );
  },
);

test("the kernel's flusher writes back old pages long after their writers have exited", async () => {
  const scenario = await onFresh(() =>
    withSysctl({ 'vm/dirty_expire_centisecs': '100', 'vm/dirty_writeback_centisecs': '50' }, async () => {
      for (const name of ['a', 'b', 'c', 'd']) run('sh', ['-c', writer(name, `old-${name}`, 'write', { count: 1024 })]);
      await sleep(3000);
    }),
  );
  expectRight(scenario, 4096);
  const { writes } = scenario;
  const data = writes.filter(({ transaction_id }) => transaction_id?.startsWith('old-'));
  expect(data.some(({ comm }) => comm.startsWith('kworker'))).toBe(true);
});

test('of two writers of one file each keeps its own blocks, and the second does not take over a dirty one', async () => {
  const { truth, recorded } = await onFresh(() => {
    run('sh', ['-c', writer('f', 'even', 'write', { count: 200, step: 2 })]);
    run('sh', ['-c', writer('f', 'odd', 'write', { first: 1, count: 200, step: 2 })]);
  });
  expectCount(truth.right + truth.shared, 400, recorded);
  expect({ none: truth.none, wrong: truth.wrong }).toEqual({ none: 0, wrong: 0 });
});

/** Each thread writes its own part of one page while all of them are there; the transaction's label is their process's. */
const THREADS = `
import os, sys, threading
file, count, label = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), int(sys.argv[2]), sys.argv[3]
if label: open("/dev/null", "w").write("KREPLAY1 proc txn=" + label)
start = threading.Barrier(count)
def write(at):
    start.wait()
    os.pwrite(file, b"x" * 16, at * 16)
    start.wait()
threads = [threading.Thread(target=write, args=(i,)) for i in range(count)]
for thread in threads: thread.start()
for thread in threads: thread.join()`;

/** The service of a script that is not in a file. */
const PYTHON = basename(realpathSync('/usr/bin/python3'));

test.each([2, 3, 4, 40])('%i threads of one process that write to one page are one owner', async (count) => {
  const labels = ['labelled', ''];
  const { writes } = await onFresh(() => {
    for (const label of labels) {
      run('python3', ['-c', THREADS, join(disk.mountPoint, `f${label}`), String(count), label]);
      run('sync', ['-f', disk.mountPoint]);
    }
  });
  const owners = writes
    .filter(({ comm, bytes }) => !comm.startsWith('jbd2/') && bytes === 4096n)
    .flatMap(({ origins, unnamed_bytes }) =>
      origins.map(({ service_name, transaction_id, bytes }) => [service_name, transaction_id, bytes, unnamed_bytes]),
    )
    .filter(([service]) => service === PYTHON);
  expect(owners).toEqual(labels.map((label) => [PYTHON, label || null, 4096n, 0n]));
});

test('any number of processes of one transaction are one owner, of a request and of a page', async () => {
  const PROCESSES = 40;
  const scenario = await onFresh(() => {
    for (let i = 0; i < PROCESSES; i++) run('sh', ['-c', writer('pages', 'many', 'write', { first: i, count: 1 })]);
    for (let i = 0; i < PROCESSES; i++)
      bash(`echo 'KREPLAY1 txn=one-page' > /dev/null; exec sh -c 'printf "<one-page>" >> ${disk.mountPoint}/page'`);
  });
  expectRight(scenario, PROCESSES + 1);
  const data = scenario.writes.filter(({ comm }) => !comm.startsWith('jbd2/'));
  const [pages, page] = ['many', 'one-page'].map((name) =>
    data.filter(({ transaction_id }) => transaction_id === name),
  );
  for (const { unnamed_bytes, attribution } of [...pages!, ...page!])
    expect([unnamed_bytes, attribution.quality]).toEqual([0n, 'exact']);
  const bytesOfTransaction = (requests: readonly BlockIoEvent[]) =>
    requests.flatMap(({ origins }) => origins).reduce((sum, { bytes }) => sum + Number(bytes), 0);
  if (scenario.recorded.losses().length > 0) return;
  expect([bytesOfTransaction(pages!), bytesOfTransaction(page!)]).toEqual([PROCESSES * 4096, 4096]);
});

test('a thread whose label has ended is no owner beside two processes that share its page and had the same label', async () => {
  const unlabelled = `
import os, sys, threading
file, null = os.open(sys.argv[1], os.O_WRONLY), os.open('/dev/null', os.O_WRONLY)
ended = threading.Event()
def write():
    ended.wait()
    os.pwrite(file, b'z' * 2048, 2048)
os.write(null, b'KREPLAY1 txn=same\\n')
thread = threading.Thread(target=write)
thread.start()
os.write(null, b'KREPLAY1 end\\n')
ended.set()
thread.join()`;
  const { writes } = await onFresh(() => {
    const page = join(disk.mountPoint, 'page');
    for (const text of ['first', 'second'])
      bash(`echo 'KREPLAY1 txn=same' > /dev/null; exec sh -c 'printf "<${text}>" >> ${page}'`);
    run('python3', ['-c', unlabelled, page]);
  });
  const requests = writes
    .filter(({ comm, origins }) => !comm.startsWith('jbd2/') && origins.some((one) => one.transaction_id === 'same'))
    .map(({ bytes, unnamed_bytes, transaction_id, attribution }) => ({
      bytes,
      unnamed_bytes,
      transaction_id,
      quality: attribution.quality,
    }));
  expect(requests).toEqual([{ bytes: 4096n, unnamed_bytes: 4096n, transaction_id: null, quality: 'shared' }]);
});

test('XFS: a write of megabytes owns all of its pages, which the same disk had written back for another owner', async () => {
  // Many more pages than get entries of their own in one write.
  const PAGES = 1024;
  const { writes, recorded } = await onFresh(
    () => {
      run('sh', ['-c', writer('f', 'before', 'write', { count: PAGES })]);
      run('sync', ['-f', disk.mountPoint]);
      bash(`echo 'KREPLAY1 txn=after' > /dev/null
        exec dd if=/dev/zero of=${disk.mountPoint}/f bs=${PAGES * 4096} count=1 conv=notrunc status=none`);
    },
    { type: 'xfs' },
  );
  const bytes = (name: string) =>
    writes
      .flatMap(({ origins }) => origins.filter(({ transaction_id }) => transaction_id === name))
      .reduce((sum, origin) => sum + Number(origin.bytes), 0);
  if (recorded.losses().length > 0) return;
  expect(['before', 'after'].map(bytes)).toEqual([PAGES * 4096, PAGES * 4096]);
});

test.each([
  ['the same page', 0, 4096n],
  ['the page before it', 4096, 8192n],
])('ext4: an owner that writes to %s after the file was mapped stays unsure', async (_which, offset, size) => {
  const mapped = `
import mmap, os, sys
file, null = os.open(sys.argv[1], os.O_RDWR), os.open('/dev/null', os.O_WRONLY)
os.write(null, b'KREPLAY1 txn=mapped\\n')
os.pwrite(file, b'x' * 4096, int(sys.argv[2]))
mmap.mmap(file, 8192).close()
os.pwrite(file, b'y' * 4096, 0)`;
  const { writes } = await onFresh(() => {
    const path = join(disk.mountPoint, 'f');
    bash(`dd if=/dev/zero of=${path} bs=8k count=1 status=none; sync -f ${path}`);
    run('python3', ['-c', mapped, path, String(offset)]);
  });
  const unsure = writes
    .filter(({ comm, origins }) => !comm.startsWith('jbd2/') && origins.some((one) => one.transaction_id === 'mapped'))
    .map(({ bytes, unnamed_bytes, attribution }) => ({ bytes, unnamed_bytes, quality: attribution.quality }));
  // Another process may have stored to the page that was written first through a mapping of its own.
  expect(unsure).toEqual([{ bytes: size, unnamed_bytes: 4096n, quality: 'ambiguous' }]);
});

test(
  'eight processes with many transactions each: a request of many owners is marked as shared',
  async () => {
    const { truth, writes, recorded } = await onFresh(() => {
      const processes = Array.from({ length: 8 }, (_, p) => {
        const writers = Array.from({ length: TRANSACTIONS }, (_, i) =>
          writer(`p${p}`, `t${p}-${i}`, 'write', { first: i * 4, count: 4 }),
        );
        return `(${writers.join('; ')}) &`;
      });
      bash(`${processes.join('\n')}\nwait`);
    });
    expect(truth.wrong).toBe(0);
    expectCount(truth.right + truth.shared + truth.none, 8 * TRANSACTIONS * 4, recorded);
    const many = writes.filter(({ attribution }) => attribution.quality === 'shared');
    expect(many.length).toBeGreaterThan(0);
    for (const { transaction_id, origins } of many) {
      expect(transaction_id).toBeNull();
      expect(origins.length).toBeGreaterThan(1);
    }
  },
  SLOW_MS,
);

const journalOf = (writes: readonly BlockIoEvent[]) => writes.filter(({ comm }) => comm.startsWith('jbd2/'));

test('the journal of one writer names that writer alone', async () => {
  const scenario = await onFresh(() => {
    run('sh', ['-c', writer('j', 'journal', 'fsync', { count: 200 })]);
  });
  expectRight(scenario, 200);
  const journal = journalOf(scenario.writes);
  const named = journal.filter(({ origins }) => origins.some(({ transaction_id }) => transaction_id === 'journal'));
  expect(bytesOf(named)).toBeGreaterThan(200 * 4096);
  // The rest belongs to mounting's and sync's own transactions.
  expect(bytesOf(named) / bytesOf(journal)).toBeGreaterThan(0.95);
  for (const { transaction_id, attribution, origins, bytes, unnamed_bytes } of named) {
    expect(origins.filter(({ transaction_id: other }) => other !== null && other !== 'journal')).toEqual([]);
    // A kernel thread that allocates blocks does so for data of any transaction.
    if (transaction_id === null) expect([attribution.quality, unnamed_bytes]).toEqual(['shared', bytes]);
    else expect(transaction_id).toBe('journal');
  }
});

test('the journal of eight writers names the participants of each commit', async () => {
  const names = Array.from({ length: 8 }, (_, i) => `w${i}`);
  const scenario = await onFresh(() => {
    bash(`${names.map((name) => `${writer(name, name, 'fsync', { count: 50 })} &`).join('\n')}\nwait`);
  });
  expectRight(scenario, 400);
  const { writes } = scenario;
  const journal = journalOf(writes);
  const named = new Set(journal.flatMap(({ origins }) => origins.map((origin) => origin.transaction_id)));
  expect([...named].filter((name) => name !== null).sort()).toEqual(names);
  for (const { transaction_id, origins, attribution } of journal) {
    if (new Set(origins.map((origin) => origin.transaction_id)).size > 1) {
      expect([transaction_id, attribution.quality]).toEqual([null, 'shared']);
    }
  }
});

test.each(['libaio', 'io_uring', 'psync', 'mmap'])('fio with %s', async (engine) => {
  const scenario = await onFresh(() => {
    const direct = engine === 'mmap' ? 0 : 1;
    bash(`
      echo 'KREPLAY1 txn=fio-job' > /dev/null
      fio --name=job --filename=${disk.mountPoint}/f --size=8M --rw=randwrite --bs=4k --iodepth=16 --direct=${direct} \\
        --ioengine=${engine} --buffer_pattern='"<fio-job>"' --output=/dev/null`);
  });
  expectRight(scenario, 2048);
});

test("the requests that an fsync queues are in its own transaction's queue, whatever data they carry", async () => {
  const file = join(disk.mountPoint, 'file');
  const { recorded } = await onFresh(() => {
    run('sh', ['-c', writer('file', 'writes', 'write', { count: 8192 })]);
    bash(`echo 'KREPLAY1 txn=syncs svc=syncer' > /dev/null; exec python3 -c '
import os
os.fsync(os.open("${file}", os.O_RDWR))'`);
  });
  const ended = ({ timestamp_ns, duration_ns }: { timestamp_ns: bigint; duration_ns: bigint }) =>
    timestamp_ns + BigInt(duration_ns);
  const [sync] = recorded.events({ transactionId: 'syncs', eventTypes: ['sys_sync'] }) as SysSyncEvent[];
  // Which thread queued them, and when, does not tell of transactions.
  const isWithin = ({ timestamp_ns }: { timestamp_ns: bigint }) =>
    timestamp_ns > sync!.timestamp_ns && timestamp_ns < ended(sync!);
  const within = recorded.blockIos().filter((request) => request.tid === sync!.tid && isWithin(request));
  const ofOthers = within.filter(({ transaction_id }) => transaction_id === 'writes');
  expect(ofOthers.length).toBeGreaterThan(4);
  for (const { queued_by, origins } of ofOthers) {
    expect(queued_by).toEqual({ service_name: 'syncer', transaction_id: 'syncs' });
    expect(origins.map((origin) => origin.transaction_id)).toEqual(['writes']);
  }
  const idsOf = (events: readonly { event_id: string }[]) => events.map(({ event_id }) => event_id).sort();
  // Before the fsync, the programs that start are read where they are not cached.
  const queued = recorded.events({ queuers: ['syncs'] });
  expect(idsOf(queued.filter(isWithin))).toEqual(idsOf(within));

  const clamp = (ns: bigint, from: bigint, to: bigint) => (ns < from ? from : ns > to ? to : ns);
  // The time in which one of them was under way is no time without requests.
  let [busyNs, reachedNs] = [0n, sync!.timestamp_ns];
  for (const request of within.toSorted((a, b) => (a.timestamp_ns < b.timestamp_ns ? -1 : 1))) {
    const [fromNs, toNs] = [request.timestamp_ns, ended(request)].map((ns) => clamp(ns, reachedNs, ended(sync!)));
    busyNs += toNs! - fromNs!;
    reachedNs = toNs!;
  }
  const daemon = await served(recorded.dataFolder);
  const ask = async (path: string) => parseJson((await daemon.get(path)).text) as Record<string, never>;
  const first = BigInt((await ask('/api/transactions/syncs')).first_timestamp_ns as never);
  const { selected } = await ask(`/api/differences?from=${first}&to=${first + 1n}&window_from=-1h`);
  const { count, breakdown } = selected as unknown as { count: number; breakdown: Record<string, number> };
  expect(count).toBe(1);
  expect(breakdown.queue_ns! + breakdown.service_ns!).toBeGreaterThanOrEqual(Number(busyNs));
});

test('without the layer a request belongs to the task that queues it', async () => {
  const { writes } = await onFresh(() => void run('sh', ['-c', writer('buffered', 'left', 'write')]), {
    flags: ['--without', 'dirty_page', 'journal'],
  });
  expect(writes.filter(({ transaction_id }) => transaction_id === 'left')).toEqual([]);
  expect(writes.some(({ service_name }) => service_name === 'kernel' || service_name === 'sync')).toBe(true);
});

function bytesOf(requests: readonly BlockIoEvent[]): number {
  return requests.reduce((sum, { bytes }) => sum + Number(bytes), 0);
}

/** Bytes written to all disks, as these count them: Documentation/block/stat.rst. */
function writtenToDisks(): number {
  const sectors = readdirSync('/sys/block').map((disk) =>
    Number(readFileSync(`/sys/block/${disk}/stat`, 'utf8').trim().split(/\s+/)[6]),
  );
  return sectors.reduce((sum, count) => sum + count, 0) * 512;
}

test('requests of megabytes belong to their writer to the last page', async () => {
  // Most disks accept larger requests than a loop device does.
  const file = join(folder, 'large');
  const before = writtenToDisks();
  const recorded = await shared.record(() => {
    bash(`echo 'KREPLAY1 txn=large' >/dev/null; exec dd if=/dev/zero of=${file} bs=1M count=32 status=none`);
    run('sync', ['-f', file]);
  });
  const shares = recorded
    .blockIos()
    .flatMap(({ origins }) => origins)
    .filter(({ transaction_id }) => transaction_id === 'large');
  const bytes = shares.reduce((sum, share) => sum + Number(share.bytes), 0);
  // On a busy machine the kernel may not show the end of a request; it counts as lost when its memory is used again. The
  // recorder's own writes are not recorded either, but are small.
  const all = bytesOf(recorded.blockIos().filter(({ operation }) => operation === 'write'));
  if (recorded.losses().length > 0 || writtenToDisks() - before - all > 8 << 20) return;
  expect(bytes).toBeGreaterThanOrEqual(32 << 20);
  // The bytes include what the file system writes for the file.
  expect(bytes).toBeLessThan(33 << 20);
});

/**
 * Writes that the kernel's own threads make for a program through io_uring. The threads are created under one
 * transaction and kept for the next ones: the writes of those may have no owner, but not the first one.
 */
describe('writes through io_uring', () => {
  const BLOCKS = 64;
  const program = () => compileProgram('uring_writes');
  /** Lost events: on a busy machine the kernel may not show the end of a request. */
  const lostOf = ({ recorded }: Scenario) => recorded.losses().reduce((sum, { lost }) => sum + lost, 0);

  test.each(['worker', 'poller'])('by a %s under consecutive transactions, and under none', async (how) => {
    const transactions = ['first', 'second', 'nobody', 'third'];
    const scenario = await onFresh(() => void run(program(), [join(disk.mountPoint, 'f'), how, ...transactions]));
    const { right, none, shared: named, wrong } = scenario.truth;
    expect({ named, wrong }).toEqual({ named: 0, wrong: 0 });
    expect(right + none + lostOf(scenario)).toBeGreaterThanOrEqual(transactions.length * BLOCKS);
    expect(right + lostOf(scenario)).toBeGreaterThanOrEqual(BLOCKS);
  });

  test.each(['worker', 'poller'])('by a %s of one transaction', async (how) => {
    const scenario = await onFresh(() => {
      bash(`for i in 1 2 3; do ${program()} ${join(disk.mountPoint, '$i')} ${how} only-$i & done; wait`);
    });
    const { right, ...others } = scenario.truth;
    expect(others).toEqual({ shared: 0, none: 0, wrong: 0, doubtful: [] });
    expect(right + lostOf(scenario)).toBeGreaterThanOrEqual(3 * BLOCKS);
  });
});
