/** Tests that filters by value select the same events as looking at all of them, in every kind of answer. */
import fc from 'fast-check';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../daemon/store/embedded/recordings.ts';
import { times } from '../../repeats.ts';
import { type Row, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';
import {
  drawnFilter,
  FILES,
  isSelected,
  listOf,
  NAMES,
  PARAMETERS,
  type PlainEvent,
  queryOf,
} from './drawn_filters.ts';

const SECOND = 1_000_000_000n;
const pick = <T>(values: readonly T[], i: number): T => values[i % values.length]!;

const RESULTS = [64n, 0n, -5n, -28n, -4n, -512n, -4000n, -(2n ** 32n) - 5n, 2n ** 63n - 1n, -(2n ** 63n)];

/** Each field goes through its values at a pace of its own, so that combinations differ. */
function row(i: number): Row {
  const common = {
    at: START - 100n * SECOND + BigInt(i * i),
    service: pick(NAMES, i),
    comm: pick(NAMES, Math.floor(i / 3)),
    result: pick(RESULTS, Math.floor(i / 7)),
  };
  const file = pick([...FILES, undefined], Math.floor(i / 2));
  const named = { ...common, ...(file !== undefined && { file }) };
  if (i % 3 === 0) return { ...named, syscall: i % 2 === 0 ? 'write' : 'pwrite64' };
  if (i % 3 === 1) return { ...named, type: 'sys_sync', syscall: i % 2 === 0 ? 'fsync' : 'sync' };
  const origins = i % 4 === 0 ? [{ service: pick(NAMES, Math.floor(i / 5)), bytes: 512n }] : [];
  const operation = pick(['read', 'write', 'flush'] as const, Math.floor(i / 3));
  return { ...common, type: 'block_io', device: pick(NAMES, Math.floor(i / 6)), operation, origins };
}

let recordings: Recordings;
let served: Served;
let events: PlainEvent[];
beforeAll(async () => {
  const rows = Array.from({ length: 1200 }, (_, i) => row(i));
  const folders = [
    recordedOn(
      'node-a',
      rows.filter((_, i) => i % 5 < 3),
    ),
    recordedOn(
      'node-b',
      rows.filter((_, i) => i % 5 >= 3),
    ),
  ];
  recordings = openRecordingStore(undefined, folders.map(recordingPath));
  served = await serve(recordings);
  events = (await served.lines('/api/events')).map((line) => JSON.parse(line));
});
afterAll(() => served.close());

const idsOf = (some: readonly PlainEvent[]) => some.map(({ event_id }) => event_id);

test('the recordings have every value, and events without', () => {
  expect(events).toHaveLength(1200);
  expect(new Set(events.map(({ file }) => file))).toEqual(new Set([...FILES, null, undefined]));
  for (const name of NAMES) expect(events.some(({ device }) => device === name)).toBe(true);
});

test.each(PARAMETERS)('%s selects what it says, alone', async (name) => {
  await fc.assert(
    fc.asyncProperty(listOf(name), async (list) => {
      const found = (await served.lines(`/api/events?${queryOf({ [name]: list })}`)).map((line) => JSON.parse(line));
      expect(idsOf(found)).toEqual(idsOf(events.filter((event) => isSelected(event, { [name]: list }))));
    }),
    { numRuns: times(4) },
  );
});

test('every kind of answer has the events that a combination selects', async () => {
  let most = 0;
  await fc.assert(
    fc.asyncProperty(drawnFilter, async (filter) => {
      const query = queryOf(filter);
      const expected = events.filter((event) => isSelected(event, filter));
      most = Math.max(most, expected.length);
      const found = (await served.lines(`/api/events?${query}`)).map((line) => JSON.parse(line));
      expect(idsOf(found)).toEqual(idsOf(expected));
      const page = (await served.get(`/api/events?limit=10000&order=desc&${query}`)).json;
      expect(idsOf(page.events)).toEqual(idsOf(expected.toReversed()));
      const accept = 'application/vnd.kreplay.columns';
      const columns = (await served.get(`/api/events?${query}`, { headers: { accept } })).text.split('\n');
      const lines = columns.filter(Boolean).map((line) => JSON.parse(line));
      expect(lines.reduce((sum, { start = [] }) => sum + start.length, 0)).toBe(expected.length);
      expect((await served.get(`/api/stats?${query}`)).json.total.count).toBe(expected.length);
      expect((await served.get(`/api/heatmap?of=events&${query}`)).json.total.count).toBe(expected.length);
      const compared = (await served.get(`/api/differences?of=events&failed=true&${query}`)).json;
      expect([compared.event_count, compared.selected.count]).toEqual([
        expected.length,
        expected.filter(({ result }) => result < 0).length,
      ]);
    }),
    { numRuns: times(15) },
  );
  expect(most).toBeGreaterThan(100);
}, 60_000);

test('each value of a comparison selects the events that it counted', async () => {
  const { differences } = (await served.get('/api/differences?of=events&failed=true')).json;
  const values = differences.flatMap((one: { values: unknown[] }) => one.values);
  expect(values.length).toBeGreaterThan(3);
  for (const { field, value, selected, others } of values) {
    const { total } = (await served.get(`/api/stats?${queryOf({ [field]: [value] })}`)).json;
    const { total: rest } = (await served.get(`/api/stats?${queryOf({ [`exclude_${field}`]: [value] })}`)).json;
    // A service also has requests with its data.
    if (field === 'service') expect(total.count).toBeGreaterThanOrEqual(selected + others);
    else expect(total.count).toBe(selected + others);
    expect(total.count + rest.count).toBe(events.length);
  }
});

test('a list with commas has its items, and a backslash keeps a comma in a name', async () => {
  const count = async (query: string) => (await served.get(`/api/stats?${query}`)).json.total.count;
  const of = (...names: string[]) => events.filter(({ device }) => names.includes(device)).length;
  expect(await count('device=a,b')).toBe(of('a', 'b', 'a,b'));
  expect(await count('device=a%5C,b')).toBe(of('a,b'));
  expect(await count('device=a%5C,b,b')).toBe(of('a,b', 'b'));
  expect(await count('exclude_device=a%5C,b')).toBe(events.length - of('a,b'));
});

test('a cursor is of one filter, however the list is written', async () => {
  const { next_cursor } = (await served.get('/api/events?limit=2&exclude_device=a,b')).json;
  const page = async (query: string) => (await served.get(`/api/events?limit=2&${query}&cursor=${next_cursor}`)).status;
  expect(await page('exclude_device=b&exclude_device=a')).toBe(200);
  expect(await page('exclude_device=b')).toBe(400);
  expect(await page('device=a,b')).toBe(400);
});

test.each([
  ['operation=wrote', '"wrote" is not an operation; known are: read, write, flush, discard, other'],
  ['exclude_syscall=open', '"open" is not a system call that is recorded; known are: '],
  ['error=eio', '"eio" is not the name of an error, such as ENOSPC or errno 1234'],
  ['exclude_error=errno+0', 'is not the name of an error'],
  ['device=', 'must not be empty'],
  ['exclude_comm=a,,b', 'must not be empty'],
  ['exclude_pid=1', 'unknown parameter'],
])('%s is refused', async (query, message) => {
  const { status, json } = await served.get(`/api/events?${query}`);
  expect([status, json.errors[0].parameter]).toEqual([400, query.slice(0, query.indexOf('='))]);
  expect(json.detail).toContain(message);
});
