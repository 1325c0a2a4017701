// Every request to a disk of our own must be recorded, with the program that queued it as its owner.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BlockIoEvent } from '../../bpf/schema/api.ts';
import { times } from '../repeats.ts';
import { type LoopDevice, loopDevice } from './loop_device.ts';
import { bash, bpftraceMap, compileProgram, run, wallClockNs, watchedByBpftrace } from './programs.ts';
import { newRecorder, removeFolders, temporaryFolder } from './recorded_run.ts';

const REQUESTS = 101;

const { record, stop } = newRecorder();

let disk: LoopDevice;

beforeAll(() => {
  disk = loopDevice();
});

afterAll(async () => {
  await stop();
  disk.remove();
  removeFolders();
});

/** Runs the command after a marker, so that the events of exactly this run can be queried. */
function labelled(transaction: string, command: string): string {
  return bash(`echo 'KREPLAY1 txn=${transaction}' >/dev/null; ${command} 2>&1`);
}

/** A program's own pages may be read from another disk meanwhile. */
function onDisk({ device }: BlockIoEvent): boolean {
  return device === disk.name;
}

/** The disk's own count, see Documentation/block/stat.rst. */
function writesEnded(): { requests: number; bytes: bigint } {
  const fields = readFileSync(`/sys/block/${disk.name}/stat`, 'utf8').trim().split(/\s+/);
  return { requests: Number(fields[4]), bytes: BigInt(fields[6]!) * 512n };
}

/** The number as the kernel keeps it: MKDEV(major, minor). */
function deviceNumber(): number {
  const [major, minor] = readFileSync(`/sys/block/${disk.name}/dev`, 'utf8').trim().split(':').map(Number);
  return (major! << 20) | minor!;
}

test('direct writes are one request each, owned by the program, as bpftrace counts them', async () => {
  const device = deviceNumber();
  let traced = '';
  const bracket = { before: 0n, after: 0n };
  const recorded = await record(async () => {
    const script = `tracepoint:block:block_rq_complete /args->dev == ${device}/ { @requests["all"] = count(); @sectors["all"] = sum(args->nr_sector); }`;
    traced = await watchedByBpftrace(script, () => {
      bracket.before = wallClockNs();
      labelled('direct', `dd if=/dev/zero of=${disk.path} bs=4k count=${REQUESTS} oflag=direct`);
      bracket.after = wallClockNs();
    });
  });
  const requests = recorded.blockIos({ transactionId: 'direct' }).filter(onDisk);
  expect(requests).toHaveLength(REQUESTS);
  expect(bpftraceMap(traced, 'requests')).toEqual({ all: REQUESTS });
  expect(bpftraceMap(traced, 'sectors')).toEqual({ all: REQUESTS * 8 });
  requests.forEach((request, i) => {
    expect(request).toMatchObject({
      comm: 'dd',
      service_name: 'dd',
      device: disk.name,
      operation: 'write',
      bytes: 4096n,
      result: 4096n,
      error: null,
      sector: BigInt(i) * 8n,
      attribution: { source: 'inherited', quality: 'inherited' },
      origins: [{ service_name: 'dd', transaction_id: 'direct', bytes: 4096n }],
    });
    expect(request.queue_ns).toBeGreaterThan(0n);
    expect(request.queue_ns).toBeLessThan(request.duration_ns);
    expect(request.timestamp_ns).toBeGreaterThan(bracket.before);
    expect(request.timestamp_ns + request.duration_ns).toBeLessThan(bracket.after);
  });
  // Each request lies within the write that caused it.
  const writes = recorded.writes({ transactionId: 'direct' }).filter(({ file }) => file === disk.path);
  expect(writes).toHaveLength(REQUESTS);
  writes.forEach((write, i) => {
    expect(requests[i]!.timestamp_ns).toBeGreaterThan(write.timestamp_ns);
    expect(requests[i]!.timestamp_ns + requests[i]!.duration_ns).toBeLessThan(write.timestamp_ns + write.duration_ns);
    expect(requests[i]!.tid).toBe(write.tid);
  });
});

test('reads, discards and flushes are distinguished', async () => {
  const recorded = await record(() => {
    labelled('read', `dd if=${disk.path} of=/dev/null bs=64k count=7 iflag=direct`);
    labelled('discard', `blkdiscard --offset 1048576 --length 1048576 ${disk.path}`);
    labelled('flush', `dd if=/dev/zero of=${disk.path} bs=4k count=1 conv=fsync`);
  });
  const requestsOf = (transactionId: string) => recorded.blockIos({ transactionId }).filter(onDisk);
  const operations = (transactionId: string) =>
    requestsOf(transactionId).map(({ operation, bytes }) => `${operation} ${bytes}`);
  expect(operations('read')).toEqual(Array(7).fill('read 65536'));
  expect(operations('discard')).toContain('discard 1048576');
  expect(operations('flush')).toEqual(['write 4096', 'flush 0']);
  const [flush] = requestsOf('flush').filter(({ operation }) => operation === 'flush');
  expect(flush!.queue_ns).toBeNull();
});

