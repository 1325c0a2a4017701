/** Tests long answers: they go at the reader's pace, end when the reader leaves, and do not block other requests. */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import type { Response } from 'express';
import { createBlock } from '../../../bpf/schema/block.ts';
import { sendNdjson } from '../../../daemon/http/ndjson.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import type { ScanRequest } from '../../../daemon/store/store.ts';
import { type Row, recorded, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

const EVENTS = 40_009;
const ndjson = { headers: { accept: 'application/x-ndjson' } };

let folder: string;
let served: Served;
beforeAll(async () => {
  folder = recorded(
    Array.from({ length: EVENTS }, (_, i): Row => ({ at: START + BigInt(i), transaction: `tx-${i % 7}` })),
  );
  served = await serve(folder);
});
afterAll(() => served.close());

test('every event is a line', async () => {
  const lines = await served.lines('/api/events');
  expect(lines).toHaveLength(EVENTS);
  expect(JSON.parse(lines.at(-1)!).event_id.slice(-16)).toBe((EVENTS - 1).toString(16).padStart(16, '0'));
});

test('a reader that stops pauses the scan, and one that leaves ends it', async () => {
  const asked: number[] = [];
  let ended = false;
  function* batches() {
    try {
      for (let i = 0; i < 1000; i++) {
        asked.push(i);
        yield Buffer.alloc(65_536);
      }
    } finally {
      ended = true;
    }
  }
  const res = fakeResponse();
  const sent = sendNdjson(res, batches());
  for (let i = 0; i < 100; i++) await turn();
  // The stream's buffer accepted one chunk and reported that it is full; the next chunk is made meanwhile.
  expect(asked).toEqual([0, 1]);
  res.resume();
  while (asked.length < 3) await turn();
  res.destroy();
  await sent;
  expect(asked.length).toBeLessThan(1000);
  expect(ended).toBe(true);
});

/** As much of a response as a stream needs, with a buffer that is not drained before `resume`. */
function fakeResponse(): Response & PassThrough {
  const res = new PassThrough({ highWaterMark: 1024 }) as unknown as Response & PassThrough;
  return Object.assign(res, { status: () => res, type: () => res, flushHeaders() {}, addTrailers() {} });
}

test('losses are stated before and after the lines', async () => {
  const res = await served.open('/api/events', ndjson);
  res.resume();
  await once(res, 'end');
  expect([res.headers['kreplay-lost'], res.headers.trailer, res.trailers]).toEqual([
    '0',
    'Kreplay-Lost, Kreplay-Complete',
    { 'kreplay-lost': '0', 'kreplay-complete': 'true' },
  ]);
});

test('a disconnecting client leaves nothing open', async () => {
  const res = await served.open('/api/events', ndjson);
  await once(res, 'data');
  res.destroy();
  expect((await served.get('/api/events?limit=1')).status).toBe(200);
});

test('other requests are answered while a long answer is made', async () => {
  const order: string[] = [];
  const long = served.lines('/api/events').then(() => order.push('long'));
  const short = served.get('/healthz').then(() => order.push('short'));
  await Promise.all([long, short]);
  expect(order).toEqual(['short', 'long']);
});

test('a page of ten thousand is made in many turns of the event loop', async () => {
  let turns = 0;
  const page = served.get('/api/events?limit=10000');
  const counting = new AbortController();
  const counted = (async () => {
    for (; !counting.signal.aborted; turns++) await turn();
  })();
  expect((await page).json.events).toHaveLength(10_000);
  counting.abort();
  await counted;
  expect(turns).toBeGreaterThan(10_000 / 256);
});

test('a HEAD request reads no events', async () => {
  const head = await served.get('/api/events', { method: 'HEAD', ...ndjson });
  expect([head.status, head.headers['content-type'], head.text]).toEqual([200, 'application/x-ndjson', '']);
});

test.each([
  [undefined, 'application/json; charset=utf-8'],
  ['*/*', 'application/json; charset=utf-8'],
  ['application/json', 'application/json; charset=utf-8'],
  ['application/x-ndjson', 'application/x-ndjson'],
  ['application/x-ndjson, application/json;q=0.5', 'application/x-ndjson'],
  ['text/html, */*;q=0.1', 'application/json; charset=utf-8'],
])('Accept %s selects %s', async (accept, type) => {
  const { headers } = await served.get('/api/events?limit=1', accept === undefined ? {} : { headers: { accept } });
  expect(headers['content-type']).toBe(type);
});

test.each(['text/html', 'application/xml'])('Accept %s is answered with the available types', async (accept) => {
  const { status, json } = await served.get('/api/events', { headers: { accept } });
  expect([status, json.code]).toEqual([406, 'not_acceptable']);
  expect(json.detail).toContain('application/json or application/x-ndjson or text/event-stream');
});

test('an abandoned scan closes the file', () => {
  const store = openRecordingStore(folder);
  for (const _ of store.scan({ filter: {}, order: 'asc' })) break;
  store.close();
  expect(() => store.listServices()).not.toThrow();
  store.close();
});

test('a block without events is only a pause', async () => {
  const store = openRecordingStore(folder);
  const scan = function* (request: ScanRequest) {
    for (const scanned of store.scan(request)) {
      yield { ...scanned, block: { ...createBlock(0), numbers: new BigUint64Array() } };
      yield scanned;
    }
  };
  const pausing = await serve({ ...store, scan });
  for (const query of ['limit=5', 'limit=10000', 'limit=8192&order=desc'])
    expect((await pausing.get(`/api/events?${query}`)).text).toBe((await served.get(`/api/events?${query}`)).text);
  expect(await pausing.lines('/api/events')).toHaveLength(EVENTS);
  await pausing.close();
});

test('a stream that fails midway is cut so that it cannot be mistaken for complete', async () => {
  const store = openRecordingStore(folder);
  const scan = function* (request: ScanRequest) {
    for (const scanned of store.scan(request)) {
      yield scanned;
      throw Object.assign(new Error('damaged'), { code: 'recording_corrupt' });
    }
  };
  const failing = await serve({ ...store, scan });
  await expect(failing.lines('/api/events')).rejects.toMatchObject({ code: 'ECONNRESET' });
  // A page is made before it is sent, so it can still report the failure.
  const { status, json } = await failing.get('/api/events?limit=10000');
  expect([status, json.code, json.detail]).toEqual([503, 'recording_corrupt', 'damaged']);
  await failing.close();
});

test('an unexpected failure reveals no internals', async () => {
  const store = openRecordingStore(folder);
  const listServices = () => {
    throw new Error('secret /etc/path');
  };
  const failing = await serve({ ...store, listServices });
  const { status, text, json } = await failing.get('/api/services');
  expect([status, json.code]).toEqual([500, 'internal']);
  expect(text).not.toContain('secret');
  await failing.close();
});
