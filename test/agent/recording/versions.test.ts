/**
 * Tests that recordings of older formats stay readable. Each of `samples` was written by a program of that version and
 * left by a killed writer: a sealed segment and parts. Version 1 has 600 events and 3 times 20, the later ones have
 * 1500, which are in pieces, and 2 times 40.
 */
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { FORMAT_VERSION, PAGE_BYTES } from '../../../agent/recording/format/schema.ts';
import { type EventFilter, openReader } from '../../../agent/recording/read/reader.ts';
import { openWriter } from '../../../agent/recording/write/writer.ts';
import { blockOf, numbersOf, type Row, rowsOf, START_NS, temporaryFolder } from './fixture.ts';

const EVENTS = { 1: 660, 2: 1580, 3: 1580, 4: 1580 } as const;
/** What a page of an SQLite table begins with when it refers to others. */
const INTERIOR_PAGE = 5;
const INTERIOR_HEAD_BYTES = 12;
const CHECKSUM_BYTES = 8;
type Version = keyof typeof EVENTS;
const folder = temporaryFolder();
const path = join(folder.path, 'recording.kreplay');

afterAll(() => folder.remove());

function takeSample(version: Version): void {
  for (const log of ['-wal', '-shm']) rmSync(path + log, { force: true });
  copyFileSync(join(import.meta.dirname, `samples/version_${version}.kreplay`), path);
}

/** The sample's `i`th event as its writer got it; name ids: 1 shop, 2 pay, 3 vda. */
function original(i: number): Row {
  const transaction = Math.floor(i / 50);
  const common: Row = {
    number: BigInt(i),
    timestamp_ns: START_NS + BigInt(i * 1009 - (i % 7) * 5000),
    duration_ns: BigInt((i * 7919) % 90_000) + (i === 77 ? 30_000_000_000n : 0n),
    cpu: i % 2,
    // Two contexts per transaction: with and without a trace.
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

const FILTERS: EventFilter[] = [
  { pid: 401 },
  { pid: 7 },
  { comms: ['pay'], failed: true },
  { comms: ['vda'] },
  { failed: false, eventTypes: ['block_io'] },
  { eventTypes: ['sys_write'], minDurationNs: 89_990n },
];
const MATCHES: ((event: Row) => boolean)[] = [
  ({ pid }) => pid === 401,
  () => false,
  ({ comm, result }) => comm === 2 && (result as bigint) < 0n,
  () => false,
  ({ event_type, result }) => event_type === 'block_io' && (result as bigint) >= 0n,
  ({ event_type, duration_ns }) => event_type === 'sys_write' && (duration_ns as bigint) >= 89_990n,
];

/** Ids in the order in which the writer first saw them: the even event of a transaction comes first. */
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
    filtered: FILTERS.map((filter) => numbersOf(reader.scan({ filter })).length),
    wrongEntries: reader.wrongEntries(9),
    slow: numbersOf(reader.scan({ filter: { minDurationNs: 1_000_000_000n } })),
    event: rowsOf(reader.event(650n)!)[0],
    file: reader.file(1),
    names: [1, 2, 3].map(reader.name),
  };
  reader.close();
  return result;
}

function expectSample(version: Version, { rows, ...rest }: ReturnType<typeof readAll>): void {
  const events = Array.from({ length: EVENTS[version] }, (_, i) => original(i));
  expect(rows).toHaveLength(events.length);
  for (const [i, row] of rows.entries()) expect(row).toMatchObject(original(i));
  expect(rest).toMatchObject({
    losses: expect.arrayContaining([
      { cause: 'ring_full', eventType: 'sys_write', count: 7, fromNs: START_NS + 10n, toNs: START_NS + 2000n },
    ]),
    clock: [{ bootNs: 5n, offsetNs: START_NS, kind: 'start', suspendedNs: 0n }],
    transaction: { eventCount: 42, errorCount: 1, slowestDurationNs: 30_000_069_763n, services: ['pay', 'shop'] },
    ofTransaction: 42,
    filtered: MATCHES.map((matches) => events.filter(matches).length),
    wrongEntries: [],
    slow: [77],
    event: original(650),
    file: { path: '/var/lib/shop/orders.log', kind: 'regular' },
    names: ['shop', 'pay', 'vda'],
  });
}

test.each([1, 2, 3, 4] as const)('version %p is read unchanged', (version) => {
  takeSample(version);
  const read = readAll();
  expectSample(version, read);
  expect(read.formatVersion).toBe(version);
});

