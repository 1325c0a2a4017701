/**
 * Tests every filter, order, page and interleaving against a plain filter and sort over the rows. The recording has
 * parts and segments as a writer happens to leave them, and grows and is sealed during a scan.
 */
import { join } from 'node:path';
import fc from 'fast-check';
import { openReader, type RecordingScanRequest } from '../../../../agent/recording/read/reader.ts';
import { SEAL_AFTER_NS } from '../../../../agent/recording/write/event_buffer.ts';
import type { NumberedBlock } from '../../../../bpf/schema/block.ts';
import type { EventType } from '../../../../bpf/schema/index.ts';
import { times } from '../../../repeats.ts';
import { blockOf, numbersOf, type Row, rowsOf, START_NS, temporaryFolder, testWriter } from '../fixture.ts';

const SERVICES = ['', 'shop', 'pay', 'stock'];
const TRANSACTIONS = [null, 'a', 'b', 'c'];
const TRACES = [null, 't1', 't2'];

interface Owner {
  service: number;
  transaction: number;
  trace: number;
}

interface Event {
  type: EventType;
  timestamp: bigint;
  duration: bigint;
  pid: number;
  comm: number;
  result: bigint;
  owner: Owner;
  origins: Owner[];
  queuer: Owner;
}

const owner: fc.Arbitrary<Owner> = fc.record({
  service: fc.nat(SERVICES.length - 1),
  transaction: fc.nat(TRANSACTIONS.length - 1),
  trace: fc.nat(TRACES.length - 1),
});

const timestamp = fc.oneof(
  { weight: 8, arbitrary: fc.bigInt({ min: START_NS, max: START_NS + 40n }) },
  { weight: 2, arbitrary: fc.bigInt({ min: START_NS, max: START_NS + 2n ** 43n }) },
  { weight: 1, arbitrary: fc.constantFrom(0n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n) },
);

const event: fc.Arbitrary<Event> = fc.record({
  type: fc.constantFrom<EventType>('sys_write', 'block_io'),
  timestamp,
  duration: fc.oneof(fc.bigInt({ min: 0n, max: 20n }), fc.constantFrom(2n ** 63n, 2n ** 64n - 1n)),
  pid: fc.integer({ min: 1, max: 3 }),
  comm: fc.nat(2),
  result: fc.constantFrom(-28n, -1n, 0n, 4096n),
  owner,
  origins: fc.array(owner, { maxLength: 4 }),
  queuer: owner,
});

/** The events of a batch, and what happens after it was appended. */
const step = fc.record({
  events: fc.array(event, { maxLength: 30 }),
  after: fc.constantFrom('flush', 'flush', 'flush', 'later', 'seal', 'reopen'),
});

/** Few conditions per request, since otherwise nothing would match. */
const optional = <T>(value: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });
const request: fc.Arbitrary<RecordingScanRequest> = fc
  .record({
    filter: fc.record({
      transactionId: optional(fc.constantFrom('a', 'b', 'nowhere')),
      traceId: optional(fc.constantFrom('t1', 't2')),
      queuers: optional(fc.subarray(['a', 'b', 'nowhere'], { minLength: 1 })),
      services: optional(fc.subarray(['shop', 'pay', 'nobody'], { minLength: 1 })),
      nodes: optional(fc.constantFrom(['node-1'], ['other', 'node-1'], ['other'])),
      eventTypes: optional(fc.subarray<EventType>(['sys_write', 'block_io'], { minLength: 1 })),
      fromNs: optional(timestamp),
      toNs: optional(timestamp),
      minDurationNs: optional(fc.bigInt({ min: 0n, max: 20n })),
      maxDurationNs: optional(fc.bigInt({ min: 0n, max: 20n })),
      pid: optional(fc.integer({ min: 1, max: 4 })),
      comms: optional(fc.uniqueArray(fc.constantFrom('comm-0', 'comm-1', 'unheard'), { minLength: 1 })),
      failed: optional(fc.boolean()),
    }),
    order: fc.constantFrom('asc', 'desc'),
    after: optional(fc.record({ timestampNs: timestamp, number: fc.bigInt({ min: 0n, max: 100n }) })),
    limit: optional(fc.integer({ min: 0, max: 60 })),
  })
  .map((value) => stripUndefined(value) as RecordingScanRequest);

