/** Tests lists by duration against sorted rows: any filter, any page size, several nodes, equal durations. */
import fc from 'fast-check';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { times } from '../../repeats.ts';
import { type Row, recorded, recordedOn, recordingPath, START, type WriteRow } from '../recorded.ts';
import { type Served, serve, served as servedHere } from '../served.ts';

const NODES = ['node-0', 'node-1'];
const FILES = ['/srv/a.log', '/srv/b.log', undefined];

/** Many rows have the same duration, and some the same time on both nodes; a few take longer than 32 bits can hold. */
const rows: { node: string; row: Row }[] = Array.from({ length: 400 }, (_, i) => {
  const row = {
    at: START + BigInt((i * 7919) % 90) * 1_000n,
    duration: i % 97 === 0 ? 2n ** 40n + BigInt(i % 3) : BigInt((i * 37) % 11),
    service: i % 3 ? 'shop' : 'pay',
    result: i % 5 === 0 ? -28n : 64n,
    ...(FILES[i % 3] !== undefined && { file: FILES[i % 3]! }),
    ...(i % 4 === 0 && { transaction: `order-${i % 8}` }),
  };
  return { node: NODES[i % 2]!, row: i % 7 === 0 ? { ...row, type: 'sys_sync' as const } : row };
});

let served: Served;
beforeAll(async () => {
  const folders = NODES.map((node) =>
    recordedOn(
      node,
      rows.filter((one) => one.node === node).map(({ row }) => row),
    ),
  );
  served = await serve(openRecordingStore(undefined, folders.map(recordingPath)));
});
afterAll(() => served.close());

interface Found {
  event_id: string;
  timestamp_ns: number;
  duration_ns: number;
  service_name: string;
  node: string;
}

/** All pages of a list, each with at most `limit` events. */
async function pagesOf(parameters: string, limit: number): Promise<Found[][]> {
  const pages: Found[][] = [];
  for (let cursor = ''; ; ) {
    const { status, json } = await served.get(`/api/events?sort=slowest&limit=${limit}${parameters}${cursor}`);
    expect([status, json.detail]).toEqual([200, undefined]);
    pages.push(json.events);
    if (json.next_cursor === null) return pages;
    cursor = `&cursor=${json.next_cursor}`;
  }
}

/** The same events in the order of the list, from the list by time. */
async function sortedEvents(parameters: string): Promise<Found[]> {
  const { json } = await served.get(`/api/events?limit=1000${parameters}`);
  const inOrder: Found[] = json.events;
  return inOrder.toSorted((a, b) => b.duration_ns - a.duration_ns);
}

const conditions = fc.record({
  service: fc.option(fc.constantFrom('shop', 'pay', 'none'), { nil: undefined }),
  node: fc.option(fc.constantFrom(...NODES), { nil: undefined }),
  failed: fc.option(fc.boolean(), { nil: undefined }),
  event_type: fc.option(fc.constantFrom('sys_sync', 'sys_write'), { nil: undefined }),
  max_duration_ms: fc.option(fc.constantFrom('0.000005', '0.000009', '1'), { nil: undefined }),
  min_duration_ms: fc.option(fc.constant('0.000002'), { nil: undefined }),
});

/** Six segments: the longest events are in the middle one, the last has none of them, and equal ones are in several. */
const MANY = 24_576;
const SEGMENT = 4096;
const durationOf = (i: number) =>
  BigInt([40, 900, 5000, 1_000_000, 5000, 3][Math.floor(i / SEGMENT)]! * ((i * 7919) % 5));

test('the longest events of many segments are found in any of them', async () => {
  const many = recorded(Array.from({ length: MANY }, (_, i) => ({ at: START + BigInt(i), duration: durationOf(i) })));
  const daemon = await serve(openRecordingStore(many));
  try {
    const longest = Array.from({ length: MANY }, (_, i) => Number(durationOf(i))).sort((a, b) => b - a);
    for (const [skip, limit] of [
      [0, 20],
      [0, 900],
      [9, 1000],
    ] as const) {
      let cursor = '';
      for (let page = 0; page <= skip; page++) {
        const { json } = await daemon.get(`/api/events?sort=slowest&limit=${limit}${cursor}`);
        const found = json.events.map(({ duration_ns }: Found) => duration_ns);
        expect(found).toEqual(longest.slice(page * limit, (page + 1) * limit));
        cursor = `&cursor=${json.next_cursor}`;
      }
    }
  } finally {
    await daemon.close();
  }
}, 60_000);

test('pages are the events of a query by duration, each once', async () => {
  await fc.assert(
    fc.asyncProperty(conditions, fc.constantFrom(1, 3, 50, 399, 400, 401), async (asked, limit) => {
      const given = Object.entries(asked).filter(([, value]) => value !== undefined);
      const parameters = given.map(([name, value]) => `&${name}=${value}`).join('');
      const expected = await sortedEvents(parameters);
      if (limit === 1 && expected.length > 60) return;
      const pages = await pagesOf(parameters, limit);
      expect(pages.flat()).toEqual(expected);
      expect(pages.slice(0, -1).map(({ length }) => length)).toEqual(pages.slice(0, -1).map(() => limit));
    }),
    { numRuns: times(8) },
  );
}, 60_000);

