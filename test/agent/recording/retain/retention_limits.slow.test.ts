/**
 * Tests the limits of retention: it must not remove anything still needed, nor everything, to satisfy another limit.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { pinTransaction, unpinTransaction } from '../../../../agent/recording/retain/pins.ts';
import type { RetentionLimits } from '../../../../agent/recording/retain/retention.ts';
import { openWriter, type RecordingWriter } from '../../../../agent/recording/write/writer.ts';
import type { Block } from '../../../../bpf/schema/block.ts';
import { blockOf, numbersOf, type Row, rowsOf, START_NS, temporaryFolder } from '../fixture.ts';

const SECOND_NS = 1_000_000_000n;
const ROWS = 4096;

let folder: ReturnType<typeof temporaryFolder>;
let path: string;
let clock: { nowNs: bigint };

beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder.path, 'recording.kreplay');
  clock = { nowNs: START_NS };
});
afterEach(() => folder.remove());

function open(retention: RetentionLimits): RecordingWriter {
  return openWriter({ path, node: 'n', bootId: 'b', machineId: 'm', nowNs: () => clock.nowNs, retention });
}

const blank = blockOf(Array.from({ length: ROWS }, (): Row => ({})));
let noise = 1;

/** A segment's rows, hard to compress, with these contexts in turn. */
function rows(contexts: readonly number[] = [0]): Block {
  const column = (name: string) => blank.columns.get(name)! as unknown as { [row: number]: number | bigint };
  const [timestamp, pid, tid, context] = ['timestamp_ns', 'pid', 'tid', 'context'].map(column);
  for (let row = 0; row < ROWS; row++) {
    noise = Math.imul(noise ^ (noise >>> 15), 0x2c1b3c6d) + 0x297a2d39;
    timestamp![row] = clock.nowNs + BigInt(row);
    pid![row] = noise >>> 0;
    tid![row] = Math.imul(noise, 0x85ebca6b) >>> 0;
    context![row] = contexts[row % contexts.length]!;
  }
  return blank;
}

function write(writer: RecordingWriter, block: Block): void {
  writer.append(block);
  clock.nowNs += SECOND_NS;
  writer.flush();
}

const eventCount = () => {
  const reader = openReader(path);
  const { eventCount } = reader.info();
  reader.close();
  return eventCount;
};

test('many short transactions do not push all events out of the file', () => {
  const limit = 16 << 20;
  const writer = open({ bytes: limit });
  let transactions = 0;
  for (let i = 0; i < 120; i++) {
    const contexts = Array.from({ length: ROWS / 8 }, () =>
      writer.contextId({ transactionId: `transaction-${transactions++}`, traceId: null, spanId: null }),
    );
    write(writer, rows(contexts));
  }
  expect(statSync(path).size).toBeLessThan(limit * 1.05);
  expect(eventCount()).toBeGreaterThan(40 * ROWS);
  writer.close();
});

test('a reader that blocks the log costs no events', () => {
  const writer = open({ bytes: 8 << 20 });
  for (let i = 0; i < 20; i++) write(writer, rows());
  const holder = new Database(path, { readonly: true });
  holder.exec('BEGIN');
  holder.prepare('SELECT count(*) FROM segment').get();
  for (let i = 0; i < 90; i++) write(writer, rows());
  expect(eventCount()).toBeGreaterThan(60 * ROWS);
  holder.exec('COMMIT');
  holder.close();
  for (let i = 0; i < 60; i++) write(writer, rows());
  expect(eventCount()).toBeGreaterThan(60 * ROWS);
  expect(statSync(path).size + statSync(`${path}-wal`).size).toBeLessThan((8 << 20) * 1.05);
  writer.close();
});

test('a batch with more new names than are in use at a time keeps them all', () => {
  const writer = open({ ageNs: 100n * SECOND_NS });
  write(writer, rows());
  clock.nowNs += 90n * SECOND_NS;
  let files = 0;
  for (let i = 0; i < 12; i++) {
    writer.append(
      blockOf(
        Array.from({ length: ROWS }, (): Row => {
          const file = writer.fileId(`/new/${files}`, 'regular');
          return { timestamp_ns: clock.nowNs, pid: files++, 'sys_write.file': file };
        }),
      ),
    );
  }
  writer.flush();
  for (let i = 0; i < 4; i++) {
    clock.nowNs += 20n * SECOND_NS;
    write(writer, rows());
  }
  const reader = openReader(path);
  expect(reader.losses().map(({ cause }) => cause)).toEqual(['retention']);
  let named = 0;
  for (const block of reader.scan({ filter: { toNs: START_NS + 95n * SECOND_NS } })) {
    for (const row of rowsOf(block)) {
      if (reader.file(row['sys_write.file'] as number)?.path === `/new/${row.pid}`) named++;
    }
  }
  expect(named).toBe(12 * ROWS);
  reader.close();
  writer.close();
});

