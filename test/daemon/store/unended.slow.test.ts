/** What a recording says of calls and requests that have begun and not ended, and what becomes of it. */
import { mkdirSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { NONE_UNLISTED } from '../../../agent/recording/format/in_progress.ts';
import type { EventFilter } from '../../../agent/recording/read/event_filter.ts';
import { openReader } from '../../../agent/recording/read/reader.ts';
import { unendedTest } from '../../../agent/recording/read/unended.ts';
import { parseUnended, unendedText } from '../../../agent/recording/read/unended_text.ts';
import { eventsOf } from '../../../daemon/store/blocks/event.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { times } from '../../repeats.ts';
import { appendRows, NODE, newFolder, newWriter, type Row, recordingPath, START, setInProgress } from '../recorded.ts';
import { served } from '../served.ts';
import { corpusRows } from './fleet/corpus.ts';
import { drawnFilter } from './fleet/drawn_requests.ts';

/** Made with the settings that a writer of these tests has. */
function written(rows: readonly Row[], unlisted = NONE_UNLISTED): { folder: string; path: string } {
  const folder = newFolder();
  const writer = newWriter(folder);
  setInProgress(writer, rows, unlisted);
  writer.close();
  return { folder, path: recordingPath(folder) };
}

const call = (at: number, more: Partial<Row> = {}): Row => ({ at: START + BigInt(at), ...more }) as Row;

function unendedIn(path: string) {
  const reader = openReader(path);
  try {
    return reader.unended();
  } finally {
    reader.close();
  }
}

const startsOf = (events: readonly { timestamp_ns: bigint }[]) =>
  events.map(({ timestamp_ns }) => timestamp_ns - START);

test('filters select of what is in progress what they would select of events', () => {
  // Its start tells a row.
  const rows = corpusRows(240).map((row, at) => ({ ...row, at: START + BigInt(at) }));
  const folder = newFolder();
  const writer = newWriter(folder, 'node-a');
  appendRows(writer, rows);
  setInProgress(writer, rows);
  writer.close();
  const store = openRecordingStore(folder);
  const unended = store.unended();
  expect(startsOf(unended.events)).toHaveLength(240);
  const events = [...store.scan({ filter: {}, order: 'asc' })].flatMap(eventsOf);
  for (const [at, { origins, untilNs: _, ...event }] of unended.events.entries()) {
    expect(events[at]).toMatchObject(event);
    const { origins: owners = [] } = events[at] as { origins?: (typeof origins)[number][] };
    // An event shows no traces of its origins.
    const shown = (all: typeof origins) =>
      all
        .map(({ service_name, transaction_id }) => `${service_name} ${transaction_id}`)
        .filter((text) => text !== ' null');
    expect(shown(origins)).toEqual(shown(owners));
  }
  let found = 0;
  fc.assert(
    fc.property(drawnFilter, ({ fromNs: _, toNs: _1, minDurationNs: _2, maxDurationNs: _3, failed: _4, ...drawn }) => {
      const { results: _5, nodes: _6, excluded = {}, ...others } = drawn;
      const { results: _7, nodes: _8, ...less } = excluded;
      const filter: EventFilter = { ...others, excluded: less };
      const wanted = [...store.scan({ filter, order: 'asc' })].flatMap(eventsOf);
      const selected = unended.events.filter(unendedTest(filter));
      expect([filter, startsOf(selected)]).toEqual([filter, startsOf(wanted)]);
      found += selected.length > 0 ? 1 : 0;
    }),
    { numRuns: times(300) },
  );
  expect(found).toBeGreaterThan(50);
  store.close();
});

test('it is replaced by what is in progress later, and by nothing', () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  const reader = () => unendedIn(recordingPath(folder));
  const unlisted = { count: 3, labelled: 1, sinceNs: START + 3n };
  setInProgress(writer, [call(1), call(2, { type: 'sys_sync', syscall: 'fsync' })], unlisted);
  writer.flush();
  expect(reader()).toMatchObject({
    events: [{ syscall: 'write' }, { syscall: 'fsync' }],
    lost: [],
    unlisted,
  });
  setInProgress(writer, [call(2)]);
  writer.flush();
  expect(startsOf(reader().events)).toEqual([2n]);
  setInProgress(writer, []);
  writer.flush();
  expect(reader()).toEqual({ events: [], lost: [], unlisted: NONE_UNLISTED });
  writer.close();
});

