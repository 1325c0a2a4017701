/** Tests one store over several files: other nodes, copies of a recording, and parts of one. */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import type { ApiEvent } from '../../../../bpf/schema/api.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import type { EventFilter, ScanRequest } from '../../../../daemon/store/store.ts';
import { times } from '../../../repeats.ts';
import { appendRows, newFolder, newWriter, type Row, recordedOn, recordingPath, START } from '../../recorded.ts';
import { readEvents } from '../read_events.ts';

const stores: Recordings[] = [];
afterEach(() => {
  for (const store of stores.splice(0)) store.close();
});

function storeOn(...paths: string[]): Recordings {
  const store = openRecordingStore(undefined, paths);
  stores.push(store);
  return store;
}

const ALL = { filter: {}, order: 'asc', limit: 10_000 } as const;

function copyOf(folder: string): string {
  const path = join(newFolder(), 'incident.kreplay');
  copyFileSync(recordingPath(folder), path);
  return path;
}

const row: fc.Arbitrary<Row> = fc
  .record({
    at: fc.bigInt(START, START + 20n),
    pid: fc.integer({ min: 1, max: 3 }),
    isWrite: fc.boolean(),
    transaction: fc.constantFrom('tx-1', 'tx-2'),
    text: fc.constantFrom('sda', 'sdb', 'sdc'),
  })
  .map(({ isWrite, text, ...common }) =>
    isWrite ? { ...common, file: `/data/${text}` } : { ...common, type: 'block_io', device: text },
  );

/** A node that records twice; its file may be copied in between and at the end. */
const node = fc.record({
  before: fc.array(row, { maxLength: 30 }),
  copied: fc.boolean(),
  after: fc.array(row, { maxLength: 30 }),
  copiedAgain: fc.boolean(),
});

const request = fc.record({
  order: fc.constantFrom('asc' as const, 'desc' as const),
  limit: fc.nat(80),
  /** Key of an event, a key between events, or none. */
  after: fc.option(fc.tuple(fc.nat(100), fc.constantFrom('event', 'first', 'last')), { nil: undefined }),
  pid: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
  nodes: fc.option(fc.subarray(['node-0', 'node-1', 'node-2']), { nil: undefined }),
  transactionId: fc.option(fc.constant('tx-1'), { nil: undefined }),
});

function compare(a: Pick<ApiEvent, 'timestamp_ns' | 'event_id'>, b: Pick<ApiEvent, 'timestamp_ns' | 'event_id'>) {
  if (a.timestamp_ns !== b.timestamp_ns) return a.timestamp_ns < b.timestamp_ns ? -1 : 1;
  return a.event_id < b.event_id ? -1 : a.event_id > b.event_id ? 1 : 0;
}

test('a scan of several files filters and sorts all their events', () => {
  fc.assert(
    fc.property(
      fc.array(node, { minLength: 1, maxLength: 3 }),
      fc.array(request, { minLength: 6, maxLength: 6 }),
      (nodes, requests) => {
        const paths: string[] = [];
        const events = nodes.flatMap(({ before, copied, after, copiedAgain }, index) => {
          const folder = recordedOn(`node-${index}`, before);
          if (copied) paths.push(copyOf(folder));
          const writer = newWriter(folder, `node-${index}`);
          appendRows(writer, after, 7);
          writer.close();
          if (copiedAgain) paths.push(copyOf(folder));
          paths.push(recordingPath(folder));
          const alone = readEvents(storeOn(recordingPath(folder)), ALL);
          expect(alone).toHaveLength(before.length + after.length);
          return alone;
        });
        const store = storeOn(...paths);
        for (const { order, limit, after: place, ...conditions } of requests) {
          const after = place && keyAt(events, ...place);
          const filter = Object.fromEntries(Object.entries(conditions).filter(([, value]) => value !== undefined));
          const inOrder = (a: ApiEvent | ScanAfter, b: ApiEvent | ScanAfter) =>
            order === 'asc' ? compare(a, b) : compare(b, a);
          const expected = events
            .filter((event) => isMatch(event, filter) && (!after || inOrder(after, event) < 0))
            .sort(inOrder)
            .slice(0, limit);
          expect(readEvents(store, { filter, order, limit, ...(after && { after }) })).toEqual(expected);
        }
        for (const each of stores.splice(0)) each.close();
      },
    ),
    { numRuns: times(8) },
  );
});

type ScanAfter = NonNullable<ScanRequest['after']>;

function keyAt(events: readonly ApiEvent[], index: number, kind: string): ScanAfter | undefined {
  const event = events[index % events.length];
  if (!event || kind === 'event') return event;
  // No recording has these ids: they sort before and after all events of one time.
  const id = (kind === 'first' ? '0' : 'f').repeat(16);
  return { timestamp_ns: event.timestamp_ns, event_id: `${id}-${id}` };
}

function isMatch(event: ApiEvent, { pid, nodes, transactionId }: EventFilter): boolean {
  return (
    (pid === undefined || event.pid === pid) &&
    (!nodes || nodes.includes(event.node)) &&
    (transactionId === undefined || event.transaction_id === transactionId)
  );
}

test('only the requested columns are read', () => {
  const folders = ['a', 'b'].map((name, i) =>
    recordedOn(name, [
      { at: START + BigInt(i), pid: i },
      { at: START + BigInt(i) + 2n, pid: i + 2 },
    ]),
  );
  const scan = storeOn(...folders.map(recordingPath)).scan({ filter: {}, order: 'asc', columns: ['pid'] });
  const blocks = [...scan].map(({ block }) => block).filter(({ rowCount }) => rowCount > 0);
  for (const { columns } of blocks) expect([...columns.keys()]).toEqual(['event_type', 'timestamp_ns', 'pid']);
  expect(blocks.map(({ columns }) => columns.get('pid')![0])).toEqual([0, 1, 2, 3]);
});

