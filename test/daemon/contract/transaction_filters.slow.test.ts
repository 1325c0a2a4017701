/** Tests that filters of transactions by values of their events select what looking at all events selects. */
import { request } from 'node:http';
import { setTimeout as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { parseJson, stringify } from '../../../daemon/base/exact_json.ts';
import { createScanGate } from '../../../daemon/http/access/scan_gate.ts';
import { createEmbeddedStore } from '../../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { createScanThreads } from '../../../daemon/store/embedded/scan_threads/scan_threads.ts';
import type { TransactionFilter } from '../../../daemon/store/store.ts';
import { times } from '../../repeats.ts';
import { type Row, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Served, serve, served as servedHere } from '../served.ts';
import {
  areSelected,
  type DrawnFilter,
  drawnFilter,
  FILES,
  listOf,
  NAMES,
  PARAMETERS,
  type PlainEvent,
  queryOf,
} from './drawn_filters.ts';

/** Transactions are far enough from each other that no request of one is in the time of another. */
const APART = 1000;

const drawnRow = fc.record({
  transaction: fc.integer({ min: 0, max: 59 }),
  at: fc.integer({ min: 0, max: 60 }),
  duration: fc.integer({ min: 0, max: 40 }),
  kind: fc.constantFrom('write', 'sync', 'sync', 'own request', 'request', 'request', 'write-back'),
  node: fc.constantFrom('node-a', 'node-b'),
  service: fc.constantFrom(...NAMES),
  comm: fc.constantFrom(...NAMES),
  device: fc.constantFrom(...NAMES),
  file: fc.constantFrom(...FILES, undefined),
  result: fc.constantFrom(64n, 0n, -5n, -28n, -4n, -512n, -4000n),
});
type DrawnRow = typeof drawnRow extends fc.Arbitrary<infer T> ? T : never;

function rowOf({ transaction, at, duration, kind, service, comm, device, file, result }: DrawnRow): Row {
  const owner = { transaction: `tx-${transaction}`, service };
  const times = { at: START - 1_000_000n + BigInt(transaction * APART + at), duration: BigInt(duration) };
  const call = { ...times, ...owner, comm, result, ...(file !== undefined && { file }) };
  if (kind === 'write') return { ...call, syscall: at % 2 === 0 ? 'write' : 'pwrite64' };
  if (kind === 'sync') return { ...call, type: 'sys_sync', syscall: at % 2 === 0 ? 'fsync' : 'sync' };
  const operation = (['read', 'write', 'flush'] as const)[at % 3]!;
  const its = { ...times, comm, result, type: 'block_io', device, operation } as const;
  if (kind === 'own request') return { ...its, ...owner };
  if (kind === 'write-back') return { ...its, ...owner, source: 'origin' };
  return { ...its, service: 'kernel', origins: [{ ...owner, bytes: 1n }] };
}

const DRAWN = fc.sample(drawnRow, { numRuns: 700, seed: 20_261_126 });

interface Transaction {
  transaction_id: string;
  duration_ns: number;
  error_count: number;
  services: string[];
  nodes: string[];
}

let served: Served;
let paths: string[];
let transactions: Transaction[];
/** What each transaction has, as events with only that. */
let parts: Map<string, PlainEvent[]>;

beforeAll(async () => {
  paths = ['node-a', 'node-b'].map((node) =>
    recordingPath(recordedOn(node, DRAWN.filter((one) => one.node === node).map(rowOf))),
  );
  served = await serve(openRecordingStore(undefined, paths));
  const events = (await served.lines('/api/events')).map((line) => parseJson(line));
  transactions = (await served.get('/api/transactions?limit=1000')).json.transactions;
  parts = new Map(transactions.map((one) => [one.transaction_id, partsOf(one, events)]));
});
afterAll(() => served.close());

function partsOf({ transaction_id: id, services, nodes }: Transaction, events: readonly PlainEvent[]): PlainEvent[] {
  const own = events.filter((one) => one.transaction_id === id && one.attribution.source !== 'origin');
  const syncs = own.filter(({ event_type }) => event_type === 'sys_sync');
  const carries = (one: PlainEvent) =>
    one.transaction_id === id || one.origins?.some((origin: PlainEvent) => origin.transaction_id === id);
  const momentsOf = ({ timestamp_ns, duration_ns }: PlainEvent) => {
    const start = Number(BigInt(timestamp_ns) - START);
    return Array.from({ length: duration_ns }, (_, i) => start + i);
  };
  const isWaitedFor = (one: PlainEvent) => {
    const moments = new Set(momentsOf(one));
    return syncs.some((sync) => sync.node === one.node && momentsOf(sync).some((moment) => moments.has(moment)));
  };
  const waited = events.filter((one) => carries(one) && !own.includes(one) && isWaitedFor(one));
  return [
    ...services.map((service_name) => ({ service_name })),
    ...nodes.map((node) => ({ node })),
    ...own.map((one) => ({ ...one, service_name: undefined, node: undefined, origins: [] })),
    ...waited.map(({ device }) => ({ device })),
  ];
}

const selectedBy = (filter: DrawnFilter) =>
  transactions.filter(({ transaction_id }) => areSelected(parts.get(transaction_id)!, filter));
const idsOf = (some: readonly Transaction[]) => some.map(({ transaction_id }) => transaction_id);
const found = async (query: string, of = served) =>
  idsOf((await of.get(`/api/transactions?limit=1000&${query}`)).json.transactions);

test('some transactions have a device only by a request that they waited for', () => {
  expect(transactions).toHaveLength(60);
  const only = transactions.filter(({ transaction_id }) => {
    const devices = parts.get(transaction_id)!.filter(({ device }) => device !== undefined);
    return devices.some(
      ({ event_type, device }) => !event_type && devices.every((one) => !one.event_type || one.device !== device),
    );
  });
  expect(only.length).toBeGreaterThan(10);
});

test.each(PARAMETERS)('%s selects what it says, alone', async (name) => {
  await fc.assert(
    fc.asyncProperty(listOf(name), async (list) => {
      expect(await found(queryOf({ [name]: list }))).toEqual(idsOf(selectedBy({ [name]: list })));
    }),
    { numRuns: times(4) },
  );
});

async function pagesOf(query: string): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const place = cursor === '' ? '' : `&cursor=${cursor}`;
    const { json } = await served.get(`/api/transactions?limit=7&${query}${place}`);
    ids.push(...idsOf(json.transactions));
    cursor = json.next_cursor;
  }
  return ids;
}