test('the next writer makes it a loss from each start, and knows for some time whose they were', () => {
  const unlisted = { count: 4, labelled: 2, sinceNs: START - 9n };
  const { folder, path } = written([call(1, { transaction: 'a' }), call(2, { type: 'block_io' })], unlisted);
  expect(unendedIn(path)).toMatchObject({ events: [{ transaction_id: 'a' }, {}], lost: [], unlisted });
  newWriter(folder).close();
  const reader = openReader(path);
  const losses = reader.losses().filter(({ cause }) => cause === 'in_progress');
  expect(losses).toEqual([
    { cause: 'in_progress', eventType: 'sys_write', count: 1, fromNs: START + 1n, toNs: START + 1n },
    { cause: 'in_progress', eventType: 'block_io', count: 1, fromNs: START + 2n, toNs: START + 2n },
    { cause: 'in_progress', eventType: null, count: 4, fromNs: START - 9n, toNs: START },
  ]);
  reader.close();
  expect(unendedIn(path)).toMatchObject({ events: [], lost: [{ transaction_id: 'a' }, {}], unlisted: { count: 0 } });
  // The losses of one end are noted once.
  const next = newWriter(folder);
  setInProgress(next, [call(3, { transaction: 'b' })]);
  next.close();
  newWriter(folder).close();
  const again = openReader(path);
  expect(again.losses().filter(({ cause }) => cause === 'in_progress')).toHaveLength(4);
  expect(again.unended().lost.map(({ transaction_id }) => transaction_id)).toEqual(['a', null, 'b']);
  again.close();
});

test('however much is in progress, those that began first are kept, and all are counted', () => {
  const many = Array.from({ length: 1024 }, (_, i): Row => {
    const owner = (slot: number) => ({ service: `service ${i} ${slot}`, transaction: `order ${i} ${slot}` });
    const origins = [0, 1, 2, 3].map((slot) => ({ ...owner(slot), bytes: BigInt(i * 7919 + slot) }));
    const numbers = { sector: BigInt(i) * 2_654_435_761n, bytes: BigInt(i) * 40_503n, pid: i * 31, tid: i * 37 };
    return { at: START + BigInt(i * i), type: 'block_io', device: `disk ${i}`, ...owner(4), ...numbers, origins };
  });
  const { path } = written(many, { count: 1000, labelled: 5, sinceNs: START + 10n ** 9n });
  const size = (key: string) => {
    const database = new Database(path, { readonly: true });
    const bytes = database.prepare('SELECT length(value) FROM meta WHERE key = ?').pluck().get(key);
    database.close();
    return bytes;
  };
  expect(size('in_progress')).toBeLessThanOrEqual(65_536);
  const { events, unlisted } = unendedIn(path);
  expect(events.length).toBeGreaterThan(100);
  expect(startsOf(events)).toEqual(many.slice(0, events.length).map(({ at }) => at - START));
  const cut = many.length - events.length;
  expect(unlisted).toEqual({
    count: 1000 + cut,
    labelled: 5 + cut,
    sinceNs: cut > 0 ? many[events.length]!.at : START + 10n ** 9n,
  });
});

test('agents that are restarted all the time leave few losses of what is in progress', () => {
  const many = Array.from({ length: 200 }, (_, i): Row => ({ at: START + BigInt(i), transaction: `order-${i}` }));
  const { folder, path } = written(many);
  for (let round = 1; round <= 6; round++) {
    const writer = newWriter(folder);
    setInProgress(
      writer,
      many.map((row) => ({ ...row, at: row.at + BigInt(round * 1000) })),
    );
    writer.close();
  }
  newWriter(folder).close();
  const reader = openReader(path);
  const losses = reader.losses().filter(({ cause }) => cause === 'in_progress');
  expect(losses.reduce((sum, { count }) => sum + count, 0)).toBe(1400);
  expect(losses).toHaveLength(7 * 65);
  // The owners of calls that began last are known longer.
  expect(startsOf(reader.unended().lost)).toEqual(
    [3, 4, 5, 6].flatMap((round) => Array.from({ length: 64 }, (_, i) => BigInt(round * 1000 + i))),
  );
  reader.close();
});

