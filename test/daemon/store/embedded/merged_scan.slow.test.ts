/** Tests the merged scan of hand-made blocks of several recordings against a plain sort of all their events. */
import fc from 'fast-check';
import type { NumberedBlock } from '../../../../bpf/schema/block.ts';
import { formatEventId } from '../../../../daemon/base/event_id.ts';
import { createRecordingDictionary, type RecordingBlock } from '../../../../daemon/store/blocks/scanned_block.ts';
import { mergeScans, type RecordingScan } from '../../../../daemon/store/embedded/merged_scan.ts';
import { blockOf, rowsOf } from '../../../agent/recording/fixture.ts';
import { times } from '../../../repeats.ts';

interface Event {
  recordingId: string;
  timestamp: bigint;
  number: bigint;
  type: 'sys_write' | 'block_io';
}

const idOf = (letter: string) => letter.repeat(16);

function blockWith(events: readonly Event[]): NumberedBlock {
  // The number is both in a common column and in one of the type's own: both must stay with their event.
  const rows = events.map(({ timestamp, number, type }) => {
    const own = type === 'sys_write' ? { 'sys_write.fd': number } : { 'block_io.sector': number };
    return { event_type: type, timestamp_ns: timestamp, pid: number, ...own };
  });
  return { ...blockOf(rows), numbers: BigUint64Array.from(events, ({ number }) => number) };
}

function scanOf(recordingId: string, blocks: readonly NumberedBlock[]): RecordingScan & { asked(): number } {
  const dictionary = createRecordingDictionary({
    recordingId,
    node: recordingId,
    name: () => '',
    file: () => undefined,
    context: () => ({ transactionId: null, traceId: null, spanId: null }),
  });
  let asked = 0;
  function* given(): Generator<RecordingBlock, void> {
    for (const block of blocks) {
      asked++;
      yield { block, dictionary };
    }
  }
  return { recordingId, blocks: given(), asked: () => asked };
}

const given = (scanned: Iterable<RecordingBlock>): Event[] =>
  [...scanned].flatMap(({ block, dictionary: { recordingId } }) =>
    rowsOf(block).map((row) => {
      const own = row.event_type === 'sys_write' ? row['sys_write.fd'] : row['block_io.sector'];
      expect([BigInt(row.pid!), BigInt(own!)]).toEqual([row.number, row.number]);
      return { recordingId, timestamp: row.timestamp_ns, number: row.number, type: row.event_type } as Event;
    }),
  );

function compare(a: Event, b: Event): number {
  const [idOfA, idOfB] = [a, b].map(({ recordingId, number }) => formatEventId(recordingId, number));
  if (a.timestamp !== b.timestamp) return a.timestamp < b.timestamp ? -1 : 1;
  return idOfA! < idOfB! ? -1 : idOfA! > idOfB! ? 1 : 0;
}

/** Which events of a recording a file has, and the sizes of its blocks; size 0 is an empty block. */
const file = fc.record({
  has: fc.array(fc.boolean(), { minLength: 1, maxLength: 9 }),
  sizes: fc.array(fc.nat(6), { minLength: 1, maxLength: 4 }).filter((sizes) => sizes.some((size) => size > 0)),
});

const recording = fc.record({
  // Few distinct times, so that ids decide the order.
  events: fc.array(fc.record({ timestamp: fc.bigInt(0n, 12n), isWrite: fc.boolean() }), { maxLength: 25 }),
  files: fc.array(file, { minLength: 1, maxLength: 3 }),
});

function blocksOf(events: readonly Event[], sizes: readonly number[]): NumberedBlock[] {
  const blocks: NumberedBlock[] = [];
  for (let start = 0, i = 0; start < events.length; i++) {
    const size = sizes[i % sizes.length]!;
    blocks.push(blockWith(events.slice(start, start + size)));
    start += size;
  }
  return blocks;
}

