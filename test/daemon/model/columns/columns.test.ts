/** Columns from the lines of an answer: exact, and never from lines that are not as agreed. */
import fc from 'fast-check';
import { formatEventId } from '../../../../daemon/base/event_id.ts';
import { createColumnsBuilder } from '../../../../daemon/model/columns/builder.ts';
import {
  collectOrigins,
  type EventColumns,
  getErrorName,
  getEventId,
  getExactValue,
  getOwner,
  getRecording,
  getThread,
  getWhat,
  listBuffers,
  startNs,
  typeName,
} from '../../../../daemon/model/columns/event_columns.ts';
import { mergeColumns } from '../../../../daemon/model/columns/merge.ts';
import { times } from '../../../repeats.ts';
import { BASE_NS, linesOf, type MadeEvent, made } from './made_columns.ts';

const int64 = fc.oneof(
  fc.bigInt({ min: 0n, max: 1_000_000n }),
  fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
  fc.constantFrom(2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n),
);
const name = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', '\u202egnp.exe', ''));
const orNull = <T>(some: fc.Arbitrary<T>) => fc.option(some, { nil: null });

const event: fc.Arbitrary<MadeEvent> = fc
  .record({
    start: fc.oneof(fc.bigInt({ min: 0n, max: 100n }), fc.bigInt({ min: 0n, max: 2n ** 60n })),
    duration: int64,
    type: fc.constantFrom('sys_write' as const, 'block_io' as const, 'sys_sync' as const),
    recordingId: fc.constantFrom('00000000000000aa', 'ffffffffffffffff'),
    ...{ node: fc.constantFrom('n1', '__proto__'), comm: name, service: name, operation: name, source: name },
    target: orNull(name),
    transaction: orNull(name),
    result: fc.oneof(
      int64,
      int64.map((value) => -value),
      fc.constant(-28n),
    ),
    ...{ bytes: orNull(int64), queue: orNull(int64), number: int64, queuedBy: orNull(name) },
    origins: fc.array(fc.tuple(name, orNull(name), fc.nat()), { maxLength: 3 }),
  })
  .map(made);

const byStart = (a: MadeEvent, b: MadeEvent) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0);
const eventsInOrder = fc.array(event, { maxLength: 12, size: 'max' }).map((events) => events.toSorted(byStart));

function read(lines: readonly string[]): EventColumns {
  const builder = createColumnsBuilder();
  for (const line of lines) builder.add(line);
  return builder.finish();
}

/** A row of the columns as the event that it was made from. */
function eventAt(columns: EventColumns, row: number): MadeEvent {
  const { pid, tid, comm, service } = getThread(columns, row);
  const { transactionId, source, quality, queuedBy } = getOwner(columns, row);
  return {
    start: startNs(columns, row) - BASE_NS,
    duration: getExactValue(columns, 'duration', row)!,
    type: typeName(columns, row) as MadeEvent['type'],
    ...getRecording(columns, row),
    ...{ pid, tid, comm, service, source, quality, queuedBy, transaction: transactionId },
    operation: getWhat(columns, row).operation,
    target: getWhat(columns, row).target,
    result: getExactValue(columns, 'result', row)!,
    bytes: getExactValue(columns, 'bytes', row),
    queue: getExactValue(columns, 'queue', row),
    number: getExactValue(columns, 'number', row)!,
    origins: collectOrigins(columns, row).map((one) => [one.service, one.transactionId, Number(one.bytes)] as const),
  };
}

const rowsOf = (columns: EventColumns) => Array.from({ length: columns.count }, (_, row) => eventAt(columns, row));

test('every value comes back exactly, however the events are spread over lines', () => {
  fc.assert(
    fc.property(eventsInOrder, fc.integer({ min: 1, max: 5 }), (events, size) => {
      const columns = read(linesOf(events, size));
      expect(rowsOf(columns)).toEqual(events);
      for (const [row, { recordingId, number, result }] of events.entries()) {
        expect(getEventId(columns, row)).toBe(formatEventId(recordingId, BigInt(number)));
        expect(getErrorName(columns, row) !== null).toBe(result < 0);
      }
    }),
    { numRuns: times(60) },
  );
});

test('columns survive the way from a worker, with their memory and exact values', () => {
  const lines = linesOf([made({ duration: 2n ** 53n + 1n, origins: [['shop', null, 3]] }), made({ start: 7 })]);
  const columns = read(lines);
  const expected = rowsOf(columns);
  const moved = structuredClone(columns, { transfer: listBuffers(columns) });
  expect(rowsOf(moved)).toEqual(expected);
  expect(columns.start).toHaveLength(0);
  expect(listBuffers(moved)).toHaveLength(13);
});

test('a first picture can be made before the end, and the coverage has exact times', () => {
  const builder = createColumnsBuilder();
  const lines = linesOf([made(), made({ start: 5 }), made({ start: 9 })], 1);
  builder.add(lines[0]!);
  expect([builder.finish().count, builder.coverage]).toEqual([1, null]);
  for (const line of lines.slice(1)) builder.add(line);
  expect(builder.count).toBe(3);
  expect(builder.coverage).toEqual({ complete: true, lost: 0, gaps: [], recorded_until: 1764000000123456789n });
  expect(() => builder.add(lines[0]!)).toThrow('line 5 of the events cannot be read: it comes after the last one');
});

