/**
 * Tests what segment entries say about columns: a query finds exactly what a plain pass over the rows finds, whatever
 * values the segments have, and whatever happened to the entries.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { encodeFacts } from '../../../../agent/recording/codec/column_facts.ts';
import { computeFactsSeed } from '../../../../agent/recording/format/pieces.ts';
import { type EventFilter, openReader, type RecordingReader } from '../../../../agent/recording/read/reader.ts';
import { isWhole, verifyRecording } from '../../../../agent/recording/read/verify.ts';
import { createBundle } from '../../../../agent/recording/write/bundle.ts';
import { SEAL_AFTER_NS } from '../../../../agent/recording/write/event_buffer.ts';
import { openWriter, type RecordingWriter } from '../../../../agent/recording/write/writer.ts';
import type { EventType } from '../../../../bpf/schema/index.ts';
import { times } from '../../../repeats.ts';
import { blockOf, numbersOf, type Row, START_NS, temporaryFolder } from '../fixture.ts';

const U32_MAX = 2 ** 32 - 1;
const U64_MAX = 2n ** 64n - 1n;
const TYPES: readonly EventType[] = ['sys_write', 'block_io', 'sys_sync'];
const COMMS_MAX = 100;
const TIMES = ['ms', 'hour'] as const;

const folder = temporaryFolder();
const path = join(folder.path, 'recording.kreplay');
/** The writer of the last recording, which is open so that its last events stay parts. */
let open: RecordingWriter | undefined;
afterAll(() => {
  open?.close();
  folder.remove();
});

interface Event {
  type: EventType;
  pid: number;
  comm: number;
  duration: bigint;
  result: bigint;
}

/** How the events of a segment are made from numbers that look random. */
interface Kind {
  rows: number;
  seed: number;
  /** Different pids and comms, and what neighbouring pids differ by. */
  pids: number;
  pidFrom: number;
  pidStep: number;
  comms: number;
  types: readonly EventType[];
  durations: readonly bigint[];
  results: readonly bigint[];
  /** A part stays unsealed until more events or time make it a segment. */
  sealed: boolean;
  after: (typeof TIMES)[number];
}

const kind: fc.Arbitrary<Kind> = fc.record({
  rows: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 500, max: 1300 })),
  seed: fc.integer({ min: 1, max: U32_MAX }),
  pids: fc.constantFrom(1, 2, 20, 64, 65, 300, 1300),
  pidFrom: fc.constantFrom(0, 1, 400, 2 ** 31, U32_MAX - 1300 * 7),
  pidStep: fc.constantFrom(1, 2, 7),
  comms: fc.constantFrom(1, 3, COMMS_MAX),
  types: fc.subarray([...TYPES], { minLength: 1 }),
  durations: fc.subarray([0n, 1n, 500n, 70_000n, 2n ** 63n - 1n, 2n ** 63n, U64_MAX], { minLength: 1 }),
  results: fc.subarray([-(2n ** 63n), -28n, -1n, 0n, 1n, 4096n, 2n ** 63n - 1n], { minLength: 1 }),
  sealed: fc.boolean(),
  after: fc.constantFrom(...TIMES),
});

function eventsOf({ rows, seed, pids, pidFrom, pidStep, comms, types, durations, results }: Kind): Event[] {
  let state = seed;
  const below = (end: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
  const oneOf = <Value>(values: readonly Value[]) => values[below(values.length)]!;
  return Array.from({ length: rows }, () => {
    const pid = pidFrom + below(pids) * pidStep;
    return { type: oneOf(types), pid, comm: below(comms), duration: oneOf(durations), result: oneOf(results) };
  });
}

const rowOf = ({ type, pid, comm, duration, result }: Event, i: number, nameId: (text: string) => number): Row => ({
  event_type: type,
  timestamp_ns: START_NS + BigInt((i * 7919) % 5000),
  duration_ns: duration,
  pid,
  comm: nameId(`comm-${comm}`),
  result,
});

/** Writes the events; the last ones stay parts, and retention removes some of the first when `retains`. */
function write(kinds: readonly Kind[], retains: boolean): Event[] {
  open?.close();
  for (const file of ['', '-wal', '-shm']) rmSync(path + file, { force: true });
  const clock = { nowNs: START_NS };
  const writer = openWriter({
    path,
    node: 'node-1',
    bootId: 'boot',
    machineId: 'machine',
    nowNs: () => clock.nowNs,
    ...(retains && { retention: { ageNs: 1_000_000_000_000n } }),
  });
  open = writer;
  const events: Event[] = [];
  for (const one of kinds) {
    const some = eventsOf(one);
    writer.append(blockOf(some.map((event, i) => rowOf(event, i, writer.nameId))));
    events.push(...some);
    if (one.sealed) clock.nowNs += SEAL_AFTER_NS;
    if (one.after === 'hour' && retains) clock.nowNs += 3_600_000_000_000n;
    writer.flush();
  }
  return events;
}

const absent = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 1 });

