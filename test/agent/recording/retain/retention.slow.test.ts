/**
 * Tests retention: the file keeps its limit, the oldest events are removed and reported, pinned ones and their context
 * stay.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { IDS_IN_USE_MAX } from '../../../../agent/recording/format/ids.ts';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { pinTransaction, unpinTransaction } from '../../../../agent/recording/retain/pins.ts';
import type { RetentionLimits } from '../../../../agent/recording/retain/retention.ts';
import { openWriter, type RecordingWriter } from '../../../../agent/recording/write/writer.ts';
import { blockOf, numbersOf, type Row, rowsOf, START_NS, temporaryFolder } from '../fixture.ts';

const LIMIT = 4 << 20;
const BATCH_ROWS = 4096;
const BATCH_NS = 1_000_000_000n;

let folder: ReturnType<typeof temporaryFolder>;
let path: string;
let clock: { nowNs: bigint };
let batches: number;

beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder.path, 'recording.kreplay');
  clock = { nowNs: START_NS };
  batches = 0;
});
afterEach(() => folder.remove());

function open(retention: RetentionLimits): RecordingWriter {
  return openWriter({ path, node: 'n', bootId: 'b', machineId: 'm', nowNs: () => clock.nowNs, retention });
}

const block = blockOf(Array.from({ length: BATCH_ROWS }, (): Row => ({})));

/** Writes one second of events, hard to compress, in 16 transactions of their own. */
function writeBatch(writer: RecordingWriter): void {
  const batch = batches++;
  const ids = Array.from({ length: BATCH_ROWS >> 8 }, (_, i) => ({
    context: writer.contextId({ transactionId: `tx-${batch}-${i}`, traceId: null, spanId: null }),
    file: writer.fileId(`/file/${batch}/${i}`, 'regular'),
  }));
  const small = (name: string) => block.columns.get(name)! as Uint32Array;
  const words = (name: string) => new Uint32Array(block.columns.get(name)!.buffer);
  const [timestamp] = [block.columns.get('timestamp_ns')! as BigUint64Array];
  const [pid, tid, comm, context, file] = ['pid', 'tid', 'comm', 'context', 'sys_write.file'].map(small);
  const [duration, result] = ['duration_ns', 'result'].map(words);
  const command = writer.nameId(`command-${batch % 7}`);
  for (let i = 0; i < BATCH_ROWS; i++) {
    const noise = scrambled(batch * BATCH_ROWS + i);
    timestamp![i] = clock.nowNs + BigInt(i * 200_000);
    pid![i] = noise;
    tid![i] = scrambled(noise);
    duration![2 * i] = scrambled(noise + 1);
    result![2 * i] = scrambled(noise + 2);
    comm![i] = command;
    context![i] = ids[i >> 8]!.context;
    file![i] = ids[i >> 8]!.file;
  }
  writer.append(block);
  clock.nowNs += BATCH_NS;
  writer.flush();
}