test('a journal commit lasts until the flush after it, as bpftrace sees its last completion', async () => {
  run('sh', ['-c', `echo 'write back' > /sys/block/${disk.name}/queue/write_cache`]);
  run('mkfs.ext4', ['-q', '-F', disk.path]);
  run('mount', [disk.path, disk.mountPoint]);
  const device = `args->dev == ${deviceNumber()}`;
  const script = `
    tracepoint:block:block_rq_issue /${device} && args->nr_sector > 0/ { @issued[args->sector] = nsecs; }
    tracepoint:block:block_rq_complete /${device} && @issued[args->sector]/ {
      @completions[args->sector] = count(); @last[args->sector] = max(nsecs - @issued[args->sector]); }`;
  let traced = '';
  const recorded = await record(async () => {
    traced = await watchedByBpftrace(script, () => {
      run('dd', ['if=/dev/zero', `of=${disk.mountPoint}/committed`, 'bs=4k', 'count=1', 'conv=fsync', 'status=none']);
    });
  });
  run('umount', [disk.mountPoint]);
  const completions = bpftraceMap(traced, 'completions');
  const last = bpftraceMap(traced, 'last');
  const twice = Object.keys(completions).filter((sector) => completions[sector] === 2);
  expect(twice.length).toBeGreaterThan(0);
  for (const sector of twice) {
    const requests = recorded.blockIos().filter((each) => onDisk(each) && each.sector === BigInt(sector));
    expect(requests).toHaveLength(1);
    const [{ duration_ns, queue_ns, result, bytes }] = requests as [BlockIoEvent];
    expect(result).toBe(bytes);
    const issuedToEndNs = Number(duration_ns - queue_ns!);
    // Two programs at one tracepoint read the clock slightly apart, while the flush alone takes many times that.
    expect(Math.abs(issuedToEndNs - last[sector]!)).toBeLessThan(last[sector]! * 0.2);
  }
});

test('a request with bios of two owners is shared and names both; one whose end is missed is counted', async () => {
  const blocks = 1024;
  // Whether two requests meet in the scheduler is luck in any one round.
  const rounds = times(7);
  const written = 2n * BigInt(rounds * blocks) * 4096n;
  const program = compileProgram('neighbour_writes');
  run('sh', ['-c', `echo mq-deadline > /sys/block/${disk.name}/queue/scheduler`]);
  const writeNeighbours = (times: number) =>
    bash(`
      queue() { echo "KREPLAY1 txn=$1" >/dev/null; exec ${program} ${disk.path} $2 ${blocks}; }
      for round in $(seq ${times}); do queue even 0 & even=$!; (queue odd 1) || exit 1; wait $even || exit 1; done`);
  let shared: BlockIoEvent[] = [];
  let even: BlockIoEvent[] = [];
  for (let attempt = 1; shared.length === 0 && attempt <= 12; attempt++) {
    const before = writesEnded();
    let after = before;
    let untilNs = 0n;
    const recorded = await record(() => {
      writeNeighbours(rounds);
      after = writesEnded();
      untilNs = wallClockNs();
      // A missed end is found when the kernel uses the request again.
      writeNeighbours(2);
    });
    const counted = (request: BlockIoEvent) => onDisk(request) && request.timestamp_ns < untilNs;
    const requests = recorded.blockIos({ comms: ['neighbour_write'] }).filter(counted);
    const lost = recorded.losses().reduce((sum, each) => sum + each.lost, 0);
    expect(after.bytes - before.bytes).toBe(written);
    expect(requests.length).toBeLessThanOrEqual(after.requests - before.requests);
    expect(requests.length + lost).toBeGreaterThanOrEqual(after.requests - before.requests);
    // On a busy machine the kernel may skip a program, or not show an end: then some bytes are missing.
    if (lost > 0) continue;
    expect(bytesOf(requests)).toBe(written);
    for (const { origins, bytes } of requests) expect(bytesOf(origins)).toBe(bytes);
    shared = requests.filter(({ attribution }) => attribution.quality === 'shared');
    even = recorded.blockIos({ transactionId: 'even' }).filter(counted);
  }
  expect(shared.length).toBeGreaterThan(0);
  for (const { transaction_id, origins } of shared) {
    expect(transaction_id).toBeNull();
    expect(new Set(origins.map((origin) => origin.transaction_id))).toEqual(new Set(['even', 'odd']));
  }
  // Each of the two transactions finds a shared request; none of its bytes is counted for the other one.
  const origins = even.flatMap((request) => request.origins);
  expect(bytesOf(origins.filter((origin) => origin.transaction_id === 'even'))).toBe(written / 2n);
});

