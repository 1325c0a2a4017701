/**
 * Tests that a segment that cannot match is not decoded: all others are damaged here, and decoding one would be
 * reported.
 */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { openReader, type RecordingScanRequest } from '../../../../agent/recording/read/reader.ts';
import { blockOf, numbersOf, type Row, START_NS, temporaryFolder, testWriter } from '../fixture.ts';

const ROWS = 600;
const folder = temporaryFolder();
const path = join(folder.path, 'recording.kreplay');

beforeAll(() => {
  const writer = testWriter(path);
  for (let segment = 0; segment < 5; segment++) {
    const middle = segment === 2;
    const row: Row = {
      event_type: middle ? 'block_io' : 'sys_write',
      duration_ns: middle ? 5000n : 10n,
      service: writer.nameId(middle ? 'stock' : 'shop'),
      context: writer.contextId({ transactionId: `tx-${segment}`, traceId: `trace-${segment}`, spanId: null }),
    };
    const start = START_NS + BigInt(segment * ROWS);
    writer.append(blockOf(Array.from({ length: ROWS }, (_, i) => ({ ...row, timestamp_ns: start + BigInt(i) }))));
    writer.flush();
  }
  writer.close();
});
afterAll(() => folder.remove());

function damageAllBut(segment: number): void {
  const database = new Database(path);
  database.prepare('UPDATE segment SET data = zeroblob(length(data)) WHERE first_number <> ?').run(segment * ROWS);
  database.close();
}

test('only the segment that can match is decoded', () => {
  damageAllBut(2);
  const reader = openReader(path);
  const requests: RecordingScanRequest[] = [
    { filter: { eventTypes: ['block_io'] } },
    { filter: { minDurationNs: 11n } },
    { filter: { services: ['stock', 'nobody'] } },
    { filter: { transactionId: 'tx-2' } },
    { filter: { traceId: 'trace-2' } },
    { filter: { fromNs: START_NS + 1200n, toNs: START_NS + 1800n } },
    { filter: { fromNs: START_NS + 1200n }, limit: ROWS },
    { filter: { toNs: START_NS + 1800n }, order: 'desc', limit: ROWS },
    { after: { timestampNs: START_NS + 1200n, number: -1n }, limit: ROWS },
  ];
  for (const request of requests) expect(numbersOf(reader.scan(request))).toHaveLength(ROWS);
  expect(reader.losses()).toEqual([]);
  expect(reader.event(1300n)!.rowCount).toBe(1);
  reader.close();
});

test('a damaged segment is left out and reported, and the others are returned', () => {
  damageAllBut(2);
  const reader = openReader(path);
  for (const order of ['asc', 'desc'] as const) {
    expect(numbersOf(reader.scan({ order }))).toHaveLength(ROWS);
    expect(reader.losses()).toHaveLength(4);
  }
  expect(reader.losses(START_NS, START_NS + 1n)).toEqual([
    { cause: 'damaged', eventType: null, count: ROWS, fromNs: START_NS, toNs: START_NS + BigInt(ROWS - 1) },
  ]);
  expect(() => reader.event(5n)).toThrow(expect.objectContaining({ code: 'recording_corrupt' }));
  reader.close();
});