/** MurmurHash3's finalizer: it leaves no pattern for a compressor. */
function scrambled(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

/** Size of the file and its log. */
const fileBytes = () => statSync(path).size + (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0);

function summary() {
  const reader = openReader(path);
  const { firstTimestampNs, lastTimestampNs, eventCount } = reader.info();
  const removed = reader.losses().filter(({ cause }) => cause === 'retention');
  reader.close();
  return { firstTimestampNs: firstTimestampNs!, lastTimestampNs: lastTimestampNs!, eventCount, removed };
}

function eventsOf(transactionId: string) {
  const reader = openReader(path);
  const rows = [...reader.scan({ filter: { transactionId } })].flatMap(rowsOf);
  const texts = rows.map((row) => [
    reader.file(row['sys_write.file'] as number)?.path,
    reader.name(row.comm as number),
  ]);
  const known = reader.readTransaction(transactionId);
  reader.close();
  return { count: rows.length, texts: [...new Set(texts.map(String))], known: known?.eventCount };
}

test('the file keeps its limit, and the removal of the oldest events is reported', () => {
  const writer = open({ bytes: LIMIT });
  let largest = 0;
  for (let i = 0; i < 75; i++) {
    writeBatch(writer);
    largest = Math.max(largest, fileBytes());
  }
  expect(largest).toBeLessThan(LIMIT * 1.05);
  const { firstTimestampNs, eventCount, removed } = summary();
  expect(eventCount + removed[0]!.count).toBe(75 * BATCH_ROWS);
  expect(removed).toMatchObject([{ cause: 'retention', eventType: null, fromNs: START_NS }]);
  expect(removed[0]!.toNs).toBeLessThan(firstTimestampNs);
  // Most of the space is used.
  expect(fileBytes()).toBeGreaterThan(LIMIT * 0.9);
  expect(eventsOf('tx-74-3')).toEqual({ count: 256, texts: ['/file/74/3,command-4'], known: 256 });
  writer.close();
  expect(statSync(path).size).toBeLessThan(LIMIT * 1.05);
});

test('events are removed by age, and a longer age keeps more', () => {
  const writer = open({ ageNs: 10n * BATCH_NS });
  for (let i = 0; i < 30; i++) writeBatch(writer);
  const { firstTimestampNs, removed } = summary();
  expect(firstTimestampNs).toBeGreaterThanOrEqual(clock.nowNs - 15n * BATCH_NS);
  expect(firstTimestampNs).toBeLessThanOrEqual(clock.nowNs - 10n * BATCH_NS);
  expect(removed).toHaveLength(1);
  writer.close();
});

test('events that are in no sealed segment yet keep their transactions and losses when all segments are removed', () => {
  const writer = open({ ageNs: 5n * BATCH_NS });
  const recordLoss = (atNs: bigint) =>
    writer.recordLoss({ fromNs: atNs, toNs: atNs, cause: 'ring_full', eventType: null, count: 7 });
  recordLoss(clock.nowNs + BATCH_NS);
  for (let i = 0; i < 3; i++) writeBatch(writer);
  clock.nowNs += 20n * BATCH_NS;
  // Nothing was removed from the time of this one.
  recordLoss(clock.nowNs - 10n * BATCH_NS);
  const context = writer.contextId({ transactionId: 'new', traceId: null, spanId: null });
  writer.append(blockOf([{ timestamp_ns: clock.nowNs, duration_ns: 5n, context }]));
  recordLoss(clock.nowNs);
  const keptLossesNs = [clock.nowNs - 10n * BATCH_NS, clock.nowNs];
  clock.nowNs += BATCH_NS;
  for (let i = 0; i < 3; i++) {
    writer.flush();
    clock.nowNs += 1000n;
  }
  expect(summary()).toMatchObject({ eventCount: 1, removed: [{ count: 3 * BATCH_ROWS }] });
  expect(eventsOf('new')).toMatchObject({ count: 1, known: 1 });
  const reader = openReader(path);
  const losses = reader.losses().filter(({ cause }) => cause === 'ring_full');
  expect(losses.map(({ fromNs }) => fromNs)).toEqual(keptLossesNs);
  reader.close();
  expect(pinTransaction(path, { transactionId: 'new', beforeNs: 0n, nowNs: clock.nowNs })).toBeDefined();
  writer.close();
});

test('a transaction that is pinned before its segment is sealed is kept at once', () => {
  const writer = open({ ageNs: BATCH_NS });
  writeBatch(writer);
  const context = writer.contextId({ transactionId: 'new', traceId: null, spanId: null });
  clock.nowNs += 8n * BATCH_NS;
  writer.append(blockOf([{ timestamp_ns: clock.nowNs, context }]));
  writer.flush();
  expect(pinTransaction(path, { transactionId: 'new', beforeNs: 0n, nowNs: clock.nowNs })).toBeDefined();
  // Retention looks at the pins while the transaction's event is in a part.
  writer.append(blockOf([{ timestamp_ns: clock.nowNs }]));
  writer.flush();
  expect(summary().removed).toHaveLength(1);
  for (let i = 0; i < 8; i++) writeBatch(writer);
  expect(eventsOf('new')).toMatchObject({ count: 1, known: 1 });
  writer.close();
});

test('a transaction of which a pinned segment has the last event stays known, and one without events is not pinned', () => {
  const writer = open({ ageNs: 2n * BATCH_NS });
  const first = writer.contextId({ transactionId: 'two', traceId: null, spanId: '0000000000000001' });
  const row = (context: number): Row => ({ timestamp_ns: clock.nowNs, context });
  writer.append(blockOf([row(first)]));
  writeBatch(writer);
  const second = writer.contextId({ transactionId: 'two', traceId: null, spanId: '0000000000000002' });
  const pinned = writer.contextId({ transactionId: 'pinned', traceId: null, spanId: null });
  writer.append(blockOf([row(second), row(pinned)]));
  writeBatch(writer);
  writeBatch(writer);
  expect(pinTransaction(path, { transactionId: 'pinned', beforeNs: 0n, nowNs: clock.nowNs })).toBeDefined();
  for (let i = 0; i < 8; i++) writeBatch(writer);
  expect(eventsOf('pinned').count).toBe(1);
  expect(eventsOf('two')).toMatchObject({ count: 1, known: 2 });
  const database = new Database(path);
  const [key] = database
    .prepare<[], number>("SELECT transaction_key FROM context WHERE transaction_id = 'tx-0-1'")
    .pluck()
    .all();
  expect(key).toBeDefined();
  database.exec(
    `INSERT OR IGNORE INTO transaction_summary SELECT ${key}, ${columnsAfterKey(database)} FROM transaction_summary LIMIT 1`,
  );
  database.exec(`UPDATE transaction_summary SET last_number = 1 WHERE transaction_key = ${key}`);
  database.close();
  expect(pinTransaction(path, { transactionId: 'tx-0-1', beforeNs: 0n, nowNs: clock.nowNs })).toBeUndefined();
  writer.close();
});

function columnsAfterKey(database: Database.Database): string {
  const names = database.prepare<[], string>("SELECT name FROM pragma_table_info('transaction_summary')").pluck().all();
  return names.filter((name) => name !== 'transaction_key').join(', ');
}

test('a pinned transaction is kept with the events just before it until it is unpinned', () => {
  const writer = open({ bytes: LIMIT });
  for (let i = 0; i < 20; i++) writeBatch(writer);
  expect(pinTransaction(path, { transactionId: 'nobody', beforeNs: 0n, nowNs: clock.nowNs })).toBeUndefined();
  const pin = { transactionId: 'tx-12-5', beforeNs: 2n * BATCH_NS, nowNs: clock.nowNs };
  expect(pinTransaction(path, pin)!.pinnedBytes).toBeGreaterThan(3 * 50_000);
  for (let i = 0; i < 75; i++) writeBatch(writer);
  expect(eventsOf('tx-12-5')).toEqual({ count: 256, texts: ['/file/12/5,command-5'], known: 256 });
  for (const before of ['tx-10-15', 'tx-11-0', 'tx-12-0']) expect(eventsOf(before).count).toBe(256);
  for (const gone of ['tx-9-3', 'tx-13-3']) expect(eventsOf(gone)).toMatchObject({ count: 0, known: undefined });
  expect(fileBytes()).toBeLessThan(LIMIT * 1.05);
  expect(unpinTransaction(path, 'tx-12-5')).toBe(true);
  expect(unpinTransaction(path, 'tx-12-5')).toBe(false);
  for (let i = 0; i < 10; i++) writeBatch(writer);
  expect(eventsOf('tx-12-5').count).toBe(0);
  writer.close();
});

test('pins that would take more than half of the space are refused', () => {
  const writer = open({ bytes: LIMIT });
  for (let i = 0; i < 45; i++) writeBatch(writer);
  const last = `tx-${batches - 1}-0`;
  const pin = (beforeNs: bigint) => pinTransaction(path, { transactionId: last, beforeNs, nowNs: clock.nowNs });
  expect(() => pin(100n * BATCH_NS)).toThrow(expect.objectContaining({ code: 'pins_full' }));
  expect(unpinTransaction(path, last)).toBe(false);
  expect(pin(3n * BATCH_NS)!.fromNs).toBeLessThan(clock.nowNs);
  writer.close();
});

test('after the limit was lowered the file shrinks step by step', () => {
  let writer = open({ bytes: 3 * LIMIT });
  for (let i = 0; i < 150; i++) writeBatch(writer);
  writer.close();
  const before = statSync(path).size;
  expect(before).toBeGreaterThan(2 * LIMIT);
  writer = open({ bytes: LIMIT });
  const sizes: number[] = [];
  for (let i = 0; i < 60; i++) {
    writeBatch(writer);
    sizes.push(fileBytes());
  }
  expect(sizes.at(-1)).toBeLessThan(LIMIT * 1.05);
  writer.close();
  const reader = openReader(path);
  expect(numbersOf(reader.scan({ filter: { fromNs: clock.nowNs - BATCH_NS } }))).toHaveLength(BATCH_ROWS);
  reader.close();
});

test('dictionaries lose unreferenced entries, and every remaining event keeps its names', () => {
  const writer = open({ ageNs: 5n * BATCH_NS });
  const longLived = { transactionId: 'long', traceId: 'trace', spanId: null };
  const perBatch = IDS_IN_USE_MAX / 16;
  const batchCount = 40;
  for (let batch = 0; batch < batchCount; batch++) {
    const rows = Array.from({ length: perBatch }, (_, i): Row => {
      const unique = `${batch}-${i}`;
      const text = { transactionId: unique, traceId: null, spanId: null };
      return {
        timestamp_ns: clock.nowNs + BigInt(i),
        pid: i,
        context: writer.contextId(i % 2 === 0 ? text : longLived),
        comm: writer.nameId(i % 3 === 0 ? 'always' : unique),
        'sys_write.file': writer.fileId(`/${unique}`, 'regular'),
      };
    });
    writer.append(blockOf(rows));
    clock.nowNs += BATCH_NS;
    writer.flush();
  }
  const database = new Database(path, { readonly: true });
  const count = (table: string) => database.prepare(`SELECT count(*) FROM ${table}`).pluck().get() as number;
  for (const table of ['context', 'name', 'file', 'transaction_summary']) {
    expect({ table, few: count(table) < 2 * IDS_IN_USE_MAX }).toEqual({ table, few: true });
  }
  expect(count('context_hash')).toBeLessThan(3 * IDS_IN_USE_MAX);
  database.close();

  const reader = openReader(path);
  const wrong: unknown[] = [];
  let events = 0;
  for (const block of reader.scan({})) {
    for (const row of rowsOf(block)) {
      const batch = Number((BigInt(row.timestamp_ns!) - START_NS) / BATCH_NS);
      const i = row.pid as number;
      const unique = `${batch}-${i}`;
      const is = [
        reader.file(row['sys_write.file'] as number)?.path === `/${unique}`,
        reader.name(row.comm as number) === (i % 3 === 0 ? 'always' : unique),
        reader.context(row.context as number).transactionId === (i % 2 === 0 ? unique : 'long'),
      ];
      if (is.includes(false)) wrong.push({ unique, is });
      events++;
    }
  }
  expect(wrong.slice(0, 3)).toEqual([]);
  expect(events).toBeGreaterThanOrEqual(5 * perBatch);
  expect(numbersOf(reader.scan({ filter: { transactionId: 'long' } }))).toHaveLength(events / 2);
  expect(reader.readTransaction('long')!.eventCount).toBe(batchCount * (perBatch / 2));
  reader.close();
  writer.close();
});
