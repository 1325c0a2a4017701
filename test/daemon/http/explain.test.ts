/** `GET /api/transactions/{id}/explain`: its figures by a computation of their own, its sentence, its limits. */
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import {
  appendRows,
  newFolder,
  newWriter,
  type Row,
  recorded,
  recordedOn,
  recordingPath,
  START,
  setInProgress,
} from '../recorded.ts';
import { served } from '../served.ts';

const ms = (value: number) => BigInt(Math.round(value * 1_000_000));
const at = (value: number) => START - 60_000_000_000n + ms(value);
const ORDER = { transaction: 'shop-7', service: 'shop', comm: 'python3', pid: 7, tid: 7 };
const BACKUP = { service: 'backup', comm: 'dd', pid: 9, tid: 9, source: 'none' as const, result: 0n };

const write = (from: number, duration: number, file = '/srv/orders.log'): Row => ({
  ...{ ...ORDER, at: at(from), duration: ms(duration), file },
});
const sync = (from: number, duration: number, file: string, syscall: 'fsync' | 'fdatasync' = 'fsync'): Row => ({
  ...{ ...ORDER, type: 'sys_sync', at: at(from), duration: ms(duration), file, syscall, result: 0n },
});
const request = (from: number, duration: number, queue: number, device = 'vda'): Row => ({
  ...{ ...ORDER, type: 'block_io', at: at(from), duration: ms(duration), queue: ms(queue), device, result: 0n },
  ...{ bytes: 4096n, queuedBy: { service: 'shop', transaction: 'shop-7' } },
});
const otherRequest = (from: number, duration: number, device = 'vda'): Row => ({
  ...{ ...BACKUP, type: 'block_io', at: at(from), duration: ms(duration), queue: 0n, device, bytes: 65_536n },
});

const SLOW_ORDER: Row[] = [
  ...Array.from({ length: 50 }, (_, i) => write(i * 0.02, 0.01)),
  sync(1, 1.07, '/srv/orders.log'),
  sync(2.1, 231.9, '/srv/index.db', 'fdatasync'),
  request(3, 230, 200),
  ...Array.from({ length: 40 }, (_, i) => otherRequest(i * 5, 6)),
  otherRequest(20, 5, 'loop1'),
  otherRequest(240, 5),
];

test('names the call with the most time, its file, what it waited for, and the neighbour', async () => {
  const { get } = await served(recorded(SLOW_ORDER));
  const { status, json } = await get('/api/transactions/shop-7/explain?limit=1');
  expect(status).toBe(200);
  expect(json).toMatchObject({
    sentence:
      "shop-7 of shop: 231.9 of 234.0 ms in one fdatasync of index.db, mostly waiting in vda's queue; " +
      'backup had 40 requests on vda meanwhile.',
    duration_ns: 234_000_000,
    parts: {
      ...{ queue_ns: 200_000_000, service_ns: 30_000_000, sync_ns: 1_070_000 + 1_900_000, write_ns: 500_000 },
      ...{ request_ns: 0, untraced_ns: 530_000 },
    },
    calls: {
      ...{
        call: 'fdatasync',
        file: '/srv/index.db',
        file_count: 1,
        unknown_file_comms: [],
        count: 1,
        time_ns: 231_900_000,
      },
      longest: { call: 'fdatasync', file: '/srv/index.db', comm: 'python3', duration_ns: 231_900_000 },
    },
    wait: { part: 'queue', time_ns: 200_000_000, node: 'test-node', device: 'vda', inferred: false },
    neighbours: [{ name: 'backup', node: 'test-node', device: 'vda', count: 40, bytes: 40 * 65_536 }],
    neighbours_complete: true,
    failures: [],
    bursts: [{ event_count: 53 }],
    transaction: { transaction_id: 'shop-7' },
    coverage: { complete: true },
  });
  const { slowest, calls, transaction } = json;
  expect(slowest).toHaveLength(1);
  expect([slowest[0].event_id, slowest[0].file]).toEqual([calls.longest.event_id, '/srv/index.db']);
  expect(slowest[0].event_id).toBe(transaction.slowest_event_id);
});

test('a thousand slow calls are explained like one', async () => {
  const rows = Array.from({ length: 1000 }, (_, i) => [sync(i * 2, 1.5, '/srv/wal'), write(i * 2 + 1.6, 0.1)]).flat();
  const { get } = await served(recorded(rows));
  const { json } = await get('/api/transactions/shop-7/explain');
  expect(json.sentence).toBe(
    'shop-7 of shop: 1.50 of 2.00 s in 1 000 fsyncs of wal, up to 1.50 ms each, mostly with no request of its own under way.',
  );
  expect(json.calls).toMatchObject({ count: 1000, time_ns: 1_500_000_000 });
  expect(json.slowest).toHaveLength(5);
});

