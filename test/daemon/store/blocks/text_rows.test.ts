/** Tests that rows written as text equal the serialized event byte for byte. */
import fc from 'fast-check';
import { BLOCK_OPERATIONS } from '../../../../bpf/schema/block_io.ts';
import { COLUMNS } from '../../../../bpf/schema/columns.ts';
import { EVENT_TYPES, findEventDefinition } from '../../../../bpf/schema/index.ts';
import { WRITE_SYSCALLS } from '../../../../bpf/schema/sys_write.ts';
import { stringify } from '../../../../daemon/base/exact_json.ts';
import { createCsvEncoder } from '../../../../daemon/export/formats/csv.ts';
import { formatCsvEvents } from '../../../../daemon/export/formats/csv_lines.ts';
import { readBlockEvents } from '../../../../daemon/store/blocks/event.ts';
import { encodeJsonChunks, encodeJsonRows } from '../../../../daemon/store/blocks/event_json.ts';
import {
  createRecordingDictionary,
  createRowCutter,
  type RecordingBlock,
  type RecordingDictionary,
  type ScannedBlock,
} from '../../../../daemon/store/blocks/scanned_block.ts';
import { blockOf, type Row } from '../../../agent/recording/fixture.ts';
import { times } from '../../../repeats.ts';
import { later } from '../../later.ts';

const LIMITS = {
  u8: [0n, 0xffn],
  u16: [0n, 0xffffn],
  u32: [0n, 0xffff_ffffn],
  i32: [-(2n ** 31n), 2n ** 31n - 1n],
  u64: [0n, 2n ** 64n - 1n],
  i64: [-(2n ** 63n), 2n ** 63n - 1n],
} as const;

const EDGES = [
  ...Array.from({ length: 20 }, (_, digits) => 10n ** BigInt(digits)).flatMap((power) => [power - 1n, power]),
  0n,
  1n,
  9n,
  10n,
  999_999_999n,
  10n ** 9n,
  2n ** 31n,
  2n ** 32n - 1n,
  2n ** 32n,
  2n ** 53n - 1n,
  2n ** 53n,
];
const TIMES = [1_763_683_200_000_000_000n, 1_763_683_200_999_999_999n, 1_763_683_201_000_000_000n];

function valueIn(column: (typeof COLUMNS)[number]): fc.Arbitrary<bigint> {
  const [min, max] = LIMITS[column.storage];
  const edges = [...EDGES, ...TIMES, ...EDGES.map((edge) => -edge), min, max].filter(
    (edge) => edge >= min && edge <= max,
  );
  const any = fc.oneof(fc.constantFrom(...edges), fc.bigInt({ min, max }), fc.bigInt({ min: 0n, max: 5n }));
  if (column.name.endsWith('_source')) return fc.bigInt({ min: 0n, max: 8n });
  if (column.name === 'sys_write.syscall') return fc.constantFrom(...Object.values(WRITE_SYSCALLS).map(BigInt), 99n);
  if (column.name === 'block_io.operation') return fc.constantFrom(...Object.values(BLOCK_OPERATIONS).map(BigInt), 99n);
  return any;
}

const row: fc.Arbitrary<Row> = fc.constantFrom(...EVENT_TYPES).chain((event_type) => {
  const own = COLUMNS.filter(
    ({ name, eventType }) =>
      name !== 'event_type' && (eventType === 0 || findEventDefinition(eventType)!.name === event_type),
  );
  const values = Object.fromEntries(own.map((column) => [column.name, valueIn(column)]));
  return fc.record(values).map((made) => ({ ...made, event_type }) as Row);
});

const nasty = fc.constantFrom(
  '',
  '"',
  '\\',
  '\n',
  '\u2028',
  '\ud800',
  'ä',
  '😀',
  '\0',
  'x'.repeat(20_000),
  '","late":true}',
);
const texts = fc.array(fc.oneof(fc.string({ unit: 'binary' }), nasty), { minLength: 5, maxLength: 5 });

function dictionaryOf(words: readonly string[], recordingId: string): RecordingDictionary {
  const word = (id: number) => words[id % words.length]!;
  return createRecordingDictionary({
    recordingId,
    node: words[0]!,
    name: (id) => (id === 0 ? '' : word(id)),
    file: (id) => (id % 3 === 0 ? undefined : { path: word(id), kind: 'regular' }),
    context: (id) =>
      id === 0
        ? { transactionId: null, traceId: null, spanId: null }
        : { transactionId: word(id), traceId: word(id + 1), spanId: id % 2 ? null : word(id + 2) },
  });
}