test.each([1, 2, 3, 4] as const)('a writer upgrades version %p, keeps everything and continues', (version) => {
  takeSample(version);
  const events = EVENTS[version];
  const writer = openWriter({ path, node: 'node-1', bootId: 'b', machineId: 'm', nowNs: () => START_NS });
  const upgraded = readAll();
  expectSample(version, upgraded);
  expect(upgraded.formatVersion).toBe(FORMAT_VERSION);
  expect(writer.nameId('pay')).toBe(2);
  writer.append(blockOf(Array.from({ length: 2000 }, (_, i) => ({ timestamp_ns: START_NS - BigInt(i), pid: i }))));
  writer.close();
  const reader = openReader(path);
  expect(numbersOf(reader.scan({})).sort((a, b) => a - b)).toEqual(Array.from({ length: events + 2000 }, (_, i) => i));
  expect(reader.event(BigInt(events + 340))!.columns.get('pid')![0]).toBe(340);
  reader.close();
  const database = new Database(path);
  expect(database.pragma('integrity_check', { simple: true })).toBe('ok');
  // Existing segments are not rewritten in pieces.
  expect(database.prepare('SELECT count(*) FROM segment WHERE length(data) = 0').pluck().get()).toBe(
    version === 1 ? 1 : 2,
  );
  database.close();
});

/** Damages the first page of entries in the table of segments, which must have several. */
function damageEntries(): void {
  const database = new Database(path, { readonly: true });
  const root = database.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'segment'").pluck().get() as number;
  database.close();
  const bytes = readFileSync(path);
  const start = (root - 1) * PAGE_BYTES;
  expect(bytes[start]).toBe(INTERIOR_PAGE);
  const firstCell = bytes.readUInt16BE(start + INTERIOR_HEAD_BYTES);
  bytes[bytes.readUInt32BE(start + firstCell) * PAGE_BYTES - CHECKSUM_BYTES - 1]! ^= 1;
  writeFileSync(path, bytes);
}

test('a file of version 3 whose table of segments is damaged is read in part', () => {
  const events = 40 * 600;
  for (const file of ['', '-wal', '-shm']) rmSync(path + file, { force: true });
  const writer = openWriter({ path, node: 'node-1', bootId: 'b', machineId: 'm', nowNs: () => START_NS });
  for (let from = 0; from < events; from += 600) {
    writer.append(blockOf(Array.from({ length: 600 }, (_, i) => ({ timestamp_ns: START_NS + BigInt(from + i) }))));
    writer.flush();
  }
  writer.close();
  const database = new Database(path);
  database.exec('ALTER TABLE segment DROP COLUMN facts; PRAGMA user_version = 3; PRAGMA wal_checkpoint(TRUNCATE)');
  database.close();
  damageEntries();
  const reader = openReader(path);
  for (const order of ['asc', 'desc', 'none'] as const) {
    const found = numbersOf(reader.scan({ order })).length;
    expect(found).toBeGreaterThan(events / 2);
    expect(found).toBeLessThan(events);
    expect(reader.losses().map(({ cause }) => cause)).toContain('damaged');
  }
  reader.close();
});

test.each([1, 2, 3, 4] as const)('a reader that was open before the upgrade of version %p follows it', (version) => {
  takeSample(version);
  const reader = openReader(path);
  expect(numbersOf(reader.scan({}))).toHaveLength(EVENTS[version]);
  const writer = openWriter({ path, node: 'node-1', bootId: 'b', machineId: 'm', nowNs: () => START_NS });
  writer.append(blockOf(Array.from({ length: 2000 }, (_, i) => ({ timestamp_ns: START_NS - BigInt(i), pid: i }))));
  writer.flush();
  expect(numbersOf(reader.scan({}))).toHaveLength(EVENTS[version] + 2000);
  expect(reader.info().formatVersion).toBe(FORMAT_VERSION);
  expect(reader.losses().map(({ cause }) => cause)).not.toContain('damaged');
  reader.close();
  writer.close();
});

test.each([1, 2] as const)('a continuing transaction of version %p has the last end of all its events', (version) => {
  takeSample(version);
  const writer = openWriter({ path, node: 'node-1', bootId: 'b', machineId: 'm', nowNs: () => START_NS });
  const context = writer.contextId({ transactionId: 'order-1', traceId: null, spanId: null });
  const own = { context, context_source: 1, context_quality: 1 };
  const [ownNs, backNs] = [START_NS + 60_000_000_000n, START_NS + 90_000_000_000n];
  writer.append(
    blockOf([
      { event_type: 'sys_write', timestamp_ns: ownNs, duration_ns: 5n, ...own },
      { event_type: 'block_io', timestamp_ns: backNs, duration_ns: 7n, 'block_io.origins_0_context': context },
    ]),
  );
  writer.close();
  const reader = openReader(path);
  const { lastEndNs, writtenBack } = reader.transaction('order-1')!;
  reader.close();
  expect([lastEndNs, writtenBack]).toEqual([backNs + 7n, null]);
});