test.each([
  ['list is no blob', 'in_progress', 'text'],
  ['list is too short', 'in_progress', Buffer.of(1, 2, 3)],
  ['list has a wrong checksum', 'in_progress', Buffer.alloc(64, 7)],
  ['count is no text of this form', 'in_progress_unlisted', 'many'],
])('a %s: it is damage, no answer is complete, and it is a loss after a restart', (_, key, value) => {
  const { folder, path } = written([call(1)], { count: 1, labelled: 0, sinceNs: START });
  const database = new Database(path);
  database.prepare('UPDATE meta SET value = ? WHERE key = ?').run(value, key);
  database.close();
  const store = openRecordingStore(folder);
  const { events, unlisted } = store.unended();
  expect(events).toHaveLength(key === 'in_progress' ? 0 : 1);
  expect(unlisted).toMatchObject([{ count: key === 'in_progress' ? 2 : 1, sinceNs: 0n }]);
  expect(store.losses(undefined, undefined).map(({ cause }) => cause)).toContain('damaged');
  store.close();
  newWriter(folder).close();
  const reader = openReader(path);
  const losses = reader.losses().filter(({ cause }) => cause === 'in_progress');
  expect(losses.reduce((sum, { count }) => sum + count, 0)).toBe(2);
  expect(losses).toContainEqual(expect.objectContaining({ fromNs: 0n, eventType: null }));
  reader.close();
});

test('a list that names a context that is not there is damage', () => {
  const { folder, path } = written([call(1, { transaction: 'order-1' })]);
  const database = new Database(path);
  database.exec('DELETE FROM context');
  database.close();
  const store = openRecordingStore(folder);
  expect(store.unended()).toMatchObject({ events: [], unlisted: [{ count: 1, labelled: 1, sinceNs: 0n }] });
  expect(store.losses(undefined, undefined).map(({ cause }) => cause)).toContain('damaged');
  store.close();
});

test('a fleet reads what a node wrote, and nothing in a text that no node has written', () => {
  const rows = corpusRows(150).map((row, at) => ({ ...row, at: START + BigInt(at) }));
  const { path } = written(rows, { count: 7, labelled: 3, sinceNs: START });
  const unended = unendedIn(path);
  expect(parseUnended(unendedText(unended))).toEqual(unended);
  const nothing = { events: [], lost: [], unlisted: NONE_UNLISTED };
  expect([unendedText(nothing), parseUnended('')]).toEqual(['', nothing]);
  const known = JSON.parse(unendedText(unended));
  const broken = [{ events: 1 }, { lost: null }, { unlisted: {} }, { events: [{ ...known.events[0], pid: -1 }] }];
  for (const change of broken) expect(parseUnended(JSON.stringify({ ...known, ...change }))).toBeUndefined();
  for (const text of ['{', 'null', '1', '[]', 'x'.repeat(5_000_000)]) expect(parseUnended(text)).toBeUndefined();
  const changed = fc.tuple(fc.nat(known.events.length - 1), fc.constantFrom(...Object.keys(known.events[0])));
  const counts = { taken: 0, refused: 0 };
  fc.assert(
    fc.property(changed, fc.jsonValue(), ([at, key], value) => {
      const events = [...known.events];
      events[at] = { ...events[at], [key]: value };
      const parsed = parseUnended(JSON.stringify({ ...known, events }));
      counts[parsed ? 'taken' : 'refused']++;
      if (parsed) expect(parseUnended(unendedText(parsed))).toEqual(parsed);
    }),
    { numRuns: times(300) },
  );
  expect(Math.min(counts.taken, counts.refused)).toBeGreaterThan(10);
});

test('of several copies of a recording, the one that was written last says what is in progress', () => {
  const { folder, path } = written([call(1), call(2)]);
  const copy = `${newFolder()}/copy.kreplay`;
  const database = new Database(path);
  database.exec(`VACUUM INTO '${copy}'`);
  database.close();
  const writer = newWriter(folder, NODE, START + 1_000_000_000n);
  setInProgress(writer, [call(5)]);
  writer.close();
  const store = openRecordingStore(undefined, [copy, path]);
  expect(startsOf(store.unended().events)).toEqual([5n]);
  store.close();
});

