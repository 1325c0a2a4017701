/** What a recording says of calls and requests that have begun and not ended, and what becomes of it. */
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { NONE_UNLISTED } from '../../../agent/recording/format/in_progress.ts';
import type { EventFilter } from '../../../agent/recording/read/event_filter.ts';
import { openReader } from '../../../agent/recording/read/reader.ts';
import { createUnendedTest } from '../../../agent/recording/read/unended.ts';
import { encodeUnended, parseUnended } from '../../../agent/recording/read/unended_text.ts';
import { readBlockEvents } from '../../../daemon/store/blocks/event.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { times } from '../../repeats.ts';
import { appendRows, NODE, newFolder, newWriter, type Row, recordingPath, START, setInProgress } from '../recorded.ts';
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
  const unended = store.readUnended();
  expect(startsOf(unended.events)).toHaveLength(240);
  const events = [...store.scan({ filter: {}, order: 'asc' })].flatMap(readBlockEvents);
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
      const wanted = [...store.scan({ filter, order: 'asc' })].flatMap(readBlockEvents);
      const selected = unended.events.filter(createUnendedTest(filter));
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
  const { events, unlisted } = store.readUnended();
  expect(events).toHaveLength(key === 'in_progress' ? 0 : 1);
  expect(unlisted).toMatchObject([{ count: key === 'in_progress' ? 2 : 1, sinceNs: 0n }]);
  expect(store.listLosses(undefined, undefined).map(({ cause }) => cause)).toContain('damaged');
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
  expect(store.readUnended()).toMatchObject({ events: [], unlisted: [{ count: 1, labelled: 1, sinceNs: 0n }] });
  expect(store.listLosses(undefined, undefined).map(({ cause }) => cause)).toContain('damaged');
  store.close();
});

test('a fleet reads what a node wrote, and nothing in a text that no node has written', () => {
  const rows = corpusRows(150).map((row, at) => ({ ...row, at: START + BigInt(at) }));
  const { path } = written(rows, { count: 7, labelled: 3, sinceNs: START });
  const unended = unendedIn(path);
  expect(parseUnended(encodeUnended(unended))).toEqual(unended);
  const nothing = { events: [], lost: [], unlisted: NONE_UNLISTED };
  expect([encodeUnended(nothing), parseUnended('')]).toEqual(['', nothing]);
  const known = JSON.parse(encodeUnended(unended));
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
      if (parsed) expect(parseUnended(encodeUnended(parsed))).toEqual(parsed);
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
  expect(startsOf(store.readUnended().events)).toEqual([5n]);
  store.close();
});