test('lists, pages, maps, comparisons and curves have what a combination selects', async () => {
  let most = 0;
  await fc.assert(
    fc.asyncProperty(drawnFilter, async (filter) => {
      const query = queryOf(filter);
      const expected = selectedBy(filter);
      most = Math.max(most, expected.length);
      expect(await found(query)).toEqual(idsOf(expected));
      expect(await pagesOf(query)).toEqual(idsOf(expected));
      // Without bounds the map begins with the first event of the nodes, and a transaction may begin on another.
      const map = (await served.get(`/api/heatmap?${query}&from=-1s&to=${START}`)).json;
      expect(map.total.count).toBe(expected.length);
      const compared = (await served.get(`/api/differences?failed=true&${query}`)).json;
      const failed = expected.filter(({ error_count }) => error_count > 0).length;
      expect([compared.selected.count, compared.others.count]).toEqual([failed, expected.length - failed]);
      const body = stringify({ where: filter });
      const headers = { 'content-type': 'application/json' };
      const curves = (await served.get('/api/replay/whatif', { method: 'POST', headers, body })).json;
      expect(idsOf(curves.transactions)).toEqual(idsOf(expected));
    }),
    { numRuns: times(15), examples: [[{ event_type: ['sys_sync'], comm: [NAMES[0]!] }]] },
  );
  expect(most).toBeGreaterThan(20);
}, 120_000);

test('each value of a comparison selects the transactions that it counted', async () => {
  const { differences } = (await served.get('/api/differences?min_duration_ms=0.00005')).json;
  const values = differences.flatMap((one: { values: unknown[] }) => one.values);
  const all = [...values, { field: 'file', value: '/var/lib/pg/*' }];
  for (const { field, value, selected, others } of all) {
    const having = await found(queryOf({ [field]: [value] }));
    if (selected !== undefined && field !== 'service') expect(having).toHaveLength(selected + others);
    const without = await found(queryOf({ [`exclude_${field}`]: [value] }));
    expect(having.length + without.length).toBe(transactions.length);
  }
});