describe('a transaction', () => {
  const first = { transaction: 'tx-1', trace: 'f'.repeat(32) };
  const a = () =>
    recordedOn('node-a', [
      { at: START + 10n, duration: 5n, service: 'shop', transaction: 'tx-1' },
      { at: START + 30n, duration: 70n, service: 'stock', transaction: 'tx-1', result: -28n },
    ]);
  const b = () =>
    recordedOn('node-b', [
      { at: START + 5n, duration: 1n, service: 'pay', ...first },
      { at: START + 20n, duration: 60n, service: 'shop', ...first, result: -5n },
      { at: START + 40n, duration: 10n, service: 'other' },
    ]);

  test('of two nodes is one transaction', () => {
    const folders = [a(), b()];
    const store = storeOn(...folders.map(recordingPath));
    const events = readEvents(store, { ...ALL, filter: { transactionId: 'tx-1' } });
    expect(store.findTransaction('tx-1')).toEqual({
      transactionId: 'tx-1',
      traceId: 'f'.repeat(32),
      firstTimestampNs: START + 5n,
      lastEndNs: START + 100n,
      writtenBack: { count: 0, bytes: 0n, lastEndNs: 0n },
      eventCount: 4,
      errorCount: 2,
      slowestNs: events[3]!.duration_ns,
      slowestEventId: events[3]!.event_id,
      services: ['pay', 'shop', 'stock'],
      nodes: ['node-a', 'node-b'],
    });
    expect(store.findTransaction('tx-2')).toBeUndefined();
    expect([store.listServices(), store.nodes()]).toEqual([
      ['other', 'pay', 'shop', 'stock'],
      ['node-a', 'node-b'],
    ]);
  });

  test('that is also in a copy is not counted twice', () => {
    const folder = a();
    const early = copyOf(folder);
    const alone = storeOn(early).findTransaction('tx-1');
    expect(storeOn(recordingPath(folder), early).findTransaction('tx-1')).toEqual(alone);
    const writer = newWriter(folder, 'node-a');
    appendRows(writer, [{ at: START + 200n, duration: 1n, service: 'late', transaction: 'tx-1' }]);
    writer.close();
    for (const paths of [
      [recordingPath(folder), early],
      [early, recordingPath(folder)],
    ])
      expect(storeOn(...paths).findTransaction('tx-1')).toMatchObject({
        eventCount: 3,
        lastEndNs: START + 201n,
        services: ['late', 'shop', 'stock'],
        nodes: ['node-a'],
      });
  });
});

test('an event is found in whichever file contains it', () => {
  const folder = recordedOn('node-a', [{ at: START, pid: 1 }]);
  const early = copyOf(folder);
  const writer = newWriter(folder, 'node-a');
  appendRows(writer, [{ at: START + 1n, pid: 2 }]);
  writer.close();
  const other = recordedOn('node-b', [{ at: START, pid: 3 }]);
  const store = storeOn(early, recordingPath(folder), recordingPath(other));
  for (const event of readEvents(store, ALL)) expect(store.event(event.event_id)).toEqual(event);
  expect(readEvents(store, ALL)).toHaveLength(3);
  expect(store.event(`${'0'.repeat(16)}-${'0'.repeat(16)}`)).toBeUndefined();
  expect(store.event('nothing')).toBeUndefined();
});

test('losses of all nodes are reported, those of a copy once', () => {
  const lose = (count: number) => (writer: ReturnType<typeof newWriter>) => {
    const note = { cause: 'ring_full', eventType: 'sys_write', fromNs: START, toNs: START + 1n } as const;
    // Two identical losses in one recording count twice.
    writer.recordLoss({ ...note, count });
    writer.recordLoss({ ...note, count });
  };
  const a = recordedOn('node-a', [{ at: START }], lose(7));
  const early = copyOf(a);
  const writer = newWriter(a, 'node-a');
  lose(5)(writer);
  writer.close();
  const b = recordedOn('node-b', [{ at: START }], lose(7));
  const counts = (store: Recordings, nodes?: string[]) =>
    store
      .listLosses(undefined, undefined, nodes)
      .filter(({ cause }) => cause === 'ring_full')
      .map(({ lost }) => lost)
      .sort();
  const store = storeOn(early, recordingPath(a), recordingPath(b));
  expect(counts(store)).toEqual([5, 5, 7, 7, 7, 7]);
  expect(counts(store, ['node-b'])).toEqual([7, 7]);
  expect(counts(store, ['nowhere'])).toEqual([]);
});

test('a recording of a node that was not requested is not read', () => {
  const [good, bad] = ['good', 'bad'].map((name) => recordingPath(recordedOn(name, [{ at: START }])));
  const store = storeOn(good!, bad!);
  expect(readEvents(store, ALL)).toHaveLength(2);
  const database = new Database(bad!);
  database.exec('UPDATE segment SET min_timestamp_ns = -5');
  database.close();
  const causes = () => store.listLosses(undefined, undefined).map(({ cause }) => cause);
  expect(readEvents(store, { ...ALL, filter: { nodes: ['good'] } })).toHaveLength(1);
  expect(causes()).toEqual([]);
  expect(readEvents(store, ALL)).toHaveLength(1);
  expect(causes()).toEqual(['damaged']);
});

test('a file that is named twice is served once', () => {
  const folder = recordedOn('node-a', [{ at: START }]);
  const store = openRecordingStore(folder, [recordingPath(folder), `${folder}/./recording.kreplay`]);
  stores.push(store);
  expect(readEvents(store, ALL)).toHaveLength(1);
  expect(store.listRecordingStates()).toHaveLength(1);
});