const filters: fc.Arbitrary<EventFilter> = fc
  .record({
    pid: absent(fc.constantFrom(0, 1, 2, 401, 403, 407, 5000, 2 ** 31 + 14, U32_MAX, U32_MAX - 1300 * 7 + 14)),
    comms: absent(fc.uniqueArray(fc.constantFrom('comm-0', 'comm-2', 'comm-99', 'comm-100'), { minLength: 1 })),
    failed: absent(fc.boolean()),
    eventTypes: absent(fc.subarray([...TYPES], { minLength: 1 })),
    minDurationNs: absent(fc.constantFrom(0n, 1n, 2n, 70_001n, 2n ** 63n - 1n, 2n ** 63n, U64_MAX)),
    maxDurationNs: absent(fc.constantFrom(0n, 1n, 499n, 2n ** 63n, U64_MAX)),
  })
  .map((filter) => Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined)));

function matches(event: Event, filter: EventFilter): boolean {
  return (
    (filter.pid === undefined || event.pid === filter.pid) &&
    (filter.comms?.includes(`comm-${event.comm}`) ?? true) &&
    (filter.failed === undefined || event.result < 0n === filter.failed) &&
    (filter.eventTypes === undefined || filter.eventTypes.includes(event.type)) &&
    (filter.minDurationNs === undefined || event.duration >= filter.minDurationNs) &&
    (filter.maxDurationNs === undefined || event.duration <= filter.maxDurationNs)
  );
}

function expectSame(reader: RecordingReader, kept: ReadonlyMap<number, Event>, wanted: readonly EventFilter[]): void {
  for (const filter of wanted) {
    const expected = [...kept].filter(([, event]) => matches(event, filter)).map(([number]) => number);
    for (const order of ['asc', 'desc', 'none'] as const) {
      const found = numbersOf(reader.scan({ filter, order, columns: [] })).sort((a, b) => a - b);
      expect({ filter, order, found }).toEqual({ filter, order, found: expected });
    }
  }
  expect(reader.losses().map(({ cause }) => cause)).not.toContain('damaged');
}

function keptOf(reader: RecordingReader, events: readonly Event[]): Map<number, Event> {
  const numbers = numbersOf(reader.scan({ order: 'none' })).sort((a, b) => a - b);
  return new Map(numbers.map((number) => [number, events[number]!]));
}

function change(sql: string, ...values: unknown[]): void {
  const database = new Database(path);
  database.prepare(sql).run(...values);
  database.close();
}

function columnId(name: string): number {
  const database = new Database(path);
  const id = database.prepare('SELECT column_id FROM column_name WHERE name = ?').pluck().get(name) as number;
  database.close();
  return id;
}

test('a filter finds what a plain pass over the rows finds', () => {
  fc.assert(
    fc.property(
      fc.array(kind, { minLength: 1, maxLength: 6 }),
      fc.array(filters, { minLength: 10, maxLength: 10 }),
      fc.boolean(),
      (kinds, wanted, retains) => {
        const events = write(kinds, retains);
        const reader = openReader(path);
        const kept = keptOf(reader, events);
        if (!retains) expect(kept.size).toBe(events.length);
        expectSame(reader, kept, wanted);
        expect(reader.findWrongEntries(9)).toEqual([]);
        reader.close();
      },
    ),
    { numRuns: times(8) },
  );
});

