/**
 * Recordings of older formats are read for ever. `samples/version_1.kreplay` was written by the first version and left
 * by a writer that was killed: a sealed segment of 600 events and three parts.
 */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { openReader } from '../../agent/recording/reader.ts';
import { openWriter } from '../../agent/recording/writer.ts';
import { blockOf, numbersOf, type Row, rowsOf, START_NS, temporaryFolder } from './fixture.ts';

const EVENTS = 660;
const folder = temporaryFolder();
const path = join(folder.path, 'recording.kreplay');

beforeEach(() => copyFileSync(join(import.meta.dirname, 'samples/version_1.kreplay'), path));
afterAll(() => folder.remove());

/** What the sample's writer was given as its `i`th event; name ids: 1 shop, 2 pay, 3 vda. */
function original(i: number): Row {
  const transaction = Math.floor(i / 50);
  const common: Row = {
    number: BigInt(i),
    timestamp_ns: START_NS + BigInt(i * 1009 - (i % 7) * 5000),
    duration_ns: BigInt((i * 7919) % 90_000) + (i === 77 ? 30_000_000_000n : 0n),
    cpu: i % 2,
    // Two contexts a transaction: with and without a trace.
    context: i % 5 === 0 ? 0 : contextOf(i, transaction),
    context_source: i % 5 === 0 ? 0 : 1,
    context_quality: 1,
    service: 1 + (i % 2),
    pid: 400 + (i % 3),
    tid: 400 + (i % 9),
    comm: 1 + (i % 2),
    result: i % 50 === 49 ? -28n : BigInt(64 << (i % 6)),
  };
  if (i % 4 === 0) {
    return {
      event_type: 'block_io',
      ...common,
      'block_io.sector': BigInt(i) * 2n ** 33n,
      'block_io.bytes': 4096n,
      'block_io.queue_ns': i % 8 === 0 ? 2n ** 64n - 1n : BigInt(i),
      'block_io.operation': 1,
      'block_io.device': 3,
      'block_io.origins_0_service': 1,
      'block_io.origins_0_context': contextOf(i, transaction),
      'block_io.origins_0_bytes': 4096n,
    };
  }
  return {
    event_type: 'sys_write',
    ...common,
    'sys_write.fd': (i % 30) - 1,
    'sys_write.file': 1 + (i % 2),
    'sys_write.bytes_requested': BigInt(64 << (i % 6)),
    'sys_write.syscall': 1,
  };
}

/** Ids in the order in which the writer met them: the even event of a transaction comes first. */
function contextOf(i: number, transaction: number): number {
  return 1 + 2 * transaction + (i % 2);
}

function readAll() {
  const reader = openReader(path);
  const rows = [...reader.scan({})].flatMap(rowsOf).sort((a, b) => Number(a.number) - Number(b.number));
  const result = {
    rows,
    formatVersion: reader.info().formatVersion,
    losses: reader.losses(),
    clock: reader.clockSteps(),
    transaction: reader.transaction('order-1'),
    ofTransaction: numbersOf(reader.scan({ filter: { transactionId: 'order-1' } })).length,
    slow: numbersOf(reader.scan({ filter: { minDurationNs: 1_000_000_000n } })),
    event: rowsOf(reader.event(650n)!)[0],
    file: reader.file(1),
    names: [1, 2, 3].map(reader.name),
  };
  reader.close();
  return result;
}

function expectSample({ rows, ...rest }: ReturnType<typeof readAll>): void {
  expect(rows).toHaveLength(EVENTS);
  for (const [i, row] of rows.entries()) expect(row).toMatchObject(original(i));
  expect(rest).toMatchObject({
    losses: [{ cause: 'ring_full', eventType: 'sys_write', count: 7, fromNs: START_NS + 10n, toNs: START_NS + 2000n }],
    clock: [{ bootNs: 5n, offsetNs: START_NS, kind: 'start', suspendedNs: 0n }],
    transaction: { eventCount: 42, errorCount: 1, slowestDurationNs: 30_000_069_763n, services: ['pay', 'shop'] },
    ofTransaction: 42,
    slow: [77],
    event: original(650),
    file: { path: '/var/lib/shop/orders.log', kind: 'regular' },
    names: ['shop', 'pay', 'vda'],
  });
}

test('version 1 is read as it is', () => {
  const read = readAll();
  expectSample(read);
  expect(read.formatVersion).toBe(1);
});

test('a writer brings version 1 up to date, keeps everything and goes on', () => {
  const writer = openWriter({ path, node: 'node-1', bootId: 'b', machineId: 'm', nowNs: () => START_NS });
  const upgraded = readAll();
  expectSample(upgraded);
  expect(upgraded.formatVersion).toBe(2);
  expect(writer.nameId('pay')).toBe(2);
  writer.append(blockOf(Array.from({ length: 2000 }, (_, i) => ({ timestamp_ns: START_NS - BigInt(i), pid: i }))));
  writer.close();
  const reader = openReader(path);
  expect(numbersOf(reader.scan({})).sort((a, b) => a - b)).toEqual(Array.from({ length: EVENTS + 2000 }, (_, i) => i));
  expect(reader.event(1000n)!.columns.get('pid')![0]).toBe(1000 - EVENTS);
  reader.close();
  const database = new Database(path);
  expect(database.pragma('integrity_check', { simple: true })).toBe('ok');
  // Only the new segment is in pieces.
  expect(database.prepare('SELECT count(*) FROM segment WHERE length(data) = 0').pluck().get()).toBe(1);
  database.close();
});

test('a reader that was open before the file was brought up to date follows it', () => {
  const reader = openReader(path);
  expect(numbersOf(reader.scan({}))).toHaveLength(EVENTS);
  const writer = openWriter({ path, node: 'node-1', bootId: 'b', machineId: 'm', nowNs: () => START_NS });
  writer.append(blockOf(Array.from({ length: 2000 }, (_, i) => ({ timestamp_ns: START_NS - BigInt(i), pid: i }))));
  writer.flush();
  expect(numbersOf(reader.scan({}))).toHaveLength(EVENTS + 2000);
  expect(reader.info().formatVersion).toBe(2);
  expect(reader.losses().map(({ cause }) => cause)).not.toContain('damaged');
  reader.close();
  writer.close();
});