test('values combine with times, durations, failure and the order by duration', async () => {
  const filter: DrawnFilter = { device: ['a', 'b', '*'], exclude_comm: ['a*'] };
  const isFit = ({ duration_ns, error_count }: Transaction) =>
    duration_ns >= 30 && duration_ns <= 75 && error_count > 0;
  const expected = selectedBy(filter).filter(isFit);
  expect(expected.length).toBeGreaterThan(1);
  const query = `${queryOf(filter)}&min_duration_ms=0.00003&max_duration_ms=0.000075&has_error=true`;
  expect(await found(query)).toEqual(idsOf(expected));
  const slowest = (await served.get(`/api/transactions?sort=slowest&limit=1000&${query}`)).json.transactions;
  expect(slowest.map(({ duration_ns }: Transaction) => duration_ns)).toEqual(
    expected.map(({ duration_ns }) => duration_ns).sort((a, b) => b - a),
  );
  const { json } = await served.get('/api/transactions?min_duration_ms=2&max_duration_ms=1');
  expect(json.errors).toEqual([{ parameter: 'min_duration_ms', message: 'must not be longer than max_duration_ms' }]);
});

test('the threads that scan answer alike', async () => {
  const recordings = openRecordingStore(undefined, paths);
  const threads = createScanThreads({ data: undefined, recordings: paths }, recordings.adopt);
  const other = await servedHere(recordings, { scans: threads });
  for (const filter of fc.sample(drawnFilter, { numRuns: 10, seed: 7 }))
    expect(await found(queryOf(filter), other)).toEqual(idsOf(selectedBy(filter)));
});

test('a filter that needs too many events is refused, and one by service or node reads none', async () => {
  const store = createEmbeddedStore(openRecordingStore(undefined, paths), undefined, 0);
  const list = async (filter: TransactionFilter) => {
    const steps = store.listTransactions({ filter, sort: 'recent', limit: 1000 });
    for (;;) {
      const { done, value } = await steps.next();
      if (done) return value.transactions.length;
    }
  };
  try {
    expect(await list({ services: ['a'], excluded: { services: ['b'], nodes: ['not-there'] } })).toBe(
      selectedBy({ service: ['a'], exclude_service: ['b'] }).length,
    );
    for (const filter of [{ devices: ['a'] }, { excluded: { comms: ['a'] } }, { results: [-5n] }, { comms: ['a'] }])
      await expect(list(filter)).rejects.toMatchObject({ code: 'too_many_events' });
    // Nothing has to be read for no transactions.
    expect(await list({ services: ['not there'], devices: ['a'] })).toBe(0);
  } finally {
    await store.close();
  }
});

describe('the scan for a filter', () => {
  const COUNT = 80_000;
  const DEVICE = '/api/transactions?exclude_device=none';
  let scans = 0;
  let begun = Promise.withResolvers<void>();

  /** Counts the blocks that are read. */
  async function counting() {
    [scans, begun] = [0, Promise.withResolvers<void>()];
    const row = (i: number) => ({ at: START + BigInt(i), transaction: `tx-${i % 100}` });
    const store = openRecordingStore(
      recordedOn(
        'n',
        Array.from({ length: COUNT }, (_, i) => row(i)),
      ),
    );
    const scanGate = createScanGate({ scansMax: 1, waitMsMax: 1, nowMs: () => performance.now() });
    const scanUnordered: typeof store.scanUnordered = function* (asked) {
      for (const block of store.scanUnordered(asked)) {
        scans++;
        begun.resolve();
        yield block;
      }
    };
    return servedHere({ ...store, scanUnordered }, { scanGate });
  }

  test('takes a turn, and is cut short when its client has gone', async () => {
    const daemon = await counting();
    expect((await daemon.get(DEVICE)).json.transactions).toHaveLength(100);
    const whole = scans;
    expect(whole).toBeGreaterThan(10);
    [scans, begun] = [0, Promise.withResolvers<void>()];
    const asking = request({ host: '127.0.0.1', port: daemon.port, path: DEVICE, agent: false });
    asking.on('error', () => {});
    asking.end();
    await begun.promise;
    expect((await daemon.get(DEVICE)).json.code).toBe('busy');
    asking.destroy();
    // The turn is free again once the work has ended.
    while ((await daemon.get('/api/transactions')).status !== 200) await nextTurn(5);
    expect(scans).toBeLessThan(whole);
  });
});

test.each([
  [{ where: { operation: ['wrote'] } }, '/where/operation/0'],
  [{ where: { error: ['EIO', 'eio'] } }, '/where/error/1'],
  [{ where: { exclude_device: [] } }, '/where/exclude_device'],
  [{ where: { comm: 'a' } }, '/where/comm'],
  [{ where: { comm: [] } }, '/where/comm'],
  [{ where: { exclude_pid: [1] } }, '/where/exclude_pid'],
])('%j is refused', async (body, pointer) => {
  const headers = { 'content-type': 'application/json' };
  const { status, json } = await served.get('/api/replay/whatif', { method: 'POST', headers, body: stringify(body) });
  expect([status, json.errors[0].pointer]).toEqual([400, pointer]);
});