function stripUndefined(value: object): object {
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, entry]) => entry !== undefined)
      .map(([key, entry]) => [key, key === 'filter' ? stripUndefined(entry) : entry]),
  );
}

/** Keeps one writer open; `events[number]` is the event that was recorded under that number. */
function record(path: string) {
  const clock = { nowNs: START_NS };
  let writer = testWriter(path, clock);
  const events: Event[] = [];
  const flushed = { count: 0 };
  return {
    events,
    flushed,
    run({ events: batch, after }: { events: Event[]; after: string }) {
      writer.append(blockOf(batch.map((one) => rowOf(one, writer))));
      events.push(...batch);
      if (after === 'later') return;
      if (after === 'seal') clock.nowNs += SEAL_AFTER_NS;
      if (after === 'reopen') {
        writer.close();
        writer = testWriter(path, clock);
      } else writer.flush();
      flushed.count = events.length;
    },
    close: () => writer.close(),
  };
}

function rowOf(one: Event, writer: ReturnType<typeof testWriter>): Row {
  const contextOf = ({ transaction, trace }: Owner) =>
    writer.contextId({ transactionId: TRANSACTIONS[transaction]!, traceId: TRACES[trace]!, spanId: null });
  const row: Row = {
    event_type: one.type,
    timestamp_ns: one.timestamp,
    duration_ns: one.duration,
    pid: one.pid,
    comm: writer.nameId(`comm-${one.comm}`),
    result: one.result,
    context: contextOf(one.owner),
    service: writer.nameId(SERVICES[one.owner.service]!),
  };
  if (one.type === 'block_io') {
    row['block_io.queued_by_service'] = writer.nameId(SERVICES[one.queuer.service]!);
    row['block_io.queued_by_context'] = contextOf(one.queuer);
  }
  one.origins.forEach((origin, slot) => {
    row[`block_io.origins_${slot}_service`] = writer.nameId(SERVICES[origin.service]!);
    row[`block_io.origins_${slot}_context`] = contextOf(origin);
    row[`block_io.origins_${slot}_bytes`] = 512n;
  });
  return row;
}

function ownersOf(one: Event): Owner[] {
  return one.type === 'block_io' ? [one.owner, ...one.origins] : [one.owner];
}

function isQueuedBy({ type, queuer }: Event, transactions: readonly string[]): boolean {
  const transaction = TRANSACTIONS[queuer.transaction];
  return type === 'block_io' && typeof transaction === 'string' && transactions.includes(transaction);
}

function expected(
  events: readonly Event[],
  { filter = {}, order, after, limit = Infinity }: RecordingScanRequest,
): number[] {
  const numbered = events.map((one, number) => ({ one, number }));
  const matching = numbered.filter(({ one }) => {
    const owners = ownersOf(one);
    return (
      (!filter.transactionId || owners.some((o) => TRANSACTIONS[o.transaction] === filter.transactionId)) &&
      (!filter.traceId || owners.some((o) => TRACES[o.trace] === filter.traceId)) &&
      (!filter.services || owners.some((o) => filter.services!.includes(SERVICES[o.service]!))) &&
      (!filter.queuers || isQueuedBy(one, filter.queuers)) &&
      (!filter.nodes || filter.nodes.includes('node-1')) &&
      (!filter.eventTypes || filter.eventTypes.includes(one.type)) &&
      (filter.fromNs === undefined || one.timestamp >= filter.fromNs) &&
      (filter.toNs === undefined || one.timestamp < filter.toNs) &&
      (filter.minDurationNs === undefined || one.duration >= filter.minDurationNs) &&
      (filter.maxDurationNs === undefined || one.duration <= filter.maxDurationNs) &&
      (filter.pid === undefined || one.pid === filter.pid) &&
      (filter.comms?.includes(`comm-${one.comm}`) ?? true) &&
      (filter.failed === undefined || one.result < 0n === filter.failed)
    );
  });
  const compare = (a: { t: bigint; n: bigint }, b: { t: bigint; n: bigint }) =>
    (a.t < b.t ? -1 : a.t > b.t ? 1 : a.n < b.n ? -1 : a.n > b.n ? 1 : 0) * (order === 'desc' ? -1 : 1);
  const keyed = matching.map(({ one, number }) => ({ t: one.timestamp, n: BigInt(number) })).sort(compare);
  const start = after ? { t: after.timestampNs, n: after.number } : undefined;
  return keyed
    .filter((key) => !start || compare(key, start) > 0)
    .slice(0, limit)
    .map(({ n }) => Number(n));
}

