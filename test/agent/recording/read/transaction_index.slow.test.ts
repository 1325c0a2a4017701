/**
 * Tests that an index that follows a writer equals one that is opened afresh: whatever was written, and whatever was
 * removed.
 */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { IDS_IN_USE_MAX } from '../../../../agent/recording/format/ids.ts';
import { openReader, type RecordingReader } from '../../../../agent/recording/read/reader.ts';
import type { RecordingWriter } from '../../../../agent/recording/write/writer.ts';
import { createBlock } from '../../../../bpf/schema/block.ts';
import { sysWrite } from '../../../../bpf/schema/sys_write.ts';
import { times } from '../../../repeats.ts';
import { START_NS, temporaryFolder, testWriter } from '../fixture.ts';

let folder: ReturnType<typeof temporaryFolder>;
let path: string;
let writer: RecordingWriter;
let reader: RecordingReader;
beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder.path, 'recording.kreplay');
  writer = testWriter(path);
  reader = openReader(path);
});
afterEach(() => {
  reader.close();
  writer.close();
  folder.remove();
});

interface Written {
  id: string;
  span?: string;
  at?: number;
  service?: string;
}

function write(events: readonly Written[]): void {
  const block = createBlock(Math.max(events.length, 1));
  block.columns.get('event_type')!.fill(sysWrite.id as never);
  for (const [row, { id, span = null, at = 0, service = 'shop' }] of events.entries()) {
    const context = writer.contextId({ transactionId: id, traceId: null, spanId: span });
    block.columns.get('context')![row] = context;
    block.columns.get('service')![row] = writer.nameId(service);
    block.columns.get('timestamp_ns')![row] = START_NS + BigInt(at);
    block.columns.get('duration_ns')![row] = BigInt(at % 97);
    block.columns.get('result')![row] = BigInt((at % 5) - 1);
  }
  block.rowCount = events.length;
  block.typeCounts[sysWrite.id] = events.length;
  writer.append(block);
  writer.flush();
}

/** Every column of every row that is not removed, as text. */
function held({ transactionIndex: index }: RecordingReader) {
  while (!index.step());
  const columns = index.columns();
  return Array.from({ length: columns.length }, (_, row) => row)
    .filter((row) => columns.gone[row] === 0)
    .map((row) => [
      columns.keys[row],
      columns.hashes[row],
      columns.firstNs[row],
      columns.endNs[row],
      columns.eventCounts[row],
      columns.hasError[row],
      ...index.serviceSets()[columns.serviceSets[row]!]!,
    ])
    .map((values) => values.join(' '));
}

function expectUpToDate(): void {
  const fresh = openReader(path);
  const [found, expected] = [held(reader), held(fresh)];
  // A matcher would take too long on this many rows.
  expect(found.find((row, i) => row !== expected[i])).toBeUndefined();
  expect(found.length).toBe(expected.length);
  fresh.close();
}

const event = fc.record({
  id: fc.integer({ min: 0, max: 12 }).map((number) => `tx-${number}`),
  span: fc.constantFrom('a', 'b'),
  at: fc.nat(1000),
  service: fc.constantFrom('shop', 'cart'),
});

test('any sequence of flushes', () => {
  fc.assert(
    fc.property(fc.array(fc.array(event, { maxLength: 6 }), { maxLength: 12 }), (flushes) => {
      for (const [i, events] of flushes.entries()) {
        write(events.map((one) => ({ ...one, id: `${one.id}/${i >> 2}` })));
        if (i % 3 !== 0) expectUpToDate();
      }
    }),
    { numRuns: times(10) },
  );
});

test('transactions that continue after very many others', () => {
  write([{ id: 'old', at: 500 }]);
  // The context is known, but has no event until much later.
  writer.contextId({ transactionId: 'quiet', traceId: null, spanId: null });
  const rounds = 8;
  for (let round = 0; round < rounds; round++) {
    const count = IDS_IN_USE_MAX / 4;
    write(Array.from({ length: count }, (_, i) => ({ id: `tx-${round}-${i}`, at: round * count + i })));
    for (const id of ['old', 'quiet']) writer.contextId({ transactionId: id, traceId: null, spanId: `${round}` });
    if (round % 3 === 1) write([{ id: 'old', span: `${round}`, at: 100 - round, service: `service-${round}` }]);
    if (round === rounds - 2) write([{ id: 'quiet', span: `${round}`, at: 7 }]);
    expectUpToDate();
  }
  expect(reader.readTransaction('quiet')!.key).toBeLessThan(10);
});

test('a transaction whose oldest events retention has removed', () => {
  const ids = (count: number) => Array.from({ length: count }, (_, i) => ({ id: `tx-${i}`, at: i }));
  write(ids(5000));
  expectUpToDate();
  const remove = (where: string) => {
    const database = new Database(path);
    database.exec(`DELETE FROM transaction_summary WHERE ${where}`);
    database.close();
  };
  remove('transaction_key < 100 AND transaction_key <> 50');
  expectUpToDate();
  expect(held(reader).length).toBe(4902);
  remove('transaction_key BETWEEN 51 AND 3000');
  expectUpToDate();
  write([{ id: 'another', at: 1 }]);
  expectUpToDate();
  // Removed transactions take no space.
  expect(reader.transactionIndex.columns().length).toBeLessThan(4902);
});