test('a flipped bit in what an entry says hides nothing, and is found by a check', () => {
  fc.assert(
    fc.property(
      fc.array(
        kind.map((one) => ({ ...one, sealed: true, after: 'ms' as const })),
        { minLength: 1, maxLength: 3 },
      ),
      fc.array(filters, { minLength: 5, maxLength: 5 }),
      fc.nat(),
      (kinds, wanted, place) => {
        const events = write(kinds, false);
        const database = new Database(path);
        const entries = database.prepare('SELECT first_number, facts FROM segment WHERE sealed = 1').raw().all();
        for (const [firstNumber, facts] of entries as [number, Buffer][]) {
          const at = place % (8 * facts.length);
          facts[at >>> 3]! ^= 1 << (at & 7);
          database.prepare('UPDATE segment SET facts = ? WHERE first_number = ?').run(facts, firstNumber);
        }
        database.close();
        const reader = openReader(path);
        expectSame(reader, keptOf(reader, events), wanted);
        expect(reader.findWrongEntries(100)).toHaveLength(entries.length);
        reader.close();
      },
    ),
    { numRuns: times(6) },
  );
});

const PLAIN: Kind = {
  ...{ rows: 600, seed: 1, pids: 3, pidFrom: 400, pidStep: 1, comms: 2, types: TYPES },
  ...{ durations: [5n], results: [0n], sealed: true, after: 'ms' },
};

const UNKNOWN_COLUMN = encodeFacts(new Map([[60_000, { extremes: [], ranges: [] }]]), computeFactsSeed(0));

function ofUnknownForm(columnId: number): Buffer {
  const facts = encodeFacts(new Map([[columnId, { ranges: [] }]]), computeFactsSeed(0));
  facts[6] = 77;
  facts.writeUInt32LE(crc32(facts.subarray(4), computeFactsSeed(0)));
  return facts;
}

test.each([
  ['null', () => null, true],
  ['empty', () => Buffer.alloc(0), false],
  ['of another segment', () => encodeFacts(new Map([[1, { ranges: [] }]]), computeFactsSeed(1)), false],
  ['about an unknown column', () => UNKNOWN_COLUMN, true],
  ['of an unknown form', ofUnknownForm, true],
])('facts that are %s rule nothing out', (_, facts, isSound) => {
  const events = write([PLAIN], false);
  change('UPDATE segment SET facts = ?', facts(columnId('pid')));
  const reader = openReader(path);
  expectSame(reader, keptOf(reader, events), [{ pid: 401 }, { pid: 7 }, { failed: true }, { comms: ['comm-1'] }]);
  expect(reader.findWrongEntries(9)).toHaveLength(isSound ? 0 : 1);
  reader.close();
});

test.each([
  ['pid', { ranges: [{ from: 400, to: 401 }] }],
  ['comm', { ranges: [{ from: 900, to: U32_MAX }] }],
  ['pid', { filter: { bits: Uint8Array.of(0, 0), bitsOfValue: 4 } }],
  ['duration_ns', { extremes: [{ eventType: 1, min: 5n, max: 5n }] }],
  ['result', { extremes: [1, 2, 3].map((eventType) => ({ eventType, min: 1n, max: 2n })) }],
])('facts about %s that deny events are found by a check', (column, facts) => {
  write([PLAIN, PLAIN], false);
  expect(isWhole(verifyRecording(path))).toBe(true);
  const blob = encodeFacts(new Map([[columnId(column), facts]]), computeFactsSeed(600));
  change('UPDATE segment SET facts = ? WHERE first_number = 600', blob);
  expect(verifyRecording(path).problems).toEqual([
    'the entry of the segment that begins with event 600 has facts that deny its events',
  ]);
});

test.each([
  'min_timestamp_ns = min_timestamp_ns + 1',
  'max_timestamp_ns = max_timestamp_ns - 1',
  'max_duration_ns = 4',
  'type_mask = 2',
])('an entry with %s is found by a check', (wrong) => {
  write([PLAIN], false);
  change(`UPDATE segment SET ${wrong}`);
  expect(verifyRecording(path).problems).toEqual([
    'the entry of the segment that begins with event 0 denies events that it has',
  ]);
});

/** Damages the columns of all segments, so that reading one is reported. */
function damageColumns(): void {
  change('UPDATE segment SET data = zeroblob(length(data))');
  change('UPDATE segment_piece SET data = zeroblob(length(data))');
}

const MANY = { ...PLAIN, rows: 1300, pids: 300, pidStep: 7, comms: COMMS_MAX };

