// Every call that waits for a disk must be recorded, in its thread's order, within the time that the program itself
// measured around it, and as often as bpftrace counts it in the same run.
import { join } from 'node:path';
import { openReader } from '../../agent/recording/read/reader.ts';
import { RECORDING_FILE } from '../../agent/recording_path.ts';
import type { SysSyncEvent } from '../../bpf/schema/api.ts';
import { SYNC_SYSCALLS } from '../../bpf/schema/sys_sync.ts';
import { type LoopDevice, loopDevice } from './loop_device.ts';
import { isOthersLoss } from './missed_ends.ts';
import { bash, bpftraceMap, compileProgram, run, watchedByBpftrace } from './programs.ts';
import { newRecorder, type Recorded, record, removeFolders } from './recorded_run.ts';

const SYSCALLS = Object.keys(SYNC_SYSCALLS) as (keyof typeof SYNC_SYSCALLS)[];
const WITHOUT_FILE = ['sync', 'msync'];

interface Call {
  tid: number;
  syscall: string;
  before: bigint;
  after: bigint;
  result: bigint;
}

/** The agent of all tests here that need no options. */
const shared = newRecorder();

let disk: LoopDevice;
let file: string;
let recorded: Recorded;
let traced: string;
let calls: Call[];
let syncs: SysSyncEvent[];

function callOf(line: string): Call {
  const [tid, syscall, before, after, result] = line.split(' ');
  return {
    tid: Number(tid),
    syscall: syscall!,
    before: BigInt(before!),
    after: BigInt(after!),
    result: BigInt(result!),
  };
}

beforeAll(async () => {
  disk = loopDevice();
  run('mkfs.ext4', ['-q', disk.path]);
  run('mount', [disk.path, disk.mountPoint]);
  file = join(disk.mountPoint, 'synced');
  const program = compileProgram('sync_family');
  const script = SYSCALLS.map(
    (name) => `tracepoint:syscalls:sys_exit_${name} /comm == "sync_family"/ { @calls["${name}"] = count(); }`,
  ).join(' ');
  recorded = await shared.record(async () => {
    traced = await watchedByBpftrace(script, () => {
      calls = run(program, [file]).trim().split('\n').map(callOf);
    });
  });
  syncs = recorded.events({ comms: ['sync_family'], eventTypes: ['sys_sync'] }) as SysSyncEvent[];
});

afterAll(async () => {
  await shared.stop();
  disk.remove();
  removeFolders();
});

test.each(SYSCALLS)('%s is recorded as often as the program called it, and as bpftrace counts it', (syscall) => {
  const made = calls.filter((call) => call.syscall === syscall).length;
  expect(made).toBeGreaterThan(0);
  expect(syncs.filter((event) => event.syscall === syscall)).toHaveLength(made);
  expect(bpftraceMap(traced, 'calls')[syscall]).toBe(made);
});

test('each call has its result, and lies within the time that the program measured around it', () => {
  // The clocks are read a microsecond apart at the most: the offset may be wrong by that much.
  const noiseNs = 2_000n;
  for (const [tid, own] of Map.groupBy(calls, (call) => call.tid)) {
    const events = syncs.filter((event) => event.tid === tid);
    expect(events.map(({ syscall, result }) => [syscall, result])).toEqual(
      own.map(({ syscall, result }) => [syscall, result]),
    );
    events.forEach(({ timestamp_ns, duration_ns }, i) => {
      expect(timestamp_ns).toBeGreaterThan(own[i]!.before - noiseNs);
      expect(timestamp_ns + duration_ns).toBeLessThan(own[i]!.after + noiseNs);
    });
  }
  // A sync of the whole machine writes others' pages too, and the kernel hides ends of such requests now and then.
  const reader = openReader(join(recorded.dataFolder, RECORDING_FILE));
  const losses = reader.losses();
  reader.close();
  expect(losses.filter((loss) => !isOthersLoss(loss))).toEqual([]);
});

test('calls with a descriptor name its file', () => {
  for (const { syscall, file: named, fd, error } of syncs.filter((event) => event.error === null)) {
    expect([named, error]).toEqual([WITHOUT_FILE.includes(syscall) ? null : file, null]);
    if (WITHOUT_FILE.includes(syscall)) expect(fd).toBe(-1);
    else expect(fd).toBeGreaterThan(2);
  }
});

test('failed calls have their error', () => {
  const failed = syncs.filter((event) => event.error !== null);
  const told = failed.map(({ syscall, error, file_kind }) => `${syscall} ${error} ${file_kind}`);
  const expected = ['fsync EBADF unknown', 'fdatasync EINVAL pipe', 'msync EINVAL unknown'];
  expect(told.sort()).toEqual([...expected, ...expected].sort());
});

test('a sync belongs to the transaction of the waiting thread, and takes at least as long as its requests', async () => {
  const own = await shared.record(() => {
    bash(`printf 'KREPLAY1 svc=db txn=order-1\\n' > /dev/null
      exec dd if=/dev/zero of=${file} bs=64k count=16 conv=fsync status=none`);
  });
  const events = own.events({ transactionId: 'order-1' });
  const sync = events.find((event) => event.event_type === 'sys_sync') as SysSyncEvent;
  expect(sync).toMatchObject({ syscall: 'fsync', service_name: 'db', comm: 'dd', file, result: 0n });
  const requests = own
    .blockIos({ transactionId: 'order-1' })
    .filter(({ device, comm }) => device === disk.name && comm === 'dd');
  expect(requests.length).toBeGreaterThan(0);
  for (const { timestamp_ns, duration_ns } of requests) {
    expect(timestamp_ns).toBeGreaterThanOrEqual(sync.timestamp_ns);
    expect(timestamp_ns + duration_ns).toBeLessThanOrEqual(sync.timestamp_ns + sync.duration_ns);
  }
});

test('types that the filter leaves out are not recorded', async () => {
  const own = await record(() => {
    bash(`dd if=/dev/zero of=${file} bs=4k count=1 conv=fsync status=none`);
  }, ['--event-type', 'sys_write', 'block_io']);
  expect(own.events({ eventTypes: ['sys_sync'] })).toEqual([]);
  // Other suites run a dd, too.
  expect(own.writes({ comms: ['dd'] }).filter((write) => write.file === file)).toHaveLength(1);
});