test('an id that was used again is seen, and each use can be explained', async () => {
  const rows = [sync(0, 20, '/srv/a'), write(21, 1), sync(13_000, 300, '/srv/b'), request(13_010, 280, 5)];
  const { get } = await served(recorded(rows));
  const { json } = await get('/api/transactions/shop-7/explain');
  expect(json.sentence).toContain('2 bursts of calls, 13.0 s apart, as when an id is used again; ');
  expect(json.bursts.map(({ event_count }: { event_count: number }) => event_count)).toEqual([2, 2]);
  const explained = await Promise.all(
    json.bursts.map(({ from, to }: { from: number; to: number }) =>
      get(`/api/transactions/shop-7/explain?from=${BigInt(from) - 1000n}&to=${BigInt(to) + 1000n}`),
    ),
  );
  expect(explained.map((one) => one.json.sentence)).toEqual([
    'shop-7 of shop: 20.0 of 22.0 ms in one fsync of a, mostly with no request of its own under way.',
    'shop-7 of shop: 300.0 of 300.0 ms in one fsync of b, mostly vda at work on its requests.',
  ]);
  expect(explained.map((one) => one.json.slowest[0].file)).toEqual(['/srv/a', '/srv/b']);
});

test('on several nodes each has its own neighbours', async () => {
  const folders = [
    recordedOn('node-a', [sync(0, 20, '/srv/a'), request(1, 18, 10), otherRequest(5, 5)]),
    recordedOn('node-b', [sync(0, 10, '/srv/a'), request(1, 8, 5), otherRequest(3, 5), otherRequest(4, 5)]),
  ];
  const { get } = await served(openRecordingStore(undefined, folders.map(recordingPath)));
  const { json } = await get('/api/transactions/shop-7/explain');
  expect(json.neighbours).toMatchObject([{ name: 'backup', node: 'node-a', count: 1 }]);
  expect(json.duration_ns).toBe(20_000_000);
});

test('a device that only later write-back names is the device of its neighbours', async () => {
  const origin = { service: 'shop', transaction: 'shop-7', bytes: 4096n };
  const writeBack: Row = {
    ...{ ...ORDER, type: 'block_io', at: at(5000), duration: ms(5), device: 'vda', bytes: 4096n, result: 0n },
    ...{ source: 'origin', origins: [origin] },
  };
  const { get } = await served(recorded([write(0, 20, '/srv/a'), otherRequest(5, 5), writeBack]));
  const { json } = await get('/api/transactions/shop-7/explain');
  expect(json.sentence).toBe(
    'shop-7 of shop: 20.0 of 20.0 ms in one write of a; backup had 1 request on vda meanwhile.',
  );
});

test('a call in progress is part of the sentence, and so are missing events', async () => {
  const lossy = recorded([write(0, 20, '/srv/a')], (writer) => {
    writer.recordLoss({ cause: 'ring_full', eventType: null, count: 2, fromNs: at(0), toNs: at(10) });
  });
  const explained = (await (await served(lossy)).get('/api/transactions/shop-7/explain')).json;
  expect(explained.sentence).toMatch(/ Events of this time are missing\.$/);
  const busy = newFolder();
  const writer = newWriter(busy);
  appendRows(writer, [write(0, 20, '/srv/a')]);
  setInProgress(writer, [sync(30, 0, '/srv/b')]);
  writer.flush();
  const answer = (await (await served(busy)).get('/api/transactions/shop-7/explain')).json;
  expect(answer.sentence).toMatch(/ 1 call has not ended yet\.$/);
  writer.close();
});

test('with a range, neighbours are counted to the end of the calls that began in it', async () => {
  const rows = [sync(0, 5000, '/srv/a'), request(1, 4990, 4000), ...[1, 2, 3].map((s) => otherRequest(s * 1500, 5))];
  const { get } = await served(recorded(rows));
  const { json } = await get(`/api/transactions/shop-7/explain?from=${at(0)}&to=${at(100)}`);
  expect(json.neighbours).toMatchObject([{ name: 'backup', count: 3 }]);
});

test('data that was only written back later is no time of its own', async () => {
  const origin = { service: 'shop', transaction: 'shop-7', bytes: 4096n };
  const rows: Row[] = [
    { ...BACKUP, type: 'block_io', at: at(0), duration: ms(5), device: 'vda', bytes: 4096n, origins: [origin] },
  ];
  const { get } = await served(recorded(rows.map((row) => ({ ...row, ...ORDER, source: 'origin' }) as Row)));
  const { json } = await get('/api/transactions/shop-7/explain');
  expect(json).toMatchObject({
    sentence: 'Nothing that shop-7 itself did is here.',
    ...{ duration_ns: 0, parts: null, calls: null, wait: null, neighbours: [], bursts: [], slowest: [] },
  });
});

test.each([
  ['/api/transactions/nobody/explain', 404, 'transaction_not_found'],
  ['/api/transactions/shop-7/explain?limit=0', 400, 'invalid_parameter'],
  ['/api/transactions/shop-7/explain?form=-1m', 400, 'invalid_parameter'],
  ['/api/transactions/shop-7/explain?from=-1m&to=-2m', 400, 'invalid_parameter'],
])('%s is refused', async (path, status, code) => {
  const { get } = await served(recorded([write(0, 1)]));
  const answer = await get(path);
  expect([answer.status, answer.json.code]).toEqual([status, code]);
});

test('a range without events says so', async () => {
  const { get } = await served(recorded([write(0, 1)]));
  const { json } = await get('/api/transactions/shop-7/explain?from=-10s');
  expect([json.sentence, json.slowest]).toEqual(['Nothing that shop-7 itself did is here.', []]);
});