test.each([
  ['with few values', PLAIN],
  ['in pieces, with many values', MANY],
])('a segment %s that cannot match is not read', (_, one) => {
  write([one, one, one], false);
  damageColumns();
  const reader = openReader(path);
  const wanted: EventFilter[] = [
    ...[398, 0, 50_000, U32_MAX].map((pid) => ({ pid })),
    { comms: ['comm-0'], pid: 5 },
    { failed: true },
    { failed: true, eventTypes: ['block_io'] },
    { minDurationNs: 6n },
    { maxDurationNs: 4n },
  ];
  for (const filter of wanted) {
    for (const order of ['asc', 'desc', 'none'] as const) expect(numbersOf(reader.scan({ filter, order }))).toEqual([]);
    const arrived = reader.arrivals({ filter, from: 0, end: 9000, rowsMax: 9000 });
    expect(arrived?.block.rowCount ?? 0).toBe(0);
    expect({ filter, ...reader.foundDamage() }).toEqual({ filter, any: false, losses: [] });
  }
  expect(numbersOf(reader.scan({ filter: { failed: false } }))).toEqual([]);
  expect(reader.foundDamage().losses).toHaveLength(3);
  reader.close();
});

/** Entries of so many segments without columns after the first one, and with no pid but 9. */
function addEntries(count: number): void {
  const facts = new Map([[columnId('pid'), { ranges: [{ from: 9, to: 9 }] }]]);
  const database = new Database(path);
  const add = database.prepare(`
INSERT INTO segment
SELECT :number, 1, 600, min_timestamp_ns + :number, max_timestamp_ns + :number, max_duration_ns, type_mask, NULL,
  name_from, file_from, context_from, name_end, file_end, context_end, services, :facts, x''
FROM segment
WHERE first_number = 0`);
  database.transaction(() => {
    for (let number = 600; number <= 600 * count; number += 600) {
      add.run({ number, facts: encodeFacts(facts, computeFactsSeed(number)) });
    }
  })();
  database.close();
}

test('a scan that passes many segments lets its consumer do other work', () => {
  const events = write([PLAIN], false);
  addEntries(10_000);
  const reader = openReader(path);
  const matching = events.flatMap((event, number) => (event.pid === 401 ? [number] : []));
  for (const order of ['asc', 'desc', 'none'] as const) {
    const blocks = [...reader.scan({ filter: { pid: 401 }, order, columns: [] })];
    expect(blocks.filter(({ rowCount }) => rowCount === 0).length).toBeGreaterThan(2);
    expect(numbersOf(blocks).sort((a, b) => a - b)).toEqual(matching);
  }
  expect(reader.foundDamage().any).toBe(false);
  reader.close();
});

test('a long event of another type does not make a segment one of interest', () => {
  const slow = { ...PLAIN, types: ['sys_write'] as const, durations: [9000n], results: [-5n] };
  const mixed = [...eventsOf(slow), ...eventsOf({ ...PLAIN, types: ['block_io'] as const })];
  write([], false);
  open!.append(blockOf(mixed.map((event, i) => rowOf(event, i, open!.nameId))));
  open!.flush();
  damageColumns();
  const reader = openReader(path);
  for (const filter of [
    { eventTypes: ['block_io' as const], minDurationNs: 6n },
    { eventTypes: ['block_io' as const], failed: true },
  ])
    expect(numbersOf(reader.scan({ filter }))).toEqual([]);
  expect(reader.foundDamage().any).toBe(false);
  reader.close();
});

test('a bundle has facts about the events that were selected', () => {
  const bundlePath = join(folder.path, 'bundle.kreplay');
  const origin = { recordingId: '00000000000000ab', node: 'n', bootId: 'b', machineId: 'm', createdNs: START_NS };
  const bundle = createBundle({ path: bundlePath, ...origin });
  const events = eventsOf({ ...MANY, results: [-1n, 3n], durations: [1n, 800n] });
  const rows = events.map((event, i) => rowOf(event, i, bundle.nameId));
  bundle.append({ ...blockOf(rows), numbers: BigUint64Array.from(rows, (_, i) => BigInt(3 * i + 5)) });
  bundle.close();
  expect(isWhole(verifyRecording(bundlePath))).toBe(true);
  const reader = openReader(bundlePath, { isForeign: true });
  expectSame(reader, new Map(events.map((event, i) => [3 * i + 5, event])), [
    ...[399, 400, 407, 408].map((pid) => ({ pid })),
    { failed: true },
    { minDurationNs: 800n },
    { comms: ['comm-99'] },
  ]);
  reader.close();
});