test('a merged scan sorts all events and returns each once, even if files overlap', () => {
  fc.assert(
    fc.property(
      fc.array(recording, { minLength: 1, maxLength: 3 }),
      fc.constantFrom('asc', 'desc'),
      fc.option(fc.nat(40), { nil: undefined }),
      (recordings, order, limit) => {
        const ordered = (events: readonly Event[]) =>
          events.toSorted((a, b) => (order === 'asc' ? compare(a, b) : compare(b, a)));
        const held = new Set<Event>();
        const scans = recordings.flatMap(({ events: planned, files }, index) => {
          const recordingId = idOf('abc'[index]!);
          const events = planned.map(({ timestamp, isWrite }, number): Event => {
            return { recordingId, timestamp, number: BigInt(number), type: isWrite ? 'sys_write' : 'block_io' };
          });
          return files.map(({ has, sizes }) => {
            const own = events.filter((_, number) => has[number % has.length]);
            for (const event of own) held.add(event);
            return scanOf(recordingId, blocksOf(ordered(own), sizes));
          });
        });
        const merged = mergeScans(scans, { order, ...(limit !== undefined && { limit }) });
        expect(given(merged)).toEqual(ordered([...held]).slice(0, limit));
      },
    ),
    { numRuns: times(80) },
  );
});

const eventsOf = (letter: string, timestamps: readonly bigint[], firstNumber = 0n): Event[] =>
  timestamps.map((timestamp, i) => {
    return { recordingId: idOf(letter), timestamp, number: firstNumber + BigInt(i), type: 'sys_write' };
  });

test('a block is as long as the other recordings allow', () => {
  const scans = [
    scanOf(idOf('a'), [blockWith(eventsOf('a', [1n, 2n, 3n, 7n, 8n]))]),
    scanOf(idOf('b'), [blockWith(eventsOf('b', [4n, 5n, 6n, 9n]))]),
  ];
  const runs = [...mergeScans(scans, { order: 'asc' })].filter(({ block }) => block.rowCount > 0);
  expect(runs.map((run) => given([run]).map(({ timestamp }) => timestamp))).toEqual([
    [1n, 2n, 3n],
    [4n, 5n, 6n],
    [7n, 8n],
    [9n],
  ]);
  // The next block is not at hand only where it has to be read first.
  expect(runs.map(({ nextAtHand }) => nextAtHand)).toEqual([true, true, false, false]);
});

test('there are no more blocks than changes from one recording to another', () => {
  const timestamps = fc.array(fc.bigInt(0n, 1000n), { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(timestamps, timestamps, (ofA, ofB) => {
      const [a, b] = [eventsOf('a', ofA), eventsOf('b', ofB)].map((events) => events.sort(compare));
      const scans = [scanOf(idOf('a'), [blockWith(a!)]), scanOf(idOf('b'), [blockWith(b!)])];
      const runs = [...mergeScans(scans, { order: 'asc' })].filter(({ block }) => block.rowCount > 0);
      const owners = [...a!, ...b!].sort(compare).map(({ recordingId }) => recordingId);
      expect(runs).toHaveLength(owners.filter((owner, i) => owner !== owners[i - 1]).length);
    }),
  );
});

test('blocks that need no split are passed on unchanged', () => {
  const blocks = [blockWith(eventsOf('a', [1n, 2n])), blockWith(eventsOf('a', [5n, 6n], 2n))];
  const copy = scanOf(idOf('a'), [blockWith(eventsOf('a', [1n, 2n])), blockWith(eventsOf('a', [5n, 6n], 2n))]);
  const merged = [...mergeScans([scanOf(idOf('a'), blocks), copy], { order: 'asc' })];
  const passedOn = merged.map(({ block }) => block).filter(({ rowCount }) => rowCount > 0);
  expect(passedOn.map((block) => blocks.indexOf(block))).toEqual([0, 1]);
});

test('one block of each recording is read ahead, and none after the limit', () => {
  const scans = ['a', 'b', 'c'].map((letter) => {
    const numbers = Array.from({ length: 10 }, (_, i) => BigInt(i));
    return scanOf(
      idOf(letter),
      numbers.map((number) => blockWith(eventsOf(letter, [number], number))),
    );
  });
  let events = 0;
  for (const { block } of mergeScans(scans, { order: 'asc', limit: 20 })) {
    events += block.rowCount;
    for (const { asked } of scans) expect(asked()).toBeLessThanOrEqual(Math.ceil(events / 3) + 1);
  }
  expect(events).toBe(20);
  // The twentieth event is the seventh of b: the merge had to read a's next event, but not those of b and c.
  expect(scans.map(({ asked }) => asked())).toEqual([8, 7, 7]);
});
