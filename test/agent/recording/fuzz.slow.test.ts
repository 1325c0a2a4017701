/**
 * Tests damage of every kind to a recording of many segments, closed or left by a killed writer with its log: nothing
 * crashes or hangs, rows that are read are correct and unique, and a writer that opens it loses nothing more.
 */
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { PAGE_BYTES } from '../../../agent/recording/format/schema.ts';
import { openReader, type RecordingReader } from '../../../agent/recording/read/reader.ts';
import type { RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { type NumberedBlock, typeRows } from '../../../bpf/schema/block.ts';
import { times } from '../../repeats.ts';
import { blockOf, type Row, START_NS, temporaryFolder, testWriter } from './fixture.ts';

/** The number of cases of each kind of damage to each kind of recording. */
const CASES = times(3);
/** A case that takes longer counts as hanging. */
const CASE_MS_MAX = 5000;

const folder = temporaryFolder();
const closed = join(folder.path, 'closed.kreplay');
const killed = join(folder.path, 'killed.kreplay');
const path = join(folder.path, 'copy.kreplay');
afterAll(() => folder.remove());

/** Rows of each flush: large flushes become segments in pieces, the last ones stay parts. */
const CHECKPOINTED = [4096, 1500, 700];
const LOGGED = [4096, 30, 2000, 5, 60];
const CHECKPOINTED_ROWS = 6296;
const ROWS = 12_487;
/** Marks events that are added to a damaged recording. */
const ADDED_CPU = 77;
const FILES = ['', '-wal', '-shm'] as const;

interface Original {
  pid: number;
  timestamp_ns: bigint;
  event_type: 'sys_write' | 'block_io';
  result: number;
}

/** The first half of MurmurHash3's finalizer: the columns hardly compress, so that most of the file is events. */
function scrambled(value: number): number {
  const bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  return (bits ^ (bits >>> 13)) >>> 0;
}

/** The event as it was written under that number. */
function original(number: number): Original {
  return {
    pid: scrambled(number),
    timestamp_ns: START_NS + BigInt(number) * 1009n - BigInt((number * 7919) % 20_000),
    event_type: number % 5 === 0 ? 'block_io' : 'sys_write',
    result: scrambled(number + 1),
  };
}

function write(flushes: readonly number[], firstNumber: number, writer: RecordingWriter): void {
  let number = firstNumber;
  for (const rows of flushes) {
    const service = writer.nameId(`service-${rows}`);
    const context = writer.contextId({ transactionId: `tx-${rows}`, traceId: null, spanId: null });
    writer.append(blockOf(Array.from({ length: rows }, () => ({ ...original(number++), service, context }) as Row)));
    writer.flush();
  }
}

beforeAll(() => {
  let writer = testWriter(closed);
  write(CHECKPOINTED, 0, writer);
  writer.close();
  copyFileSync(closed, killed);
  const live = join(folder.path, 'live.kreplay');
  copyFileSync(closed, live);
  for (const path of [closed, live]) {
    writer = testWriter(path);
    write(LOGGED, CHECKPOINTED_ROWS, writer);
    if (path === live) for (const file of FILES) copyFileSync(live + file, killed + file);
    writer.close();
  }
});

function restore(from: string): void {
  for (const file of [...FILES, '-journal']) {
    rmSync(path + file, { force: true });
    if (existsSync(from + file)) copyFileSync(from + file, path + file);
  }
}

/** Rows of the block that differ from what was written under their number. */
function untrue(block: NumberedBlock): unknown[] {
  const types = block.columns.get('event_type')!;
  const places = typeRows(block);
  const wrong: unknown[] = [];
  for (let row = 0; row < block.rowCount; row++) {
    // Events added later may reuse numbers that the writer could not know to be in use.
    if (block.columns.get('cpu')![row] === ADDED_CPU) continue;
    const number = Number(block.numbers[row]);
    const was = original(number);
    const is = [
      block.columns.get('pid')![row] === was.pid,
      block.columns.get('timestamp_ns')![row] === was.timestamp_ns,
      block.columns.get('result')![row] === BigInt(was.result),
      types[row] === (was.event_type === 'sys_write' ? 1 : 2),
      types[row] !== 1 || block.columns.get('sys_write.fd')![places[row]!] === 0,
    ];
    if (is.includes(false)) wrong.push({ number, is });
  }
  return wrong;
}

const CODED = { code: expect.stringMatching(/^(recording_|not_a_|unsupported_)/) };

/** Numbers of the events that can be read, in both orders and one by one; undefined if the file cannot be read. */
function readable(): Set<number> | undefined {
  let reader: RecordingReader | undefined;
  try {
    reader = openReader(path);
    reader.info();
    const found = new Set<number>();
    for (const order of ['asc', 'desc'] as const) {
      const numbers = [...reader.scan({ order })].flatMap((block) => {
        expect(untrue(block).slice(0, 2)).toEqual([]);
        return Array.from(block.numbers, Number);
      });
      expect(new Set(numbers).size).toBe(numbers.length);
      for (const number of numbers) found.add(number);
    }
    for (const block of reader.scan({ filter: { transactionId: 'tx-700', services: ['service-700'] } })) void block;
    reader.listTransactions({ limit: 100 });
    while (!reader.transactionIndex.step());
    reader.losses();
    reader.clockSteps();
    reader.services();
    reader.event(BigInt(ROWS >> 1));
    return found;
  } catch (error) {
    if ((error as { matcherResult?: unknown }).matcherResult) throw error;
    expect(error).toMatchObject(CODED);
    return undefined;
  } finally {
    reader?.close();
  }
}

/** Lets a writer open the damaged file, add to it and close it; returns whether it accepted the file. */
function writeMore(): boolean {
  let writer: RecordingWriter | undefined;
  try {
    writer = testWriter(path);
    writer.append(blockOf(Array.from({ length: 50 }, (): Row => ({ cpu: ADDED_CPU, timestamp_ns: START_NS }))));
    writer.flush();
    writer.close();
    return true;
  } catch (error) {
    expect(error).toMatchObject(CODED);
    try {
      writer?.close();
    } catch (again) {
      expect(again).toMatchObject(CODED);
    }
    return false;
  }
}

type Damage = (bytes: Buffer, at: number, size: number) => Buffer;

const pageAt = (at: number) => at - (at % PAGE_BYTES);

const DAMAGES: Record<string, Damage> = {
  flipped: (bytes, at, size) => {
    for (let i = at; i < Math.min(at + (size % 32) + 1, bytes.length); i++) bytes[i]! ^= 1 + (size % 255);
    return bytes;
  },
  zeroed: (bytes, at, size) =>
    bytes.fill(0, pageAt(at), Math.min(bytes.length, pageAt(at) + ((size % 9) + 1) * PAGE_BYTES)),
  cut: (bytes, at) => bytes.subarray(0, at),
  grown: (bytes, at, size) => Buffer.concat([bytes, Buffer.alloc(size % 5000, at)]),
  swapped: (bytes, at, size) => {
    const [from, to] = [pageAt(at), pageAt((at + size * PAGE_BYTES) % bytes.length)];
    const page = Buffer.from(bytes.subarray(from, from + PAGE_BYTES));
    bytes.copy(bytes, from, to, to + PAGE_BYTES);
    page.copy(bytes, to);
    return bytes;
  },
  repeated: (bytes, at, size) => {
    bytes.copy(bytes, pageAt((at + size * PAGE_BYTES) % bytes.length), pageAt(at), pageAt(at) + PAGE_BYTES);
    return bytes;
  },
};

function damage(file: string, kind: string, at: number, size: number): void {
  const bytes = readFileSync(file);
  if (bytes.length > 0) writeFileSync(file, DAMAGES[kind]!(bytes, at % bytes.length, size));
}

describe.each([
  ['closed', ['']],
  ['killed', ['', '-wal', '-shm']],
])('a recording that was %s', (state, files) => {
  test.each(Object.keys(DAMAGES))('%s', damages, CASES * CASE_MS_MAX);

  async function damages(kind: string): Promise<void> {
    const place = fc.tuple(fc.constantFrom(...files), fc.nat(2 ** 30), fc.nat(2 ** 20));
    await fc.assert(
      fc.asyncProperty(place, fc.boolean(), async ([file, at, size], writes) => {
        restore(state === 'closed' ? closed : killed);
        damage(path + file, kind, at, size);
        const before = readable();
        if (writes) {
          writeMore();
          const after = readable();
          if (before) expect([...before].filter((number) => !after?.has(number)).slice(0, 2)).toEqual([]);
        }
        // Yields, so that the time limit of the test is checked between two cases.
        await setImmediate();
      }),
      { numRuns: CASES, endOnFailure: true },
    );
  }
});

test.each(['-wal', '-shm'])('a recording that was killed, without its %s', (file) => {
  restore(killed);
  rmSync(path + file);
  const before = readable()!;
  // Events that were only in the log are lost with it, undetectably.
  expect(before.size).toBe(file === '-wal' ? CHECKPOINTED_ROWS : ROWS);
  expect(writeMore()).toBe(true);
  const after = readable()!;
  expect([...before].filter((number) => !after.has(number)).slice(0, 2)).toEqual([]);
});
