/** Tests BpfObject.rings(), rings in an array of maps which a program chooses by number, and waiting for records. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { BpfObject, type RingReader } from 'libbpf-ts';
import { times } from '../repeats.ts';
import { compileBpf, thrownBy, u32 } from './compile.ts';

const RINGS_MAX = 5;
const RING_BYTES = 4096;
/** A record of 8 bytes with its header. */
const FRAME_BYTES = 16;
const NO_ROOM = 1;
const NO_RING = 2;

let object: BpfObject;

beforeEach(() => {
  object = BpfObject.open(compileBpf('rings'));
});

afterEach(() => object.close());

/** BPF_RB_*, include/uapi/linux/bpf.h. */
const NO_WAKEUP = 1;
const FORCE_WAKEUP = 2;

const emit = (ring: number, value: number, flags = NO_WAKEUP) =>
  object.testRun('emit', { ctxIn: u32(ring, value, flags) }).returnValue;

/** The values of the frames in the first `filled` bytes. */
function valuesIn(buffer: Uint8Array, filled: number): number[] {
  const view = new DataView(buffer.buffer, buffer.byteOffset);
  return Array.from({ length: filled / FRAME_BYTES }, (_, i) => view.getUint32(i * FRAME_BYTES + 8, true));
}

function values(ring: RingReader): number[] {
  const buffer = new Uint8Array(RING_BYTES);
  return valuesIn(buffer, ring.drain(buffer));
}

test('each ring has its own records, in order, and its own positions', () => {
  object.load();
  const rings = object.rings('rings', 3, RING_BYTES);
  expect(rings.map(({ sizeBytes }) => sizeBytes)).toEqual([RING_BYTES, RING_BYTES, RING_BYTES]);
  fc.assert(
    fc.property(fc.array(fc.nat(2), { maxLength: 60 }), (chosen) => {
      const expected: number[][] = [[], [], []];
      const before = rings.map((ring) => ring.consumedBytes());
      chosen.forEach((ring, value) => {
        expect(emit(ring, value)).toBe(0);
        expected[ring]!.push(value);
      });
      expect(rings.map((ring) => ring.pendingBytes())).toEqual(expected.map(({ length }) => length * FRAME_BYTES));
      expect(rings.map(values)).toEqual(expected);
      expect(rings.map((ring, i) => ring.consumedBytes() - before[i]!)).toEqual(
        expected.map(({ length }) => length * FRAME_BYTES),
      );
    }),
    { numRuns: times(30) },
  );
});

test('a map of maps holds the map that was put there last, and no program uses the replaced one any more', () => {
  object.load();
  const [numbers, first, second] = ['numbers', 'first', 'second'].map((name) => object.map(name));
  const count = () => object.testRun('count').returnValue;
  const readCounts = () =>
    [first!, second!].map((map) => Number(new BigUint64Array(map.get(u32(0))!.slice().buffer)[0]));
  const expected = [0, 0];
  for (const at of [0, 1, 1, 0, 1]) {
    numbers!.setMap(u32(0), at === 0 ? first! : second!);
    for (let i = 0; i <= at; i++) expect(count()).toBe(0);
    expected[at]! += at + 1;
    expect(readCounts()).toEqual(expected);
  }
  expect(thrownBy(() => first!.setMap(u32(0), second!)).code).toBe('ERR_WRONG_TYPE');
  expect(thrownBy(() => numbers!.setMap(u32(0), numbers!)).code).toBe('EINVAL');
  expect(thrownBy(() => numbers!.setMap(u32(1), first!)).code).toBe('E2BIG');
  expect(thrownBy(() => numbers!.setMap(new Uint8Array(3), first!)).code).toBe('ERR_OUT_OF_RANGE');
  expect(thrownBy(() => object.map('rings').setMap(u32(0), first!)).code).toBe('EINVAL');
  const other = BpfObject.open(compileBpf('rings'));
  other.load();
  const foreign = other.map('first');
  expect(thrownBy(() => numbers!.setMap(u32(0), foreign)).code).toBe('ERR_WRONG_TYPE');
  other.close();
  object.close();
  expect(thrownBy(() => numbers!.setMap(u32(0), first!)).code).toBe('ERR_CLOSED');
});