describe('answers from several recordings', () => {
  const SECOND = 1_000_000_000n;
  const until = (node: string, rows: readonly Row[], open: readonly Row[], nowNs: bigint, unlisted = NONE_UNLISTED) => {
    const folder = newFolder();
    const writer = newWriter(folder, node, nowNs);
    appendRows(writer, rows);
    setInProgress(writer, open, unlisted);
    writer.close();
    return recordingPath(folder);
  };
  const order = (at: bigint): Row => ({ at, transaction: 'order-1', service: 'shop' });

  test('have a call on a node that has no other event of its transaction, however long that was quiet', async () => {
    const paths = [
      until('a', [order(START)], [], START + 60n * SECOND),
      until('b', [], [order(START + 30n * SECOND)], START + 60n * SECOND),
    ];
    const daemon = await served(openRecordingStore(undefined, paths));
    daemon.setNow(START + 60n * SECOND);
    for (const path of ['/api/transactions/order-1', '/api/events?transaction_id=order-1', '/api/transactions']) {
      const { coverage } = (await daemon.get(path)).json;
      expect([path, coverage.complete, coverage.in_progress?.events[0].node]).toEqual([path, false, 'b']);
    }
    const { coverage } = (await daemon.get('/api/events?exclude_node=b')).json;
    expect([coverage.complete, coverage.in_progress]).toEqual([true, undefined]);
    const early = `/api/transactions?from=${START + SECOND}`;
    expect((await daemon.get(early)).json.coverage.in_progress).toBeUndefined();
  });

  test('say that a call is lost if its recording ended and another one of its node goes on', async () => {
    const paths = [
      until('a', [order(START)], [order(START + SECOND)], START + 2n * SECOND),
      until('a', [], [], START + 60n * SECOND),
    ];
    const daemon = await served(openRecordingStore(undefined, paths));
    daemon.setNow(START + 60n * SECOND);
    const { coverage } = (await daemon.get('/api/transactions/order-1')).json;
    expect([coverage.complete, coverage.in_progress]).toEqual([false, undefined]);
    expect(coverage.gaps).toMatchObject([{ cause: 'in_progress', lost: 1 }]);
  });

  test('name a labelled call that is not listed wherever it may belong to', async () => {
    const unlisted = { count: 3, labelled: 2, sinceNs: START + 30n * SECOND };
    const paths = [
      until('a', [order(START)], [], START + 60n * SECOND),
      until('b', [], [], START + 60n * SECOND, unlisted),
    ];
    const daemon = await served(openRecordingStore(undefined, paths));
    daemon.setNow(START + 60n * SECOND);
    for (const path of [
      '/api/transactions/order-1',
      '/api/events?transaction_id=order-1',
      `/api/transactions?from=${START}&to=${START + SECOND}`,
    ]) {
      const { coverage } = (await daemon.get(path)).json;
      expect([path, coverage.complete, coverage.lost, coverage.in_progress?.count]).toEqual([path, false, 2, 2]);
    }
    const before = `/api/events?from=${START}&to=${START + SECOND}`;
    expect((await daemon.get(before)).json.coverage.in_progress).toBeUndefined();
  });

  test('have what is not listed as lost, in its time, if another recording of the node goes on', async () => {
    const unlisted = { count: 3, labelled: 2, sinceNs: START + SECOND };
    const paths = [
      until('a', [order(START)], [], START + 2n * SECOND, unlisted),
      until('a', [], [], START + 60n * SECOND),
    ];
    const daemon = await served(openRecordingStore(undefined, paths));
    daemon.setNow(START + 60n * SECOND);
    const gapsOf = async (path: string) => {
      const { gaps, in_progress } = (await daemon.get(path)).json.coverage;
      expect(in_progress).toBeUndefined();
      return gaps.flatMap(({ cause, lost }: { cause: string; lost: number }) =>
        cause === 'in_progress' ? [lost] : [],
      );
    };
    expect(await gapsOf('/api/events')).toEqual([3]);
    expect(await gapsOf('/api/transactions/order-1')).toEqual([2]);
    expect(await gapsOf(`/api/events?from=${START + 3n * SECOND}`)).toEqual([]);
  });

  test.each([false, true])('about many transactions have requests with data of several; ended: %j', async (isEnded) => {
    const folder = newFolder();
    const writer = newWriter(folder, 'a', START + 10n * SECOND);
    appendRows(writer, [order(START), { ...order(START + 1n), transaction: 'order-2' }]);
    const origins = ['order-1', 'order-2'].map((transaction) => ({ transaction, service: 'shop', bytes: 4096n }));
    setInProgress(writer, [{ at: START + 5n * SECOND, type: 'block_io', origins }]);
    writer.close();
    if (isEnded) newWriter(folder, 'a', START + 10n * SECOND).close();
    const daemon = await served(openRecordingStore(folder));
    daemon.setNow(START + 10n * SECOND);
    for (const path of [`/api/transactions?from=${START}&to=${START + SECOND}`, '/api/transactions/order-2']) {
      const { gaps, in_progress } = (await daemon.get(path)).json.coverage;
      const causes = new Set(gaps.map(({ cause }: { cause: string }) => cause));
      expect([path, causes.has('in_progress')]).toEqual([path, true]);
      expect(in_progress?.count).toBe(isEnded ? undefined : 1);
    }
  });

  test('about many transactions are given beside an import that cannot be read', async () => {
    const folder = newFolder();
    const writer = newWriter(folder, 'a', START + 10n * SECOND);
    appendRows(writer, [order(START)]);
    setInProgress(writer, [{ ...order(START + SECOND), transaction: 'order-2' }]);
    writer.close();
    mkdirSync(`${folder}/imported`);
    writeFileSync(`${folder}/imported/damaged.kreplay`, 'nothing that can be read');
    const daemon = await served(openRecordingStore(folder));
    daemon.setNow(START + 10n * SECOND);
    for (const path of ['/api/transactions', '/api/heatmap?of=transactions', '/api/transactions/order-1']) {
      const { status, json } = await daemon.get(path);
      expect([path, status, json.coverage.complete, json.coverage.unreadable?.length]).toEqual([path, 200, false, 1]);
    }
  });

  const owner = { transaction: 'order-1', service: 'shop' };
  const first: Row = { ...owner, at: START, duration: 1_000_000n };
  const hung = (at: bigint): Row => ({ ...owner, at: START + at * SECOND, type: 'sys_sync' });
  const writeBack = Array.from(
    { length: 150 },
    (_, i): Row => ({ at: START + BigInt(i), type: 'block_io', origins: [{ ...owner, bytes: 4096n }] }),
  );
  const twoNodes = { a: { events: [first], open: [] }, b: { events: [], open: [hung(59n)] } };
  const unlisted = { count: 1, labelled: 1, sinceNs: START };
  type Recorded = Record<string, { events: Row[]; open: Row[]; unlisted?: typeof unlisted }>;

  test.each<[string, Recorded, bigint, boolean | null]>([
    ['no call is in progress', { a: { events: [first], open: [] } }, 1n, false],
    ['its call has not ended by the deadline', { a: { events: [first], open: [hung(20n)] } }, 59n, true],
    ['there is time left', { a: { events: [first], open: [hung(20n)] } }, 61n, false],
    [
      'its first call is in progress',
      { a: { events: [{ ...first, at: START + SECOND }], open: [hung(0n)] } },
      59n,
      true,
    ],
    ['a hundred requests are older', { a: { events: [first], open: [...writeBack, hung(20n)] } }, 59n, true],
    ['only requests are in progress', { a: { events: [first], open: writeBack } }, 1n, false],
    ['a call on another node has begun just now', twoNodes, 10n, null],
    ['it has lasted longer on another node', { ...twoNodes, b: { events: [], open: [hung(20n)] } }, 10n, true],
    ['it is not known whose call is in progress', { a: { events: [first], open: [], unlisted } }, 10n, null],
  ])('tell whether a deadline is kept: %s', async (_, recorded, timeoutSeconds, timesOut) => {
    const paths = Object.entries(recorded).map(([node, { events, open, unlisted }]) =>
      until(node, events, open, START + 60n * SECOND, unlisted),
    );
    const daemon = await served(openRecordingStore(undefined, paths));
    daemon.setNow(START + 60n * SECOND);
    const body = JSON.stringify({ transaction_id: 'order-1', timeout_ns: Number(timeoutSeconds * SECOND) });
    const headers = { 'content-type': 'application/json' };
    const { json } = await daemon.get('/api/replay/whatif', { method: 'POST', headers, body });
    expect([json.times_out, json.in_progress_times_out]).toEqual([false, timesOut]);
  });
});