test('a request that fails has the error that its write gets', async () => {
  const folder = temporaryFolder();
  run('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]);
  const image = join(folder, 'image');
  run('truncate', ['-s', '8M', image]);
  const path = run('losetup', ['--find', '--show', image]).trim();
  try {
    // The disk takes what its image has room for.
    const recorded = await record(() => {
      bash(`echo 'KREPLAY1 txn=fails' >/dev/null; exec python3 -c '
import mmap, os
page = mmap.mmap(-1, 65536)
page.write(b"x" * 65536)
disk = os.open("${path}", os.O_WRONLY | os.O_DIRECT)
for i in range(32):
    try:
        os.pwrite(disk, page, i * 65536)
    except OSError:
        pass'`);
    });
    const writes = recorded.writes({ transactionId: 'fails' }).filter(({ file }) => file === path);
    const requests = recorded
      .blockIos({ queuers: ['fails'] })
      .filter(({ device }) => device === path.replace('/dev/', ''));
    const resultsOf = (events: readonly { result: bigint; error: string | null }[]) =>
      events.map(({ result, error }) => `${result} ${error}`);
    expect(writes).toHaveLength(32);
    expect(new Set(resultsOf(writes))).toEqual(new Set(['65536 null', expect.stringMatching(/^-\d+ E[A-Z]+$/)]));
    expect(resultsOf(requests)).toEqual(resultsOf(writes));
  } finally {
    run('losetup', ['--detach', path]);
    run('umount', [folder]);
  }
});

test('a request that two tasks put together began when the first of them queued it', async () => {
  // A disk whose blocks are in a file of another one, which is frozen: its requests wait until that one goes on.
  run('mkfs.ext4', ['-q', '-F', disk.path]);
  run('mount', [disk.path, disk.mountPoint]);
  const image = join(disk.mountPoint, 'image');
  run('dd', ['if=/dev/zero', `of=${image}`, 'bs=1M', 'count=32', 'status=none']);
  const path = run('losetup', ['--find', '--show', image]).trim();
  const name = path.replace('/dev/', '');
  run('sh', [
    '-c',
    `echo mq-deadline > /sys/block/${name}/queue/scheduler; echo 512 > /sys/block/${name}/queue/nr_requests`,
  ]);
  const marks = { first: 0n, second: 0n };
  const write = (transaction: string, block: number) =>
    spawn('bash', [
      '-c',
      `echo 'KREPLAY1 txn=${transaction}' >/dev/null; exec dd if=/dev/zero of=${path} bs=4k count=1 seek=${block} oflag=direct status=none`,
    ]);
  try {
    const recorded = await record(async () => {
      run('fsfreeze', ['--freeze', disk.mountPoint]);
      // More requests than the driver takes, with gaps between them, so that others wait in the scheduler.
      const fill = [
        '--name=fill',
        `--filename=${path}`,
        '--rw=write:4k',
        '--bs=4k',
        '--offset=16m',
        '--number_ios=300',
      ];
      const filling = spawn('fio', [...fill, '--ioengine=libaio', '--iodepth=300', '--direct=1', '--output=/dev/null']);
      const waiting = () => Number(readFileSync(`/sys/block/${name}/inflight`, 'utf8').trim().split(/\s+/)[1]);
      while (waiting() < 128) await sleep(20);
      marks.first = wallClockNs();
      const first = write('first', 100);
      await untilWaiting(first);
      marks.second = wallClockNs();
      const second = write('second', 101);
      await untilWaiting(second);
      const ended = [filling, first, second].map((one) => once(one, 'exit'));
      run('fsfreeze', ['--unfreeze', disk.mountPoint]);
      await Promise.all(ended);
    });
    const requests = recorded.blockIos().filter(({ device, sector }) => device === name && sector === 800n);
    expect(requests.map(({ bytes, origins }) => [bytes, origins.map((one) => one.transaction_id)])).toEqual([
      [8192n, ['first', 'second']],
    ]);
    const [request] = requests;
    expect(request!.queued_by?.transaction_id).toBe('first');
    expect(request!.timestamp_ns).toBeGreaterThan(marks.first);
    expect(request!.timestamp_ns).toBeLessThan(marks.second);
  } finally {
    run('sh', ['-c', `fsfreeze --unfreeze ${disk.mountPoint} 2> /dev/null || true`]);
    run('losetup', ['--detach', path]);
    run('umount', [disk.mountPoint]);
  }
}, 60_000);

/** Resolves when the process has become `dd`, and waits for its disk. */
async function untilWaiting({ pid }: ChildProcess): Promise<void> {
  while (!readFileSync(`/proc/${pid}/stat`, 'utf8').includes('(dd) D ')) await sleep(20);
}

function bytesOf(parts: readonly { bytes: bigint }[]): bigint {
  return parts.reduce((sum, { bytes }) => sum + bytes, 0n);
}
