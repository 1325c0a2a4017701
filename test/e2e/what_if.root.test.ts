/**
 * What-ifs of recorded programs, by counts: a latency that is far longer than all they did is counted once for each call
 * that a thread made, as `kreplay run` plans it, and once for what each call waited for if requests get it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunResult } from '../../daemon/run/report/result.ts';
import { loopDevice } from '../kernel/loop_device.ts';
import { run } from '../kernel/programs.ts';
import { type Recorded, record, removeFolders } from '../kernel/recorded_run.ts';
import { KREPLAY, kreplay, temporaryFolder } from './kreplay.ts';

const LATENCY_NS = 1_000_000_000;

const PRELUDE = 'import mmap, os, sys, threading; folder = sys.argv[1]; new = os.O_RDWR | os.O_CREAT';
const BUFFERED = 37;
const DIRECT = 23;
const [FSYNCS, WRITES_EACH] = [3, 41];
const [THREADS, WRITES_OF_ONE] = [4, 19];

interface Program {
  script: string;
  /** Calls of the thread that makes most of them; the interpreter writes nothing itself. */
  calls: number;
  /** How often that thread waits for requests: a range where the kernel decides. */
  waits: readonly [least: number, most: number];
}

const PROGRAMS: Record<string, Program> = {
  buffered: {
    script: `fd = os.open(folder + '/buffered', new)
for i in range(${BUFFERED}): os.pwrite(fd, b'x' * 4096, i * 4096)`,
    calls: BUFFERED,
    // The folder and the file's inode may have to be read.
    waits: [0, 6],
  },
  direct: {
    script: `fd = os.open(folder + '/direct', new | os.O_DIRECT); page = mmap.mmap(-1, 65536)
for i in range(${DIRECT}): os.pwritev(fd, [page], i * 65536)`,
    calls: DIRECT,
    waits: [DIRECT, DIRECT + 8],
  },
  // Pages apart, so that each is a request of its own, side by side with the others of its fsync.
  fsync: {
    script: `fd = os.open(folder + '/synced', new)
for n in range(${FSYNCS}):
    for i in range(${WRITES_EACH}): os.pwrite(fd, b'x' * 4096, (n * ${WRITES_EACH} + i) * 8192)
    os.fsync(fd)`,
    calls: FSYNCS * (WRITES_EACH + 1),
    waits: [FSYNCS, FSYNCS * 8],
  },
  threads: {
    script: `def work(n):
    fd = os.open(folder + '/thread' + str(n), new)
    for i in range(${WRITES_OF_ONE}): os.pwrite(fd, b'x' * 4096, i * 8192)
    os.fsync(fd)
all = [threading.Thread(target=work, args=(n,)) for n in range(${THREADS})]
for one in all: one.start()
for one in all: one.join()`,
    calls: WRITES_OF_ONE + 1,
    waits: [1, 12],
  },
};

interface WhatIf {
  event_count: number;
  affected_count: number;
  duration_ns: number;
  replay_duration_ns: number;
  curve: { events: number; end_ns: number }[];
}

let recorded: Recorded;
let folder: ReturnType<typeof temporaryFolder>;
const disk = loopDevice(128);

beforeAll(async () => {
  folder = temporaryFolder();
  run('mkfs.ext4', ['-q', '-F', disk.path]);
  run('mount', [disk.path, disk.mountPoint]);
  recorded = await record(() => {
    for (const [name, { script }] of Object.entries(PROGRAMS)) {
      const command = ['/usr/bin/python3', '-c', `${PRELUDE}\n${script}`, disk.mountPoint];
      run(KREPLAY, ['exec', '--transaction', name, '--', ...command], { stdio: 'inherit' });
    }
  });
});
afterAll(() => {
  disk.remove();
  folder.remove();
  removeFolders();
});

const recording = () => join(recorded.dataFolder, 'recording.kreplay');

function whatIf(name: string, ...more: string[]): WhatIf {
  const asked = ['whatif', name, '--recording', recording(), '--extra-latency', `${LATENCY_NS}ns`, '--output', 'json'];
  const { status, stdout, stderr } = kreplay([...asked, ...more]);
  expect([status, stderr]).toEqual([0, expect.any(String)]);
  return JSON.parse(stdout) as WhatIf;
}

/** How many latencies are in the duration: all that the program did took less than one. */
const latenciesIn = ({ replay_duration_ns }: WhatIf) => Math.floor(replay_duration_ns / LATENCY_NS);

/** The time that `kreplay run` plans for all calls, whatever command it runs. */
function plannedNs(name: string, ...more: string[]): number {
  const report = join(folder.path, `${name}.json`);
  const incident = ['--bundle', recording(), '--transaction', name, '--report', report];
  kreplay(['run', ...incident, ...more, '--', 'true']);
  return (JSON.parse(readFileSync(report, 'utf8')) as RunResult).figures!.planned_ns;
}

test.each(Object.entries(PROGRAMS))('%s: each call of a thread counts once, as it is planned', (name, { calls }) => {
  const answer = whatIf(name);
  const types = new Map(
    recorded.events({ transactionId: name }).map(({ event_id, event_type }) => [event_id, event_type]),
  );
  const ofCalls = [...types.values()].filter((type) => type !== 'block_io').length;
  expect(answer.affected_count).toBe(ofCalls);
  expect(answer.duration_ns).toBeLessThan(LATENCY_NS);
  expect(latenciesIn(answer)).toBe(calls);
  expect(answer.curve.at(-1)!.events).toBe(calls);
  expect(whatIf(name, '--only', 'event_type=sys_write,event_type=sys_sync')).toMatchObject({
    replay_duration_ns: answer.replay_duration_ns,
  });
  const added = plannedNs(name, '--extra-latency', '1s') - plannedNs(name);
  expect(added).toBe(ofCalls * LATENCY_NS);
  if (name !== 'threads') expect(answer.replay_duration_ns - answer.duration_ns).toBe(added);
});

test.each(Object.entries(PROGRAMS))('%s: requests side by side count once', (name, { waits: [least, most] }) => {
  const requests = recorded.blockIos({ transactionId: name });
  const answer = whatIf(name, '--only', 'event_type=block_io');
  expect(answer.affected_count).toBe(requests.length);
  expect(latenciesIn(answer)).toBeGreaterThanOrEqual(least);
  // The interpreter may have to be read from its disk first.
  const ofOthers = requests.filter(({ device }) => device !== disk.name).length;
  expect(latenciesIn(answer)).toBeLessThanOrEqual(most + ofOthers);
});