test('a pinned transaction with events only in a later context is kept with what preceded them', () => {
  const writer = open({ ageNs: 20n * SECOND_NS });
  write(writer, rows());
  writer.contextId({ transactionId: 'pinned', traceId: null, spanId: null });
  const span = writer.contextId({ transactionId: 'pinned', traceId: null, spanId: 's1' });
  write(writer, rows([span]));
  pinTransaction(path, { transactionId: 'pinned', beforeNs: 5n * SECOND_NS, nowNs: clock.nowNs });
  for (let i = 0; i < 60; i++) write(writer, rows());
  const reader = openReader(path);
  expect(numbersOf(reader.scan({ filter: { transactionId: 'pinned' } }))).toHaveLength(ROWS);
  expect(numbersOf(reader.scan({ filter: { toNs: START_NS + SECOND_NS } }))).toHaveLength(ROWS);
  expect(reader.readTransaction('pinned')?.eventCount).toBe(ROWS);
  reader.close();
  writer.close();
});

test('a continuing pinned transaction is kept as it grows, however short the rest is kept', () => {
  const writer = open({ ageNs: 2n * SECOND_NS });
  const context = writer.contextId({ transactionId: 'running', traceId: null, spanId: null });
  write(writer, rows([context]));
  pinTransaction(path, { transactionId: 'running', beforeNs: 0n, nowNs: clock.nowNs });
  for (let i = 0; i < 30; i++) write(writer, rows(i % 5 === 0 ? [context] : [0]));
  const reader = openReader(path);
  expect(numbersOf(reader.scan({ filter: { transactionId: 'running' } }))).toHaveLength(7 * ROWS);
  reader.close();
  writer.close();
});

test('a pinned transaction that never ends takes the file beyond its limit, and others have its newest part, until it is unpinned', () => {
  const limit = 4 << 20;
  const writer = open({ bytes: limit });
  const contextOf = (transactionId: string) => writer.contextId({ transactionId, traceId: null, spanId: null });
  const endless = contextOf('endless');
  const pin = (transactionId: string) => pinTransaction(path, { transactionId, beforeNs: 0n, nowNs: clock.nowNs });
  write(writer, rows([endless]));
  pin('endless');
  for (let i = 0; i < 400; i++) write(writer, rows([i % 2 === 0 ? endless : contextOf(`other-${i}`)]));
  const reader = openReader(path);
  const countOf = (transactionId: string) => numbersOf(reader.scan({ filter: { transactionId } })).length;
  expect(countOf('endless')).toBe(201 * ROWS);
  expect([countOf('other-381'), countOf('other-399')]).toEqual([0, ROWS]);
  reader.close();
  expect(statSync(path).size).toBeGreaterThan(limit * 1.2);
  expect(() => pin('other-399')).toThrow(expect.objectContaining({ code: 'pins_full' }));
  unpinTransaction(path, 'endless');
  for (let i = 0; i < 30; i++) write(writer, rows());
  expect(statSync(path).size).toBeLessThan(limit * 1.05);
  writer.close();
});

test('the clock step in force at the oldest event is kept', () => {
  const writer = open({ ageNs: 20n * SECOND_NS });
  const step = (kind: 'start' | 'step', offsetNs: bigint) =>
    writer.recordClock({ bootNs: clock.nowNs - START_NS, offsetNs, kind, suspendedNs: 0n });
  step('start', START_NS);
  for (let i = 0; i < 30; i++) write(writer, rows());
  step('step', START_NS + 1n);
  for (let i = 0; i < 5; i++) write(writer, rows());
  const kinds = () => {
    const reader = openReader(path);
    const found = reader.clockSteps().map(({ kind }) => kind);
    reader.close();
    return found;
  };
  expect(kinds()).toEqual(['start', 'step']);
  for (let i = 0; i < 40; i++) write(writer, rows());
  expect(kinds()).toEqual(['step']);
  writer.close();
});

test('what was lost while a pinned transaction ran, and the clock of that time, are known until it is unpinned', () => {
  const writer = open({ ageNs: 20n * SECOND_NS });
  const step = (kind: 'start' | 'step', offsetNs: bigint) =>
    writer.recordClock({ bootNs: clock.nowNs - START_NS, offsetNs, kind, suspendedNs: 0n });
  step('start', START_NS);
  const context = writer.contextId({ transactionId: 'pinned', traceId: null, spanId: null });
  const at = { fromNs: clock.nowNs, toNs: clock.nowNs + 1n };
  writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count: 7, ...at });
  write(writer, rows([context]));
  pinTransaction(path, { transactionId: 'pinned', beforeNs: 0n, nowNs: clock.nowNs });
  step('step', START_NS + 1n);
  const known = () => {
    const reader = openReader(path);
    const lost = reader.losses().filter(({ cause }) => cause === 'ring_full');
    const found = { lost: lost.map(({ count }) => count), clocks: reader.clockSteps().map(({ kind }) => kind) };
    reader.close();
    return found;
  };
  for (let i = 0; i < 60; i++) write(writer, rows());
  expect(known()).toEqual({ lost: [7], clocks: ['start', 'step'] });
  unpinTransaction(path, 'pinned');
  for (let i = 0; i < 5; i++) write(writer, rows());
  expect(known()).toEqual({ lost: [], clocks: ['step'] });
  writer.close();
});