test('a scan returns what a filter and sort over all rows returns', () => {
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 12 }),
      fc.array(request, { minLength: 8, maxLength: 8 }),
      (steps, requests) => {
        const folder = temporaryFolder();
        const path = join(folder.path, 'recording.kreplay');
        const recording = record(path);
        for (const one of steps) recording.run(one);
        const reader = openReader(path);
        const seen = recording.events.slice(0, recording.flushed.count);
        for (const one of requests) {
          expect(numbersOf(reader.scan(one))).toEqual(expected(seen, one));
          const rows = linesOf(reader.scan(one));
          expect(linesOf(reader.scan({ ...one, blockRowsMax: 7, reusesMemory: true }))).toEqual(rows);
          const { filter = {} } = one;
          const all = linesOf(reader.scan({ filter })).sort();
          for (const reusesMemory of [false, true])
            expect(linesOf(reader.scan({ filter, order: 'none', reusesMemory })).sort()).toEqual(all);
        }
        for (const id of ['a', 'b', 'c']) expect(reader.readTransaction(id)).toEqual(expectedSummary(seen, id));
        expect(
          reader
            .listTransactions({ limit: 10 })
            .map((one) => one.transactionId)
            .sort(),
        ).toEqual(['a', 'b', 'c'].filter((id) => expectedSummary(seen, id)));
        reader.close();
        recording.close();
        folder.remove();
      },
    ),
    { numRuns: times(12) },
  );
});

/**
 * Every value of each row, as a line of text: jest compares texts a hundred times as fast as objects. The lines of a
 * block are made before the next one is read, which may take its memory.
 */
function linesOf(blocks: Iterable<NumberedBlock>): string[] {
  const lines: string[] = [];
  for (const block of blocks) for (const row of rowsOf(block)) lines.push(Object.entries(row).join(' '));
  return lines;
}

function expectedSummary(events: readonly Event[], id: string) {
  const isOf = (one: Owner) => TRANSACTIONS[one.transaction] === id;
  const own = events.map((one, number) => ({ ...one, number })).filter((one) => ownersOf(one).some(isOf));
  if (own.length === 0) return undefined;
  const stored = (value: bigint) => (value > 2n ** 63n - 1n ? 2n ** 63n - 1n : value);
  const waitedFor = own.filter((one) => isOf(one.owner));
  const written = own.filter((one) => !isOf(one.owner));
  const slowest = (waitedFor.length > 0 ? waitedFor : written).reduce((a, b) =>
    stored(b.duration) > stored(a.duration) ? b : a,
  );
  const starts = (waitedFor.length > 0 ? waitedFor : own).map((one) => stored(one.timestamp));
  const first = starts.reduce((a, b) => (b < a ? b : a));
  const lastEnd = (some: typeof own, least: bigint) =>
    some.map((one) => stored(one.timestamp + one.duration)).reduce((a, b) => (b > a ? b : a), least);
  const services = new Set(own.flatMap((one) => ownersOf(one).filter(isOf)).map((one) => SERVICES[one.service]!));
  return expect.objectContaining({
    transactionId: id,
    firstTimestampNs: first,
    lastEndNs: lastEnd(waitedFor, first),
    writtenBack: {
      count: written.length,
      bytes: 512n * BigInt(written.flatMap((one) => one.origins).filter(isOf).length),
      lastEndNs: lastEnd(written, 0n),
    },
    eventCount: own.length,
    errorCount: own.filter((one) => one.result < 0n).length,
    slowestDurationNs: stored(slowest.duration),
    services: [...services].filter((name) => name !== '').sort(),
  });
}

