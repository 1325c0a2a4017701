/*
 * Tests RingReader against the kernel's ring buffer. A test-run program emits one record per call, so every count is
 * exact; a model of the ring predicts the result of each drain, byte for byte, and which records the kernel refuses.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fc from 'fast-check';
import { type BpfMap, BpfObject, FRAME_HEADER_BYTES, type RingReader } from 'libbpf-ts';
import { compileBpf, thrownBy, u32, u64 } from './compile.ts';

const RING_BYTES = 4096;
const SCRATCH_BYTES = 8192;
const DISCARDED_BYTES = 40;

let file: string;
let object: BpfObject;
let ring: RingReader;
let scratch: BpfMap;
let emitted: number;

beforeAll(() => {
  file = compileBpf('records');
});

beforeEach(() => {
  object = BpfObject.open(file);
  object.setMaxEntries('events', RING_BYTES);
  object.load();
  ring = object.ring('events');
  scratch = object.map('scratch');
  emitted = 0;
});

afterEach(() => object.close());

/** Content that depends on the record's number, so that it differs from every other record and from stale memory. */
function payload(size: number): Uint8Array {
  let state = ++emitted;
  return Uint8Array.from({ length: size }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
}

/** Returns true if the ring had room. */
function emit(content: Uint8Array): boolean {
  const value = new Uint8Array(SCRATCH_BYTES).fill(0xee);
  value.set(content);
  scratch.set(u32(0), value);
  return object.testRun('emit', { ctxIn: u32(0, content.length) }).returnValue === 0;
}

function discard(): boolean {
  return object.testRun('discard', { ctxIn: u32(0, 0) }).returnValue === 0;
}

function lost(): bigint {
  return new DataView(object.map('lost').get(u32(0))!.buffer).getBigUint64(0, true);
}

function frameBytes(size: number): number {
  return FRAME_HEADER_BYTES + Math.ceil(size / 8) * 8;
}

function frame(content: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(frameBytes(content.length));
  new DataView(bytes.buffer).setUint32(0, content.length, true);
  bytes.set(content, FRAME_HEADER_BYTES);
  return bytes;
}

test('an empty ring gives nothing', () => {
  expect(ring.sizeBytes).toBe(RING_BYTES);
  expect(ring.drain(new Uint8Array(64))).toBe(0);
  expect(ring.drain(new Uint8Array(0))).toBe(0);
  expect(ring.pendingBytes()).toBe(0);
});

test('frames hold length, zero, payload and padding to 8 bytes', () => {
  emit(Uint8Array.of(1, 2, 3));
  emit(new Uint8Array(0));
  emit(Uint8Array.of(4, 5, 6, 7, 8, 9, 10, 11));
  expect(ring.pendingBytes()).toBe(40);
  const buffer = new Uint8Array(48).fill(0xaa);
  expect(ring.drain(buffer)).toBe(40);
  // biome-ignore format: a frame a line
  expect([...buffer]).toEqual([
    3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,
    8, 0, 0, 0, 0, 0, 0, 0, 4, 5, 6, 7, 8, 9, 10, 11,
    0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
  ]);
  expect(ring.pendingBytes()).toBe(0);
});

test('what came and went between two looks is in the peak', () => {
  expect(ring.takePeakBytes()).toBe(0);
  emit(payload(16));
  emit(payload(16));
  const buffer = new Uint8Array(RING_BYTES);
  ring.drain(buffer);
  emit(payload(16));
  expect(ring.pendingBytes()).toBe(24);
  expect(ring.takePeakBytes()).toBe(48);
  expect(ring.takePeakBytes()).toBe(0);
  expect(ring.pendingBytes()).toBe(24);
  expect(ring.takePeakBytes()).toBe(24);
});

test('discarded records are skipped, and their space is released', () => {
  for (let turn = 0; turn < 101; turn++) {
    const content = payload(13);
    expect([discard(), emit(content), discard()]).toEqual([true, true, true]);
    const buffer = new Uint8Array(RING_BYTES);
    expect(buffer.subarray(0, ring.drain(buffer))).toEqual(frame(content));
    expect(ring.pendingBytes()).toBe(0);
  }
  discard();
  expect(ring.drain(new Uint8Array(0))).toBe(0);
  expect(ring.pendingBytes()).toBe(0);
});

test('a buffer that the frames fill exactly takes them all; with a byte less the last remains', () => {
  emit(payload(16));
  emit(payload(16));
  expect(ring.drain(new Uint8Array(48))).toBe(48);
  emit(payload(16));
  emit(payload(16));
  expect(ring.drain(new Uint8Array(47))).toBe(24);
  expect(ring.drain(new Uint8Array(24))).toBe(24);
});

test('a record larger than the buffer throws, remains, and fits into a larger buffer', () => {
  const content = payload(100);
  discard();
  emit(content);
  for (const bytes of [0, 8, 111]) {
    const error = thrownBy(() => ring.drain(new Uint8Array(bytes)));
    expect(error).toMatchObject({ code: 'ERR_RECORD_TOO_LARGE', name: 'RangeError' });
    expect(error.message).toContain('112');
  }
  expect(ring.pendingBytes()).toBe(112);
  const buffer = new Uint8Array(112);
  expect(ring.drain(buffer)).toBe(112);
  expect(buffer).toEqual(frame(content));
});

test('records are written into a view at an odd offset, and nothing outside it', () => {
  const content = payload(9);
  emit(content);
  const memory = new Uint8Array(64).fill(0xaa);
  expect(ring.drain(memory.subarray(3, 27))).toBe(24);
  expect(memory.subarray(3, 27)).toEqual(frame(content));
  expect(memory.subarray(0, 3).every((byte) => byte === 0xaa)).toBe(true);
  expect(memory.subarray(27).every((byte) => byte === 0xaa)).toBe(true);
});

test('a full ring refuses records, the program counts them, and its contents are intact', () => {
  const contents: Uint8Array[] = [];
  let refused = 0n;
  for (let i = 0; i < 53; i++) {
    const content = payload(101);
    if (emit(content)) contents.push(content);
    else refused++;
  }
  expect(contents.length).toBe(Math.floor((RING_BYTES - 1) / frameBytes(101)));
  expect(lost()).toBe(refused);
  const buffer = new Uint8Array(RING_BYTES);
  expect(buffer.subarray(0, ring.drain(buffer))).toEqual(Buffer.concat(contents.map(frame)).subarray());
  expect(emit(payload(101))).toBe(true);
});

test('only a Uint8Array is filled', () => {
  emit(payload(8));
  for (const wrong of [
    undefined,
    null,
    8,
    [],
    new ArrayBuffer(64),
    new DataView(new ArrayBuffer(64)),
    new Uint16Array(64),
  ]) {
    expect(thrownBy(() => ring.drain(wrong as unknown as Uint8Array)).code).toBe('ERR_INVALID_ARG_TYPE');
  }
  expect(ring.drain(Buffer.alloc(64))).toBe(16);
});

type Step = { kind: 'emit'; size: number } | { kind: 'discard' } | { kind: 'drain'; bytes: number };

/** A record in the ring; its `content` is undefined if it was discarded. */
type Held = { bytes: number; content: Uint8Array | undefined };

/** Models the contract of drain() on a list. Returns the frames, or the buffer size needed. */
function modelDrain(held: Held[], capacity: number): Uint8Array[] | number {
  const frames: Uint8Array[] = [];
  let left = capacity;
  while (held.length > 0) {
    const { bytes, content } = held[0]!;
    if (content !== undefined && bytes > left) return frames.length === 0 ? bytes : frames;
    held.shift();
    if (content === undefined) continue;
    frames.push(frame(content));
    left -= bytes;
  }
  return frames;
}

test('any mix of records, discards and buffers agrees with the model, around the ring many times', () => {
  const sizes = fc.oneof(fc.integer({ min: 0, max: 64 }), fc.integer({ min: 0, max: RING_BYTES + 100 }));
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 5, arbitrary: sizes.map((size): Step => ({ kind: 'emit', size })) },
    { weight: 1, arbitrary: fc.constant<Step>({ kind: 'discard' }) },
    {
      weight: 2,
      arbitrary: fc.integer({ min: 0, max: 2 * RING_BYTES }).map((bytes): Step => ({ kind: 'drain', bytes })),
    },
  );
  let throughBytes = 0;

  fc.assert(
    fc.property(fc.array(step, { maxLength: 100, size: 'max' }), (steps) => {
      const held: Held[] = [];
      const used = () => held.reduce((sum, each) => sum + each.bytes, 0);
      for (const each of [...steps, { kind: 'drain', bytes: RING_BYTES } as const]) {
        if (each.kind === 'drain') {
          const buffer = new Uint8Array(each.bytes);
          const expected = modelDrain(held, each.bytes);
          if (typeof expected === 'number') {
            expect(thrownBy(() => ring.drain(buffer)).code).toBe('ERR_RECORD_TOO_LARGE');
          } else {
            const filled = ring.drain(buffer);
            expect(Buffer.compare(buffer.subarray(0, filled), Buffer.concat(expected))).toBe(0);
            expect(buffer.subarray(filled).every((byte) => byte === 0)).toBe(true);
          }
        } else {
          const content = each.kind === 'emit' ? payload(each.size) : undefined;
          const bytes = frameBytes(content?.length ?? DISCARDED_BYTES);
          const fits = used() + bytes < RING_BYTES;
          expect(content === undefined ? discard() : emit(content)).toBe(fits);
          if (fits) held.push({ bytes, content });
          if (fits) throughBytes += bytes;
        }
        expect(ring.pendingBytes()).toBe(used());
      }
      expect(held).toEqual([]);
    }),
    { numRuns: 100 },
  );
  expect(throughBytes).toBeGreaterThan(20 * RING_BYTES);
});

