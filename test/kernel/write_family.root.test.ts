// A known number of writes through each call of the family must be recorded to the last one, with the values that the
// program passed, and as bpftrace counts them in the same run. Counts are primes: no other factor hides in them.
import { join } from 'node:path';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { WRITE_SYSCALLS } from '../../bpf/schema/sys_write.ts';
import { isOthersLoss } from './missed_ends.ts';
import { bash, bpftraceMap, compileProgram, run, wallClockNs, watchedByBpftrace } from './programs.ts';
import { newRecorder, type Recorded, removeFolders, temporaryFolder } from './recorded_run.ts';

const CALLS = 211;
const THREADS = 3;
const PROCESSES = 2;
const BYTES = { write: 7n, pwrite64: 11n, writev: 3n, pwritev: 66n, pwritev2: 6n };
const SYSCALLS = Object.keys(WRITE_SYSCALLS) as (keyof typeof WRITE_SYSCALLS)[];

const folder = temporaryFolder();
const file = join(folder, 'written');

const shared = newRecorder();

afterAll(async () => {
  await shared.stop();
  removeFolders();
});

describe('the write family', () => {
  let recorded: Recorded;
  let traced: string;
  let bracket: { before: bigint; after: bigint };
  let writes: SysWriteEvent[];

  beforeAll(async () => {
    const program = compileProgram('write_family');
    const script = SYSCALLS.map((name) => {
      const filter = '/comm == "write_family" && args->ret > 0/';
      return `tracepoint:syscalls:sys_exit_${name} ${filter} { @calls["${name}"] = count(); @bytes["${name}"] = sum(args->ret); }`;
    }).join(' ');
    recorded = await shared.record(async () => {
      traced = await watchedByBpftrace(script, () => {
        const before = wallClockNs();
        run(program, [CALLS, THREADS, PROCESSES, file].map(String));
        bracket = { before, after: wallClockNs() };
      });
    });
    writes = recorded.writes({ comms: ['write_family'] });
  });

  test.each(SYSCALLS)('%s is recorded exactly, and as bpftrace counts it', (syscall) => {
    const own = writes.filter((event) => event.syscall === syscall);
    expect(own).toHaveLength(CALLS * THREADS * PROCESSES);
    expect(own.length).toBe(bpftraceMap(traced, 'calls')[syscall]);
    expect(Number(own.reduce((sum, { result }) => sum + result, 0n))).toBe(bpftraceMap(traced, 'bytes')[syscall]);
    for (const event of own) {
      expect([event.result, event.bytes_requested]).toEqual([BYTES[syscall], BYTES[syscall]]);
    }
  });

  test('every thread of every process has its own events', () => {
    const byThread = Map.groupBy(writes, ({ pid, tid }) => `${pid}/${tid}`);
    expect(byThread.size).toBe(THREADS * PROCESSES);
    for (const own of byThread.values()) expect(own).toHaveLength(CALLS * SYSCALLS.length);
    expect(new Set(writes.map(({ pid }) => pid)).size).toBe(PROCESSES);
  });

  test('times lie within the run, and nothing was lost', () => {
    for (const { timestamp_ns, duration_ns } of writes) {
      expect(timestamp_ns).toBeGreaterThan(bracket.before);
      expect(timestamp_ns + duration_ns).toBeLessThan(bracket.after);
    }
    expect(recorded.losses().filter((loss) => !isOthersLoss(loss))).toEqual([]);
  });

  test('unlabelled events have no owner, and their program as the service', () => {
    for (const event of writes) {
      expect(event).toMatchObject({
        service_name: 'write_family',
        transaction_id: null,
        trace_id: null,
        attribution: { source: 'none', quality: 'none' },
        file,
        file_kind: 'regular',
        error: null,
      });
    }
  });

  test('the recorder does not record itself', () => {
    const own = recorded.writes().filter((event) => event.file?.startsWith(recorded.dataFolder));
    expect(own).toEqual([]);
  });
});

test('start and duration agree with the times that the program measured around each call', async () => {
  const program = compileProgram('bracketed_writes');
  let brackets: bigint[][] = [];
  const recorded = await shared.record(() => {
    brackets = run(program, [])
      .trim()
      .split('\n')
      .map((line) => line.split(' ').map(BigInt));
  });
  const writes = recorded.writes({ comms: ['bracketed_write'] }).filter(({ file_kind }) => file_kind === 'pipe');
  const calls = writes.filter(({ bytes_requested }) => bytes_requested === 8192n);
  expect(calls).toHaveLength(brackets.length);
  // The clocks are read a microsecond apart at the most: the offset may be wrong by that much.
  const noiseNs = 2_000n;
  calls.forEach(({ timestamp_ns, duration_ns, result }, i) => {
    const [before, after, returned] = brackets[i]!;
    expect(timestamp_ns).toBeGreaterThan(before! - noiseNs);
    expect(timestamp_ns + duration_ns).toBeLessThan(after! + noiseNs);
    expect(result).toBe(returned);
  });
  // The pipe is full after 64 KiB: most calls had to wait for the reader.
  expect(calls.filter(({ duration_ns }) => duration_ns > 100_000n).length).toBeGreaterThan(100);
});

const PARTS = [1, 2, 7, 8, 9, 15, 16, 17, 255, 1016, 1023, 1024];

test('a vector has the bytes of all of its parts, however many there are', async () => {
  const recorded = await shared.record(() => {
    run(
      'python3',
      ['-c', `import os\nfor n in ${JSON.stringify(PARTS)}: os.writev(1, [b'x' * (i + 1) for i in range(n)])`],
      {
        maxBuffer: 1 << 24,
      },
    );
  });
  const vectors = recorded.writes({ comms: ['python3'] }).filter(({ syscall }) => syscall === 'writev');
  expect(vectors.map(({ bytes_requested }) => Number(bytes_requested))).toEqual(PARTS.map((n) => (n * (n + 1)) / 2));
});

test('a failed write has its errno', async () => {
  const recorded = await shared.record(() => {
    bash('dd if=/dev/zero of=/dev/full bs=512 count=1 2>/dev/null || true');
  });
  const [write, ...more] = recorded.writes({ comms: ['dd'], failed: true });
  expect(write).toMatchObject({ result: -28n, error: 'ENOSPC', bytes_requested: 512n, file: '/dev/full' });
  expect(write!.file_kind).toBe('character_device');
  expect(more).toEqual([]);
});
