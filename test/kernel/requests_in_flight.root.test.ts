/** More concurrent requests than the kernel side can store: those that it does not record are counted, every one. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readClocks } from 'libbpf-ts/kernel';
import { FRAME_HEADER_SIZE, recordOffset } from '../../bpf/schema/decoder.ts';
import { type LoopDevice, loopDevice } from './loop_device.ts';
import { isOthersLoss } from './missed_ends.ts';
import { run } from './programs.ts';
import { readRecording, removeFolders, temporaryFolder } from './recorded_run.ts';
import { openRecorderParts } from './recorder_parts.ts';

const IN_FLIGHT_MAX = 64;
/** A loop device takes 128 requests at a time. */
const DEPTH = 128;
const REQUESTS = 10_007;
const ELEVEN_MINUTES_NS = 660_000_000_000n;

let disk: LoopDevice;

beforeAll(() => {
  disk = loopDevice();
});

afterAll(() => {
  disk.remove();
  removeFolders();
});

/** Reads and writes that the disk has ended, see Documentation/block/stat.rst. */
function ended(): number {
  const fields = readFileSync(`/sys/block/${disk.name}/stat`, 'utf8').trim().split(/\s+/).map(Number);
  return fields[0]! + fields[4]!;
}

function write(depth: number, requests: number): number {
  const before = ended();
  run('fio', [
    ...['--name=deep', `--filename=${disk.path}`, '--direct=1', '--rw=randwrite', '--bs=4k', '--ioengine=libaio'],
    ...[`--iodepth=${depth}`, `--number_ios=${requests}`, '--size=64m', '--output=/dev/null'],
  ]);
  return ended() - before;
}

/** Offsets in `struct bio_queuer` of bpf/bio_owner.bpf.h. */
const TID = 40;
const IS_WANTED = 44;

type Parts = ReturnType<typeof openRecorderParts>;

/** Records `work`, and returns what became of the disk's requests. */
function recorded(work: (parts: Parts) => number, requestsInFlightMax = IN_FLIGHT_MAX) {
  const dataFolder = temporaryFolder();
  const parts = openRecorderParts(join(dataFolder, 'recording.kreplay'), readClocks, {
    requestsInFlightMax,
  });
  try {
    parts.recorder.drain();
    const requests = work(parts);
    while (parts.recorder.drain()) {}
    parts.writer.flush();
    const { blockIos, losses } = readRecording(dataFolder);
    const events = blockIos().filter(({ device }) => device === disk.name);
    return { requests, events: events.length, lost: losses() };
  } finally {
    parts.remove();
  }
}

const sum = (losses: readonly { lost: number }[]) => losses.reduce((total, { lost }) => total + lost, 0);

/** Any process of the machine may have a request whose end the kernel hides: see `isOthersLoss`. */
test('requests beyond the capacity are counted', () => {
  const { requests, events, lost } = recorded(() => write(DEPTH, REQUESTS));
  expect(requests).toBeGreaterThanOrEqual(REQUESTS);
  expect(events).toBeGreaterThan(0);
  expect(events).toBeLessThan(requests);
  expect(sum(lost)).toBeGreaterThanOrEqual(requests - events);
  expect(new Set(lost.filter((loss) => !isOthersLoss(loss)).map(({ cause }) => cause))).toEqual(new Set(['no_memory']));
});

test('consecutive requests within the capacity are all recorded', () => {
  // The capacity is for all disks of the machine: a write-back of other programs queues thousands of requests at once.
  const { requests, events, lost } = recorded(() => write(8, REQUESTS), 8192);
  expect(lost.filter((loss) => !isOthersLoss(loss))).toEqual([]);
  expect(events).toBeLessThanOrEqual(requests);
  expect(events + sum(lost)).toBeGreaterThanOrEqual(requests);
});

test('bios of requests that ended long ago make room, and are counted', () => {
  const { requests, events, lost } = recorded(({ probes, recorder, clock }) => {
    const { keySize, valueSize, maxEntries } = probes.waitingBios.info;
    for (let i = 1; i <= maxEntries; i++) {
      const value = new Uint8Array(valueSize);
      new BigUint64Array(value.buffer, 0, 1)[0] = BigInt(clock.bootNs()) - ELEVEN_MINUTES_NS;
      probes.waitingBios.set(new Uint8Array(BigUint64Array.of(BigInt(i)).buffer, 0, keySize), value);
    }
    const refused = write(1, 1);
    recorder.drain();
    return refused + write(8, 100);
  });
  const causes = Object.groupBy(lost, ({ cause }) => cause);
  expect(sum(causes.no_memory ?? [])).toBeGreaterThanOrEqual(1);
  const hidden = sum(causes.end_missed ?? []) - IN_FLIGHT_MAX;
  expect(hidden).toBeGreaterThanOrEqual(0);
  expect(events).toBeLessThan(requests);
  expect(events + hidden).toBeGreaterThanOrEqual(requests - 1);
});

test('bios that wait are each listed once, also more than the ring of lists has room for', () => {
  const [WAITING, FORGOTTEN] = [10_007, 997];
  const parts = openRecorderParts(join(temporaryFolder(), 'recording.kreplay'), readClocks, {
    requestsInFlightMax: 16_384,
  });
  try {
    const { waitingBios, forgetBio, readInProgress } = parts.probes;
    const value = new DataView(new ArrayBuffer(waitingBios.info.valueSize));
    value.setUint32(IS_WANTED, 1, true);
    const keyOf = (tid: number) =>
      new Uint8Array(BigUint64Array.of(0xffff_8880_0000_0000n + BigInt(tid) * 192n).buffer);
    for (let tid = 1; tid <= WAITING + FORGOTTEN; tid++) {
      value.setUint32(TID, tid, true);
      waitingBios.set(keyOf(tid), new Uint8Array(value.buffer));
    }
    // The programs have not counted the bios: a difference from the programs' number shows that there are some.
    for (let tid = WAITING + 1; tid <= WAITING + FORGOTTEN; tid++) forgetBio(keyOf(tid));
    const { bios } = readInProgress();
    const words = new Uint32Array(bios.buffer, bios.byteOffset, bios.byteLength / 4);
    const wordAt = (at: number, field: 'timestamp_ns' | 'tid') =>
      words[at + (FRAME_HEADER_SIZE + recordOffset(field)) / 4]!;
    const tids: number[] = [];
    for (let at = 0; at < words.length; at += (FRAME_HEADER_SIZE + ((words[at]! + 7) & ~7)) / 4) {
      // The machine's own bios have a time.
      if (wordAt(at, 'timestamp_ns') === 0) tids.push(wordAt(at, 'tid'));
    }
    const expected = Array.from({ length: WAITING }, (_, i) => i + 1);
    expect(tids.sort((a, b) => a - b)).toEqual(expected);
  } finally {
    parts.remove();
  }
});