test('an unsubmitted record remains with all later ones, and comes first once it is submitted', async () => {
  const busy = BpfObject.open(compileBpf('busy'));
  const child = spawn('cat', { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    busy.load();
    const control = busy.map('control');
    const reader = busy.ring('events');
    const buffer = new Uint8Array(256);
    child.stdin.write('a');
    await once(child.stdout, 'data');
    control.set(u32(0), u32(child.pid!));
    busy.attach('hold');

    child.stdin.write('b');
    const deadline = performance.now() + 5000;
    while (control.get(u32(1))![0] === 0 && performance.now() < deadline);
    expect(busy.testRun('emit_second').returnValue).toBe(0);
    const drainedWhileHeld = reader.drain(buffer);
    const pendingWhileHeld = reader.pendingBytes();
    control.set(u32(2), u32(1));
    expect([drainedWhileHeld, pendingWhileHeld]).toEqual([0, 32]);

    await once(child.stdout, 'data');
    expect(reader.drain(buffer)).toBe(32);
    expect(buffer.subarray(0, 32)).toEqual(u64(8n, 1n, 8n, 2n));
    expect(reader.pendingBytes()).toBe(0);
  } finally {
    child.kill();
    busy.close();
  }
});

test('a ring has one reader; after its close() the next continues where it stopped', () => {
  emit(payload(8));
  const second = payload(8);
  emit(second);
  expect(thrownBy(() => object.ring('events')).code).toBe('ERR_RING_OPEN');
  ring.drain(new Uint8Array(16));
  ring.close();
  ring.close();
  const next = object.ring('events');
  expect(thrownBy(() => ring.drain(new Uint8Array(64))).code).toBe('ERR_CLOSED');
  expect(thrownBy(() => ring.pendingBytes()).code).toBe('ERR_CLOSED');
  const buffer = new Uint8Array(64);
  expect(buffer.subarray(0, next.drain(buffer))).toEqual(frame(second));
});

test('a map that is not a ring buffer is refused', () => {
  expect(thrownBy(() => object.ring('scratch')).code).toBe('ERR_WRONG_TYPE');
  expect(thrownBy(() => object.ring('nothing')).code).toBe('ERR_NOT_FOUND');
});

test('setMaxEntries sizes the ring, rounded up to a power of two', () => {
  object.close();
  object = BpfObject.open(file);
  object.setMaxEntries('events', 60_000);
  object.load();
  ring = object.ring('events');
  expect(ring.sizeBytes).toBe(65_536);
  object.testRun('emit_many', { ctxIn: u32(571, 0) });
  const buffer = new Uint8Array(ring.sizeBytes);
  expect(ring.drain(buffer)).toBe(571 * 112);
  const view = new DataView(buffer.buffer);
  for (let i = 0; i < 571; i++) expect(view.getBigUint64(i * 112 + 8, true)).toBe(BigInt(i));
});
