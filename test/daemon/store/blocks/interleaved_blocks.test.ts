/** Blocks with rows of several recordings: each row means what it means in a block of its own recording. */
import fc from 'fast-check';
import type { NumberedBlock } from '../../../../bpf/schema/block.ts';
import { stringify } from '../../../../daemon/base/exact_json.ts';
import { encodeColumnLines } from '../../../../daemon/store/blocks/column_lines.ts';
import { readBlockEvents, readEventKey } from '../../../../daemon/store/blocks/event.ts';
import { encodeJsonRows } from '../../../../daemon/store/blocks/event_json.ts';
import {
  createRecordingDictionary,
  createRowCutter,
  type Dictionary,
  RECORDING_COLUMN,
  type ScannedBlock,
} from '../../../../daemon/store/blocks/scanned_block.ts';
import { createStats } from '../../../../daemon/sums/stats.ts';
import { blockOf } from '../../../agent/recording/fixture.ts';
import { columnAnswer, plainEvent } from '../../column_answer.ts';
import { later } from '../../later.ts';

const RECORDINGS = [
  { recordingId: '00000000000000a1', node: 'one' },
  { recordingId: 'ffffffffffffffff', node: 'two' },
  { recordingId: '0123456789abcdef', node: 'one' },
];

const entries: Pick<Dictionary, 'name' | 'file' | 'context'> = {
  name: (id) => (id === 0 ? '' : `name-${id}`),
  file: (id) => (id === 0 ? undefined : { path: `/file/${id}`, kind: 'regular' }),
  context: (id) => ({ transactionId: id === 0 ? null : `tx-${id}`, traceId: null, spanId: null }),
};
const shared: Dictionary = { ...entries, recording: (index) => RECORDINGS[index]! };
const own = RECORDINGS.map((recording) => createRecordingDictionary({ ...entries, ...recording }));

const rows = fc.array(
  fc.record({
    recording: fc.nat(RECORDINGS.length - 1),
    isWrite: fc.boolean(),
    // Few values, so that rows of several recordings share the ids and the cached text.
    service: fc.nat(3),
    context: fc.nat(3),
    comm: fc.nat(2),
    place: fc.nat(5),
    duration: fc.nat(1000),
    number: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  }),
  { minLength: 1, maxLength: 40 },
);

/** The same rows twice: in one block, and each in a block of its own recording. */
function blocksOf(made: typeof rows extends fc.Arbitrary<infer Rows> ? Rows : never) {
  const block = (some: typeof made): NumberedBlock => ({
    ...blockOf(
      some.map(({ isWrite, service, context, comm, place, duration }) => ({
        event_type: isWrite ? 'sys_write' : 'block_io',
        timestamp_ns: BigInt(made.indexOf(some[0]!)),
        duration_ns: BigInt(duration),
        ...{ service, context, comm },
        ...(isWrite ? { 'sys_write.file': place, 'sys_write.fd': place } : { 'block_io.device': place }),
      })),
    ),
    numbers: BigUint64Array.from(some, ({ number }) => number),
  });
  const together = block(made);
  (together.columns.get('timestamp_ns') as BigUint64Array).set(made.map((_, row) => BigInt(row)));
  together.columns.set(
    RECORDING_COLUMN,
    Uint32Array.from(made, ({ recording }) => recording),
  );
  const alone = made.map((row): ScannedBlock => ({ block: block([row]), dictionary: own[row.recording]! }));
  return { together: { block: together, dictionary: shared } satisfies ScannedBlock, alone };
}

const cases = fc.tuple(rows, fc.nat(), fc.nat());

test('events, their text and their keys are those of the row in its own recording', () => {
  fc.assert(
    fc.property(cases, ([made, a, b]) => {
      const { together, alone } = blocksOf(made);
      const [from, to] = [a % made.length, b % made.length].sort((x, y) => x - y) as [number, number];
      const cut: ScannedBlock = { ...together, block: createRowCutter(together.block)(from, to + 1) };
      const expected = alone.slice(from, to + 1).flatMap(readBlockEvents);
      expect(readBlockEvents(cut)).toEqual(expected);
      const { bytes, ends } = encodeJsonRows(cut);
      for (const [row, event] of expected.entries()) {
        expect(bytes.toString('utf8', row === 0 ? 0 : ends[row - 1], ends[row])).toBe(stringify(event));
        expect(readEventKey(cut, row)).toEqual({ timestamp_ns: event.timestamp_ns, event_id: event.event_id });
        expect(event.event_id.startsWith(RECORDINGS[made[from + row]!.recording]!.recordingId)).toBe(true);
        expect(event.node).toBe(RECORDINGS[made[from + row]!.recording]!.node);
      }
    }),
  );
});

test.each([[['node']], [['node', 'service']], [['comm', 'node', 'transaction_id']]] as const)(
  'sums by %p are those of the rows in their own recordings',
  (groupBy) => {
    fc.assert(
      fc.property(rows, (made) => {
        const { together, alone } = blocksOf(made);
        const sums = (blocks: readonly ScannedBlock[]) => {
          const stats = createStats({ bucketNs: undefined, groupBy });
          for (const scanned of blocks) stats.add(scanned);
          return stats.finish();
        };
        const found = sums([together]);
        expect(found).toEqual(sums(alone));
        const ofOne = made.filter(({ recording }) => RECORDINGS[recording]!.node === 'one');
        const counted = found.stats.filter(({ group }) => group.node === 'one').map(({ count }) => count);
        expect(counted.reduce((sum, count) => sum + count, 0)).toBe(ofOne.length);
      }),
    );
  },
);

async function eventsInColumns(blocks: readonly ScannedBlock[]) {
  const lines: Buffer[] = [];
  for await (const line of encodeColumnLines(later(blocks))) lines.push(Buffer.from(line));
  return columnAnswer(lines.join('')).events;
}

const plain = (blocks: readonly ScannedBlock[]) =>
  blocks.flatMap(readBlockEvents).map((event) => plainEvent(stringify(event)));

test('columns have the events of the rows in their own recordings', async () => {
  await fc.assert(
    fc.asyncProperty(rows, fc.boolean(), async (made, nextAtHand) => {
      const { together, alone } = blocksOf(made);
      expect(await eventsInColumns([together])).toEqual(plain(alone));
      const eachOnItsOwn = alone.map((scanned) => ({ ...scanned, nextAtHand }));
      expect(await eventsInColumns(eachOnItsOwn)).toEqual(plain(alone));
    }),
  );
});

test('columns of a store that has a dictionary for each block', async () => {
  const blocks = Array.from({ length: 3000 }, (_, i): ScannedBlock => {
    const row = { event_type: 'sys_write', timestamp_ns: BigInt(i), duration_ns: 1n, comm: 1, 'sys_write.file': 1 };
    const named = {
      ...entries,
      name: (id: number) => (id === 0 ? '' : `name-${i % 7}`),
      file: (id: number) => (id === 0 ? undefined : { path: `/file/${i % 5}`, kind: 'pipe' }),
    };
    return {
      block: { ...blockOf([row]), numbers: BigUint64Array.of(BigInt(i)) },
      dictionary: createRecordingDictionary({ ...named, ...RECORDINGS[i % 3]! }),
      nextAtHand: i % 500 !== 0,
    };
  });
  expect(await eventsInColumns(blocks)).toEqual(plain(blocks));
});
