/** Tests bundles: selected events of another recording under their own numbers, in any order, and nothing else. */
import { join } from 'node:path';
import fc from 'fast-check';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { createBundle } from '../../../../agent/recording/write/bundle.ts';
import type { NumberedBlock } from '../../../../bpf/schema/block.ts';
import { blockOf, type Row, rowsOf, START_NS, temporaryFolder } from '../fixture.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const RECORDING_ID = '00000000000000ab';
let files = 0;

interface Chosen {
  number: bigint;
  row: Row;
}

function create(blocks: readonly Chosen[][]): string {
  const path = join(folder.path, `${files++}.kreplay`);
  const origin = { recordingId: RECORDING_ID, node: 'node-7', bootId: 'b', machineId: 'm', createdNs: START_NS };
  const bundle = createBundle({ path, ...origin });
  const service = bundle.nameId('shop');
  const contexts = ['a', 'b'].map((id) => bundle.contextId({ transactionId: id, traceId: null, spanId: null }));
  for (const chosen of blocks) {
    if (chosen.length === 0) continue;
    const rows = chosen.map(({ row, number }) => ({ ...row, service, context: contexts[Number(number % 2n)]! }));
    bundle.append({ ...blockOf(rows), numbers: BigUint64Array.from(chosen, ({ number }) => number) });
  }
  bundle.recordLoss({ cause: 'ring_full', eventType: null, count: 3, fromNs: 1n, toNs: 2n });
  bundle.recordClock({ bootNs: 1n, offsetNs: 2n, kind: 'step', suspendedNs: 0n });
  bundle.close();
  return path;
}

const chosen: fc.Arbitrary<Chosen[]> = fc
  .uniqueArray(fc.bigInt({ min: 0n, max: 10_000n }), { maxLength: 200 })
  .chain((numbers) =>
    fc.tuple(
      ...numbers.map((number) =>
        fc.record({
          number: fc.constant(number),
          row: fc.record({
            event_type: fc.constantFrom('sys_write' as const, 'block_io' as const),
            timestamp_ns: fc.bigInt({ min: START_NS, max: START_NS + 50n }),
            pid: fc.nat(1000),
          }),
        }),
      ),
    ),
  );

const numbersIn = (blocks: Iterable<NumberedBlock>) => [...blocks].flatMap((block) => [...block.numbers]);

test('events are found by number, time and transaction, in the total order of their recording', () => {
  fc.assert(
    fc.property(chosen, fc.integer({ min: 1, max: 90 }), (events, size) => {
      const blocks = Array.from({ length: Math.ceil(events.length / size) }, (_, i) =>
        events.slice(i * size, (i + 1) * size),
      );
      const reader = openReader(create(blocks));
      const inOrder = events.toSorted((a, b) =>
        Number(BigInt(a.row.timestamp_ns!) - BigInt(b.row.timestamp_ns!) || a.number - b.number),
      );
      expect(numbersIn(reader.scan({}))).toEqual(inOrder.map(({ number }) => number));
      expect(numbersIn(reader.scan({ order: 'desc' }))).toEqual(inOrder.map(({ number }) => number).reverse());
      const odd = inOrder.filter(({ number }) => number % 2n === 1n).map(({ number }) => number);
      expect(numbersIn(reader.scan({ filter: { transactionId: 'b' } }))).toEqual(odd);
      expect(reader.readTransaction('b')?.eventCount ?? 0).toBe(odd.length);
      const last = inOrder.at(Math.floor(inOrder.length / 2));
      if (last) {
        const after = { timestampNs: BigInt(last.row.timestamp_ns!), number: last.number };
        const rest = inOrder.slice(inOrder.indexOf(last) + 1).map(({ number }) => number);
        expect(numbersIn(reader.scan({ after }))).toEqual(rest);
      }
      for (const { number, row } of events.slice(0, 20)) {
        expect(rowsOf(reader.event(number)!)).toMatchObject([{ number, pid: row.pid, event_type: row.event_type }]);
      }
      expect(reader.event(10_001n)).toBeUndefined();
      reader.close();
    }),
    { numRuns: 40 },
  );
});

test('it names its source and the losses there', () => {
  const reader = openReader(create([[{ number: 5n, row: { timestamp_ns: START_NS } }]]));
  expect(reader.info()).toMatchObject({ recordingId: RECORDING_ID, node: 'node-7', eventCount: 1 });
  expect(reader.losses()).toEqual([{ cause: 'ring_full', eventType: null, count: 3, fromNs: 1n, toNs: 2n }]);
  expect(reader.clockSteps()).toHaveLength(1);
  reader.close();
});

test('a large block is split into several segments', () => {
  const events = Array.from({ length: 9000 }, (_, i): Chosen => {
    return { number: BigInt((i * 7) % 9000) * 3n, row: { timestamp_ns: START_NS + BigInt(i), pid: i } };
  });
  const reader = openReader(create([events]));
  expect(reader.info().eventCount).toBe(9000);
  expect(numbersIn(reader.scan({}))).toEqual(events.map(({ number }) => number));
  for (const { number, row } of events.filter((_, i) => i % 1000 === 0)) {
    expect(rowsOf(reader.event(number)!)).toMatchObject([{ number, pid: row.pid }]);
  }
  reader.close();
});