function rowTexts(scanned: ScannedBlock): string[] {
  const { bytes, ends } = encodeJsonRows(scanned);
  return Array.from(ends, (end, row) => bytes.toString('utf8', row === 0 ? 0 : ends[row - 1], end));
}

test('rows as text equal their events', async () => {
  const blocks = fc.array(
    fc.record({
      rows: fc.array(row, { maxLength: 12 }),
      second: fc.boolean(),
      numbers: fc.infiniteStream(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })),
      cut: fc.nat(3),
      nextAtHand: fc.boolean(),
    }),
    { minLength: 1, maxLength: 5 },
  );
  await fc.assert(
    fc.asyncProperty(texts, blocks, async (words, made) => {
      const dictionaries = [dictionaryOf(words, '00000000000000a1'), dictionaryOf(words, 'ffffffffffffffff')] as const;
      const scanned = made.map(({ rows, second, numbers, cut, nextAtHand }): ScannedBlock => {
        const block = { ...blockOf(rows), numbers: BigUint64Array.from(rows, () => numbers.next().value!) };
        return {
          block: createRowCutter(block)(Math.min(cut, rows.length), rows.length),
          dictionary: dictionaries[second ? 1 : 0],
          nextAtHand,
        };
      });
      let text = '';
      for await (const chunk of encodeJsonChunks(later(scanned), '\n')) text += chunk.toString();
      const expected = scanned.flatMap(readBlockEvents).map((event) => `${stringify(event)}\n`);
      expect(text).toBe(expected.join(''));
      expect(scanned.flatMap(rowTexts)).toEqual(scanned.flatMap(readBlockEvents).map(stringify));
      const csv = createCsvEncoder();
      const lines = [...scanned.flatMap((some) => [...csv.encodeChunks(some as RecordingBlock)]), csv.tail()].join('');
      // UTF-8 has no halves of a surrogate pair.
      expect(lines).toBe(formatCsvEvents(scanned.flatMap(readBlockEvents)).toWellFormed());
    }),
    { numRuns: times(25) },
  );
});

test('texts of more dictionary entries than are kept equal those of their events', async () => {
  const long = 'x'.repeat(1000);
  const dictionary: RecordingDictionary = {
    ...dictionaryOf(['node'], '00000000000000a1'),
    name: (id) => `${long}${id}`,
  };
  const scanned = Array.from({ length: 40 }, (_, block): ScannedBlock => {
    const rows = Array.from({ length: 250 }, (_row, row): Row => ({ event_type: 'sys_sync', comm: block * 250 + row }));
    return { block: { ...blockOf(rows), numbers: new BigUint64Array(rows.length) }, dictionary };
  });
  let text = '';
  for await (const chunk of encodeJsonChunks(later([...scanned, ...scanned]), '\n')) text += chunk.toString();
  const expected = scanned.flatMap(readBlockEvents).map((event) => `${stringify(event)}\n`);
  expect(text).toBe([...expected, ...expected].join(''));
});

test('a row longer than any chunk is whole', async () => {
  const words = ['y'.repeat(300_000)];
  const rows: Row[] = [{ event_type: 'sys_write', comm: 1, service: 1 }, { event_type: 'sys_sync' }];
  const block = { ...blockOf(rows), numbers: new BigUint64Array(2) };
  const scanned: ScannedBlock = { block, dictionary: dictionaryOf(words, '00000000000000a1') };
  let text = '';
  for await (const chunk of encodeJsonChunks(later([scanned]), '\n')) text += chunk.toString();
  expect(text).toBe(
    readBlockEvents(scanned)
      .map((event) => `${stringify(event)}\n`)
      .join(''),
  );
});

test('a block without a column that its rows need is refused, never written with other values', () => {
  const block = { ...blockOf([{ event_type: 'sys_write' }]), numbers: new BigUint64Array(1) };
  for (const name of ['duration_ns', 'sys_write.fd', 'event_type', 'comm']) {
    const columns = new Map(block.columns);
    columns.delete(name);
    const scanned: ScannedBlock = { block: { ...block, columns }, dictionary: dictionaryOf([''], '00000000000000a1') };
    expect(() => encodeJsonRows(scanned)).toThrow();
  }
});