test('no event makes empty columns', () => {
  expect(read(linesOf([]))).toMatchObject({ count: 0, baseNs: 0n, start: new Float64Array(0) });
});

test('a line that was cut is an error wherever it was cut', () => {
  const [line] = linesOf([made({ origins: [['shop', 'order-1', 1]] })]);
  for (let length = 0; length < line!.length; length++)
    expect(() => createColumnsBuilder().add(line!.slice(0, length))).toThrow('line 1 of the events cannot be read');
});

test.each<[string, object, RegExp]>([
  ['a list that is too short', { duration: [] }, /duration has 0 values instead of 1/],
  ['a list that is none', { result: { length: 1 } }, /result is no list/],
  ['a fraction', { start: [0.5] }, /start has a value that is no integer/],
  ['a negative duration', { duration: [-1] }, /duration has a value/],
  ['a negative text', { duration: ['-1'] }, /duration has a value/],
  ['an integer that was rounded', { number: [2 ** 53] }, /number has a value/],
  ['a text of many digits', { bytes: ['9'.repeat(100_000)] }, /bytes has a value/],
  ['null where a value is needed', { duration: [null] }, /duration has a value/],
  ['an index beyond its dictionary', { thread: [1] }, /thread has a value that is no index below 1/],
  ['an index that is negative', { owner: [-1] }, /owner has a value that is no index/],
  ['a type beyond a byte', { type: [256] }, /type has a value/],
  ['a base that is a number', { base_ns: 1.5 }, /base_ns has a value/],
  ['no types', { types: null }, /types is no object/],
  ['an operation that is none', { whats: [[1, null, null]] }, /whats has a value that is no text/],
  ['a name of a type that is none', { types: { 1: 5 } }, /types has a value that is no text/],
  ['a key that is no integer', { errors: { __proto__x: 'E' } }, /errors has a key/],
  ['a thread of an unknown recording', { threads: [[4, 1, 1, 'a', 'b']] }, /threads has a value/],
  ['an entry of another length', { whats: [['write', null]] }, /an entry of whats has 2 values instead of 3/],
  ['a name that is none', { owners: [[7, 'marker', 'exact', null]] }, /owners has a value that is no text/],
  ['origins of no row', { origins: [[1, 'a', null, 1]] }, /origins has a value/],
  ['origins of another form', { origins: [[0, 'a', {}, 1]] }, /origins has an owner/],
])('%s is a clear error', (_, change, message) => {
  const line = { ...(JSON.parse(linesOf([made()])[0]!) as object), ...change };
  expect(() => createColumnsBuilder().add(JSON.stringify(line))).toThrow(message);
});

test('any JSON is either read or a clear error, and changes no prototype', () => {
  const [good] = linesOf([made()]);
  fc.assert(
    fc.property(fc.constantFrom(...Object.keys(JSON.parse(good!) as object)), fc.json(), (field, json) => {
      const rest = JSON.stringify({ ...(JSON.parse(good!) as object), [field]: JSON.parse(json) as unknown });
      const line = `{"__proto__":{"polluted":1},${rest.slice(1)}`;
      try {
        expect(read([line]).count).toBeLessThanOrEqual(1);
      } catch (error) {
        expect((error as Error).message).toMatch(/^line 1 of the events cannot be read: /);
      }
      expect(({} as { polluted?: number }).polluted).toBeUndefined();
    }),
    { numRuns: times(100) },
  );
});

test('events out of order are an error, within a line and between lines', () => {
  const events = [made({ start: 5 }), made({ start: 4 })];
  expect(() => read(linesOf(events, 1))).toThrow('line 2 of the events cannot be read: the events are not in order');
  const line = JSON.parse(linesOf([made(), made({ start: 5 })])[0]!) as { start: number[] };
  line.start = [5, 0];
  expect(() => read([JSON.stringify(line)])).toThrow('the events are not in order of start');
});

test('two answers become one, in order and without what both have', () => {
  const unique = fc.uniqueArray(event, { selector: (one) => `${one.recordingId} ${one.number}`, maxLength: 12 });
  fc.assert(
    fc.property(unique, fc.array(fc.constantFrom(1, 2, 3), { minLength: 12 }), (events, sides) => {
      const marked = events.toSorted(byStart).map((one, at) => ({ one, sides: sides[at]! }));
      const [first, second] = [1, 2].map((side) => marked.filter((it) => it.sides & side).map(({ one }) => one));
      const key = ({ start, recordingId, number }: MadeEvent) => `${start} ${recordingId} ${number}`;
      const merged = mergeColumns(read(linesOf(first!)), read(linesOf(second!)));
      const rows = rowsOf(merged);
      const starts = rows.map(({ start }) => start as bigint);
      expect(starts).toEqual(starts.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
      const sorted = (some: MadeEvent[]) => some.toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
      expect(sorted(rows)).toEqual(sorted(events));
    }),
    { numRuns: times(60) },
  );
});

test('columns that have all of the other ones are returned as they are', () => {
  const unique = fc.uniqueArray(event, {
    selector: (one) => `${one.recordingId} ${one.number}`,
    ...{ minLength: 1, maxLength: 12 },
  });
  fc.assert(
    fc.property(unique, fc.array(fc.boolean(), { minLength: 12 }), (some, isKept) => {
      const events = some.toSorted(byStart);
      const all = read(linesOf(events));
      expect(mergeColumns(all, read(linesOf(events.filter((_, at) => isKept[at]))))).toBe(all);
    }),
  );
});