test('a stream has the same events, a line each', async () => {
  const { text } = await served.get('/api/events?sort=slowest&limit=7', {
    headers: { accept: 'application/x-ndjson' },
  });
  const [page] = await pagesOf('', 7);
  expect(
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toEqual(page);
});

test('durations are compared exactly beyond 2^53', async () => {
  const durations = [2n ** 62n, 2n ** 62n + 1n, 2n ** 62n + 2n, 2n ** 62n + 3n];
  const daemon = await servedHere(recorded(durations.map((duration, i) => ({ at: START + BigInt(i), duration }))));
  const { text } = await daemon.get('/api/events?sort=slowest&limit=2');
  expect([...text.matchAll(/"duration_ns":(\d+)/g)].map(([, ns]) => BigInt(ns!))).toEqual([
    2n ** 62n + 3n,
    2n ** 62n + 2n,
  ]);
});

test.each([
  ['sort=slowest&order=asc', 'order', 'application/json'],
  ['sort=fastest', 'sort', 'application/json'],
  ['sort=slowest', 'limit', 'application/x-ndjson'],
  ['sort=slowest', 'sort', 'text/event-stream'],
])('%s is refused because of %s as %s', async (parameters, name, accept) => {
  const { status, json } = await served.get(`/api/events?${parameters}`, { headers: { accept } });
  expect([status, json.code, json.errors[0].parameter]).toEqual([400, 'invalid_parameter', name]);
});

test('a cursor of the list by time is not one of this list', async () => {
  const { next_cursor } = (await served.get('/api/events?limit=3')).json;
  const { status, json } = await served.get(`/api/events?limit=3&sort=slowest&cursor=${next_cursor}`);
  expect([status, json.code]).toEqual([400, 'cursor_mismatch']);
});

describe('the summary of a transaction', () => {
  const of = (id: string) => rows.map(({ row }) => row).filter(({ transaction }) => transaction === id);
  const sum = (some: readonly Row[], value: (row: Row) => bigint) =>
    Number(some.reduce((total, row) => total + value(row), 0n));
  const counted = (some: readonly Row[]) => ({
    count: some.length,
    error_count: some.filter(({ result }) => result! < 0n).length,
    bytes: sum(some, ({ result }) => (result! < 0n ? 0n : result!)),
    duration_ns: sum(some, ({ duration }) => duration!),
  });

  test.each(['order-0', 'order-4'])('%s has the sums of its rows', async (id) => {
    const { status, json } = await served.get(`/api/transactions/${id}/summary?limit=2`);
    expect(status).toBe(200);
    const own = of(id);
    const byFile = [...Map.groupBy(own, (row) => (row as WriteRow).file ?? null)].map(([file, some]) => {
      const syncs = some.filter(({ type }) => type === 'sys_sync');
      const { count: sync_count, duration_ns: sync_duration_ns } = counted(syncs);
      return { file, ...counted(some), sync_count, sync_duration_ns };
    });
    expect(json.calls).toEqual(counted(own));
    expect(json.requests).toEqual({ count: 0, error_count: 0, bytes: 0, ambiguous_count: 0, ambiguous_bytes: 0 });
    expect(json.files).toEqual(byFile.sort((a, b) => b.duration_ns - a.duration_ns).slice(0, 2));
    expect(json.file_count).toBe(byFile.length);
    const slowest = own.map(({ duration }) => Number(duration)).sort((a, b) => b - a);
    expect(json.slowest.map((event: Found) => event.duration_ns)).toEqual(slowest.slice(0, 2));
    const { coverage, ...transaction } = (await served.get(`/api/transactions/${id}`)).json;
    expect([json.transaction, json.coverage]).toEqual([transaction, coverage]);
  });

  test('block requests are counted, and are no calls', async () => {
    const order = { transaction: 'order-1', duration: 5n };
    const daemon = await servedHere(
      recorded([
        { ...order, at: START, file: '/f', result: 512n },
        { ...order, at: START + 1n, type: 'block_io', duration: 900n, result: 4096n },
        { ...order, at: START + 2n, type: 'block_io', quality: 'ambiguous', result: 3n },
        { ...order, at: START + 3n, type: 'block_io', quality: 'ambiguous', result: 4n },
      ]),
    );
    const { json } = await daemon.get('/api/transactions/order-1/summary');
    expect(json.calls).toEqual({ count: 1, error_count: 0, bytes: 512, duration_ns: 5 });
    expect(json.requests).toEqual({ count: 3, error_count: 0, bytes: 4103, ambiguous_count: 2, ambiguous_bytes: 7 });
    expect(json.files.map(({ file }: { file: string }) => file)).toEqual(['/f']);
    expect(json.slowest.map(({ event_type }: { event_type: string }) => event_type)).toEqual(['sys_write']);
  });

  test('one that is not recorded is refused, and so is a wrong limit', async () => {
    expect((await served.get('/api/transactions/none/summary')).json.code).toBe('transaction_not_found');
    expect((await served.get('/api/transactions/order-0/summary?limit=0')).json.code).toBe('invalid_parameter');
  });
});