test('a scan that pauses while its parts are sealed misses and repeats nothing', () => {
  const batch = fc.record({ events: fc.array(event, { minLength: 1, maxLength: 20 }), after: fc.constant('flush') });
  fc.assert(
    fc.property(
      fc.array(batch, { minLength: 1, maxLength: 6 }),
      fc.array(step, { maxLength: 8 }),
      request,
      (before, during, one) => {
        const folder = temporaryFolder();
        const path = join(folder.path, 'recording.kreplay');
        const recording = record(path);
        for (const each of before) recording.run(each);
        const atStart = [...recording.events];
        const reader = openReader(path);
        // Blocks of one row, so that the writer can interleave at every row.
        const numbers: number[] = [];
        const pending = [...during];
        const { limit = Infinity } = one;
        for (const block of reader.scan({ ...one, blockRowsMax: 1 })) {
          numbers.push(...numbersOf([block]));
          const next = pending.shift();
          if (next) recording.run(next);
        }
        expect(numbers).toEqual(expected(atStart, { ...one, limit }));
        reader.close();
        recording.close();
        folder.remove();
      },
    ),
    { numRuns: times(30) },
  );
});

test('a scan without an order that pauses while its parts are sealed misses and repeats nothing', () => {
  fc.assert(
    fc.property(
      fc.array(step, { minLength: 1, maxLength: 8 }),
      fc.array(step, { maxLength: 8 }),
      request,
      (before, during, { filter = {} }) => {
        const folder = temporaryFolder();
        const path = join(folder.path, 'recording.kreplay');
        const recording = record(path);
        for (const each of before) recording.run(each);
        const atStart = recording.events.slice(0, recording.flushed.count);
        const reader = openReader(path);
        const numbers: number[] = [];
        const pending = [...during];
        const blocks = reader.scan({ filter, order: 'none' });
        for (let next = blocks.next(); !next.done; next = blocks.next()) {
          numbers.push(...numbersOf([next.value]));
          for (const each of pending.splice(0, 2)) recording.run(each);
        }
        const wanted = expected(atStart, { filter, order: 'asc' });
        expect(numbers.sort((a, b) => a - b)).toEqual(wanted.sort((a, b) => a - b));
        reader.close();
        recording.close();
        folder.remove();
      },
    ),
    { numRuns: times(30) },
  );
});

test('rows are returned with all their columns, in blocks of mixed types', () => {
  const folder = temporaryFolder();
  const path = join(folder.path, 'recording.kreplay');
  const rows: Row[] = Array.from({ length: 9000 }, (_, i) => ({
    event_type: i % 3 === 0 ? 'block_io' : 'sys_write',
    timestamp_ns: START_NS + BigInt((i * 7919) % 9001),
    duration_ns: BigInt(i),
    pid: i,
    ...(i % 3 === 0 ? { 'block_io.sector': BigInt(i), 'block_io.queue_ns': 5n } : { 'sys_write.fd': -i }),
  }));
  const writer = testWriter(path);
  writer.append(blockOf(rows));
  writer.close();
  const reader = openReader(path);
  const scanned = [...reader.scan({})];
  expect(scanned.map((block) => block.rowCount)).toEqual([4096, 4096, 808]);
  const isWritten = (row: Record<string, unknown>) =>
    Object.entries(rows[Number(row.number)]!).every(([name, value]) => row[name] === value);
  expect(scanned.flatMap(rowsOf).filter((row) => !isWritten(row))).toEqual([]);
  expect(linesOf(reader.scan({ blockRowsMax: 1000, reusesMemory: true }))).toEqual(linesOf(scanned));
  const narrow = [...reader.scan({ columns: ['sys_write.fd'], limit: 2 })];
  expect(narrow.map((block) => [...block.columns.keys()])).toEqual([['event_type', 'timestamp_ns', 'sys_write.fd']]);
  expect(rowsOf(reader.event(4097n)!)[0]).toMatchObject({ number: 4097n, pid: 4097 });
  expect([reader.event(9000n), reader.event(-1n), reader.event(2n ** 64n)]).toEqual([undefined, undefined, undefined]);
  reader.close();
  folder.remove();
});
