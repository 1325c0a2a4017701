/**
 * The owners of the writes of an ext4 journal: one task is the exact owner only if no other one took part in the
 * transaction that is written. The kernel's own tracepoints, read by bpftrace, show which tasks did.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BlockIoEvent } from '../../../bpf/schema/api.ts';
import { type LoopDevice, loopDevice } from '../loop_device.ts';
import { bash, mountTracefs, run } from '../programs.ts';
import { record, removeFolders, temporaryFolder } from '../recorded_run.ts';
import { withSysctl } from '../sysctl.ts';

/** Only loop devices: what the tracer prints goes to the host's own journal, and would be printed again. */
const ON_LOOP = '/(args->dev >> 20) == 7/';
const WATCH = `
BEGIN { printf("watching\\n"); }
tracepoint:jbd2:jbd2_handle_start ${ON_LOOP} { printf("joins %d %d %d\\n", args->dev, args->tid, pid); }
tracepoint:jbd2:jbd2_handle_restart ${ON_LOOP} { printf("joins %d %d %d\\n", args->dev, args->tid, pid); }
tracepoint:jbd2:jbd2_start_commit ${ON_LOOP} { printf("begins %d %d %llu\\n", args->dev, args->transaction, nsecs); }
tracepoint:jbd2:jbd2_end_commit ${ON_LOOP} { printf("ends %d %d %llu\\n", args->dev, args->transaction, nsecs); }
`;

/** The tasks of a case print this first. */
const LABELLED = `
import ctypes, os, sys, time
def label(name):
    os.write(os.open('/dev/null', os.O_WRONLY), b'KREPLAY1 txn=' + name.encode())
    print('task', name, os.getpid(), flush=True)
`;

/** Changes an inode, and nothing else, for as long as its standard input is open. */
const TOUCH = `${LABELLED}
import select
label('touches')
file = os.open(sys.argv[1] + '/touched', os.O_WRONLY | os.O_CREAT)
while not select.select([sys.stdin], [], [], 0.01)[0]: os.utime(file)
`;

const FILL = `${LABELLED}
label('fills')
file = os.open(sys.argv[1] + '/filled', os.O_WRONLY | os.O_CREAT)
for i in range(64): os.write(file, b'x' * (1 << 20))
`;

/**
 * Waits until threads of the kernel have written what the program has left in memory, and then for commits in which no
 * thread of the kernel needs to take part. On a busy machine that takes longer than a few seconds.
 */
const FILL_AND_SETTLE = `
python3 -c "$FILL" $folder
until [ "$(cat /sys/fs/ext4/$name/delayed_allocation_blocks)" = 0 ]; do sleep 0.1; done
commits() { grep -c "^ends $device " $trace; }
before=$(commits)
until [ $(commits) -ge $((before + 4)) ]; do sleep 0.1; done`;

interface Transaction {
  pids: Set<number>;
  beganNs: bigint;
  endedNs: bigint;
}

/** Transactions of the file system on the device, by number. */
function transactionsIn(output: string, device: number): Map<string, Transaction> {
  const found = new Map<string, Transaction>();
  for (const [, what, on, number, value] of output.matchAll(/^(joins|begins|ends) (\d+) (\d+) (\d+)$/gm)) {
    if (Number(on) !== device) continue;
    const transaction = found.get(number!) ?? { pids: new Set(), beganNs: 0n, endedNs: 0n };
    found.set(number!, transaction);
    if (what === 'joins') transaction.pids.add(Number(value));
    else transaction[what === 'begins' ? 'beganNs' : 'endedNs'] = BigInt(value!);
  }
  return found;
}

/** How far the wall clock is ahead of the clock since boot, which the tracer uses. */
const bootedNs = () =>
  BigInt(run('python3', ['-c', 'import time; print(time.clock_gettime_ns(0) - time.clock_gettime_ns(7))']).trim());

interface Seen {
  /** Transactions in which both the task that touches and threads of the kernel took part. */
  common: number;
  /** Journal requests that name one task without a doubt, though another one took part as well. */
  wrong: string[];
  /** Journal requests that name the only task of a transaction. */
  right: number;
}

/** `work` is done beside a task that touches. */
async function journalOf(disk: LoopDevice, work: string): Promise<Seen> {
  const trace = join(temporaryFolder(), 'trace');
  let tasks = '';
  mountTracefs();
  const offsetNs = bootedNs();
  // This is MKDEV of a loop device, as the kernel keeps it.
  const device = (7 << 20) | Number(disk.name.replace('loop', ''));
  const recorded = await record(() => {
    const touches = `exec 5> >(python3 -c "$TOUCH" $folder; touch $folder/ended); sleep 1`;
    // The output goes to a file, as no process reads a pipe meanwhile; with -o its lines would wait in a buffer.
    const watch = `bpftrace -B line -e "$WATCH" > ${trace} & tracer=$!; until grep -q watching ${trace}; do kill -0 $tracer || exit 1; sleep 0.1; done 2> /dev/null`;
    const end = 'exec 5>&-; until [ -e $folder/ended ]; do sleep 0.1; done; sync -f $folder';
    tasks = bash(`${watch}; ${touches}; ${work}; ${end}; kill $tracer; wait $tracer || true`, {
      env: { ...process.env, WATCH, TOUCH, FILL, trace, name: disk.name, device: `${device}`, folder: disk.mountPoint },
      timeout: 250_000,
    });
  });
  const pids = new Map([...tasks.matchAll(/^task (\w+) (\d+)$/gm)].map(([, name, pid]) => [name!, Number(pid)]));
  const transactions = [...transactionsIn(readFileSync(trace, 'utf8'), device).values()];
  const isOf = (event: BlockIoEvent) => (transaction: Transaction) =>
    event.timestamp_ns - offsetNs >= transaction.beganNs && event.timestamp_ns - offsetNs <= transaction.endedNs;
  const seen: Seen = { common: 0, wrong: [], right: 0 };
  const known = [...pids.values()];
  const isCommon = ({ pids: joined }: Transaction) =>
    joined.has(pids.get('touches')!) && [...joined].some((pid) => !known.includes(pid));
  seen.common = transactions.filter(isCommon).length;
  for (const event of recorded.blockIos()) {
    const { comm, transaction_id: name, attribution } = event;
    if (event.device !== disk.name || !comm.startsWith('jbd2/') || event.operation !== 'write') continue;
    const transaction = transactions.find(isOf(event));
    if (!transaction || name === null || attribution.quality !== 'exact') continue;
    const others = [...transaction.pids].filter((pid) => pid !== pids.get(name));
    if (others.length > 0) seen.wrong.push(`${event.bytes} bytes are ${name}'s, and ${others.length} others took part`);
    else seen.right++;
  }
  return seen;
}

afterAll(removeFolders);

test('a task that only touched an inode does not own what kernel threads add to the same transaction', async () => {
  const disk = loopDevice(256);
  try {
    // Without the thread that would initialise tables of inodes later, and take part as well.
    run('mkfs.ext4', ['-q', '-E', 'lazy_itable_init=0,lazy_journal_init=0', disk.path]);
    // A commit each second makes a few transactions that both take part in.
    run('mount', ['-o', 'commit=1', disk.path, disk.mountPoint]);
    const early = { 'vm/dirty_expire_centisecs': '200', 'vm/dirty_writeback_centisecs': '50' };
    const seen = await withSysctl(early, () => journalOf(disk, FILL_AND_SETTLE));
    expect(seen.common).toBeGreaterThan(0);
    expect(seen.wrong).toEqual([]);
    expect(seen.right).toBeGreaterThan(0);
  } finally {
    disk.remove();
  }
}, 300_000);