test('several rings are drained into one buffer, as far as it has room', () => {
  object.load();
  const rings = object.rings('rings', 2, RING_BYTES);
  for (const value of [10, 11, 12]) emit(0, value);
  for (const value of [20, 21, 22]) emit(1, value);
  const buffer = new Uint8Array(5 * FRAME_BYTES + 3).fill(0xaa);
  let filled = rings[0]!.drain(buffer);
  filled += rings[1]!.drain(buffer, filled);
  expect(valuesIn(buffer, filled)).toEqual([10, 11, 12, 20, 21]);
  expect(buffer.subarray(filled).every((byte) => byte === 0xaa)).toBe(true);
  // There is no room for a whole frame, but the buffer as a whole could take the record.
  expect([rings[1]!.drain(buffer, filled), rings[1]!.drain(buffer, buffer.length)]).toEqual([0, 0]);
  expect(values(rings[1]!)).toEqual([22]);
  for (const start of [buffer.length + 1, 2 ** 32 - 1])
    expect(thrownBy(() => rings[0]!.drain(buffer, start))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
  for (const start of [-1, 0.5, Number.NaN, '0'])
    expect(thrownBy(() => rings[0]!.drain(buffer, start as number))).toMatchObject({ name: 'TypeError' });
});

test('a full ring refuses records while the others take them', () => {
  object.load();
  const rings = object.rings('rings', 3, RING_BYTES);
  const results = Array.from({ length: 300 }, (_, value) => emit(1, value));
  const taken = results.indexOf(NO_ROOM);
  expect(taken).toBeGreaterThan(200);
  expect([emit(0, 1), emit(2, 2), emit(1, 3)]).toEqual([0, 0, NO_ROOM]);
  expect(rings.map((ring) => values(ring).length)).toEqual([1, taken, 1]);
  expect(emit(1, 4)).toBe(0);
  expect(rings.map((ring) => ring.takePeakBytes())).toEqual([FRAME_BYTES, taken * FRAME_BYTES, FRAME_BYTES]);
});

test('a program finds no ring before rings() and behind the last ring', () => {
  object.load();
  expect(emit(0, 1)).toBe(NO_RING);
  object.rings('rings', RINGS_MAX - 1, RING_BYTES);
  expect([emit(RINGS_MAX - 2, 1), emit(RINGS_MAX - 1, 1), emit(RINGS_MAX, 1)]).toEqual([0, NO_RING, NO_RING]);
});

test('a wrong use has a code, and leaves no ring behind', () => {
  const code = (run: () => unknown) => thrownBy(run).code;
  expect(code(() => object.rings('rings', 1, RING_BYTES))).toBe('ERR_NOT_LOADED');
  object.load();
  expect(code(() => object.rings('nothing', 1, RING_BYTES))).toBe('ERR_NOT_FOUND');
  expect(code(() => object.ring('rings'))).toBe('ERR_WRONG_TYPE');
  expect(code(() => object.rings('arrays', 1, RING_BYTES))).toBe('EINVAL');
  for (const count of [0, RINGS_MAX + 1])
    expect(code(() => object.rings('rings', count, RING_BYTES))).toBe('ERR_OUT_OF_RANGE');
  for (const bytes of [0, 4095, 3 * 4096]) expect(code(() => object.rings('rings', 2, bytes))).toBe('EINVAL');
  expect(emit(0, 1)).toBe(NO_RING);
  const rings = object.rings('rings', 2, RING_BYTES);
  expect(code(() => object.rings('rings', 2, RING_BYTES))).toBe('ERR_RING_OPEN');
  rings[0]!.close();
  expect(code(() => rings[0]!.consumedBytes())).toBe('ERR_CLOSED');
  expect([emit(1, 7), values(rings[1]!)]).toEqual([0, [7]]);
  object.close();
  expect(code(() => rings[1]!.pendingBytes())).toBe('ERR_CLOSED');
});

describe('waiting', () => {
  let rings: RingReader[];

  beforeEach(() => {
    object.load();
    rings = object.rings('rings', 2, RING_BYTES);
  });

  test('ends with the first wake-up of the ring, and not with a record without one', async () => {
    const waited = rings[0]!.waitForRecords();
    let ended = false;
    void waited.then(() => {
      ended = true;
    });
    // The event loop begins to wait in its next turn.
    await sleep(20);
    emit(0, 1);
    emit(1, 1, FORCE_WAKEUP);
    await sleep(50);
    expect(ended).toBe(false);
    emit(0, 2, FORCE_WAKEUP);
    expect(await waited).toBe(true);
    expect(values(rings[0]!)).toEqual([1, 2]);
  });

  test('ends at once if there are records, by its time or signal, and when the ring or the object is closed', async () => {
    emit(0, 1);
    expect(await rings[0]!.waitForRecords()).toBe(true);
    values(rings[0]!);
    expect(await rings[0]!.waitForRecords({ timeoutMs: 20 })).toBe(false);
    expect(await rings[0]!.waitForRecords({ signal: AbortSignal.timeout(20) })).toBe(false);
    expect(await rings[0]!.waitForRecords({ signal: AbortSignal.abort() })).toBe(false);
    const [first, second] = [rings[0]!.waitForRecords(), rings[1]!.waitForRecords()];
    await expect(rings[0]!.waitForRecords()).rejects.toMatchObject({ code: 'ERR_RING_WAITING' });
    rings[0]!.close();
    expect(await first).toBe(false);
    object.close();
    expect(await second).toBe(false);
    await expect(rings[1]!.waitForRecords()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  });

  test('batches gives all records, and ends with the object', async () => {
    const seen: number[] = [];
    const reading = (async () => {
      for await (const batch of rings[0]!.batches()) seen.push(...valuesIn(batch, batch.length));
    })();
    for (let value = 0; value < 1000; value++) {
      expect(emit(0, value, 0)).toBe(0);
      if (value % 100 === 0) await sleep(1);
    }
    while (seen.length < 1000) await sleep(1);
    object.close();
    await reading;
    expect(seen).toEqual(Array.from({ length: 1000 }, (_, value) => value));
  });

  test('a wait keeps a process alive, and a worker that waits can be terminated', async () => {
    const script = `
      import { BpfObject } from ${JSON.stringify(import.meta.resolve('libbpf-ts'))};
      import { isMainThread, parentPort, Worker } from 'node:worker_threads';
      const object = BpfObject.open(${JSON.stringify(compileBpf('rings'))});
      object.load();
      const [ring] = object.rings('rings', 1, ${RING_BYTES});
      if (isMainThread) {
        const worker = new Worker(new URL(import.meta.url));
        worker.once('message', async () => {
          const code = await worker.terminate();
          process.stdout.write('terminated ' + code);
        });
        process.stdout.write(String(await ring.waitForRecords({ timeoutMs: 500 })) + ' ');
      } else {
        parentPort.postMessage('waits');
        await ring.waitForRecords();
      }`;
    const file = join(mkdtempSync(join(tmpdir(), 'kreplay-wait-')), 'wait.mjs');
    writeFileSync(file, script);
    const { stdout, stderr, status } = spawnSync(process.execPath, [file], { encoding: 'utf8' });
    rmSync(dirname(file), { recursive: true });
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toContain('terminated 1');
    expect(stdout).toContain('false');
  });
});
