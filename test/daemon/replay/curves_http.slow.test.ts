/** Tests the curves of many transactions over HTTP. */
import { copyFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as nextTurn } from 'node:timers/promises';
import { stringify } from '../../../daemon/base/exact_json.ts';
import { createScanGate } from '../../../daemon/http/access/scan_gate.ts';
import { CURVES_MAX } from '../../../daemon/http/routes/curves.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { newFolder, type Row, recorded, recordingPath, START } from '../recorded.ts';
import { type Served, serve, served } from '../served.ts';

const MS = 1_000_000n;
const PATH = '/api/replay/whatif';

/** Ten transactions a second apart: `tx-n` takes n + 2 ms in two writes, one thread; the even ones are of the shop. */
const ROWS: Row[] = Array.from({ length: 10 }, (_, n) => {
  const common = { transaction: `tx-${n}`, service: n % 2 === 0 ? 'shop' : 'mail', tid: 10 + n };
  const at = START + BigInt(n) * 1000n * MS;
  return [
    { ...common, at, duration: MS },
    { ...common, at: at + 2n * MS, duration: BigInt(n) * MS },
  ];
}).flat();

let app: Served;
beforeAll(async () => {
  app = await serve(recorded(ROWS));
});
afterAll(() => app.close());

async function ask(body: object, of: Served = app) {
  const text = stringify(body);
  return of.get(PATH, { method: 'POST', headers: { 'content-type': 'application/json' }, body: text });
}

const idsOf = (json: { transactions: { transaction_id: string }[] }) =>
  json.transactions.map(({ transaction_id }) => transaction_id);

test('every transaction has the curve that what-if gives it, the newest first', async () => {
  const { status, json } = await ask({ where: {}, extra_latency_ns: 500_000, timeout_ns: 9 * 1e6 });
  expect(status).toBe(200);
  expect(idsOf(json)).toEqual(Array.from({ length: 10 }, (_, i) => `tx-${9 - i}`));
  for (const { transaction_id, curve } of json.transactions)
    expect((await ask({ transaction_id })).json.curve).toEqual(curve);
  expect(json).toMatchObject({
    ...{ extra_latency_ns: 500_000, timeout_ns: 9_000_000, transaction_count: 10 },
    // 8 and 9 take 10 and 11 ms; 7 takes 9, and 10 with the latency.
    ...{ recorded_times_out_count: 2, times_out_count: 3, are_more: false },
    coverage: { complete: true },
  });
  expect(json.transactions[0].curve).toEqual([{ events: 2, end_ns: 11_000_000 }]);
});

test.each([
  [{ from: START + 7000n * MS }, ['tx-9', 'tx-8', 'tx-7']],
  [{ from: '2025-11-21T00:00:07Z', to: START + 9000n * MS }, ['tx-8', 'tx-7']],
  [{ to: '2025-11-21T00:00:02Z' }, ['tx-1', 'tx-0']],
  [{ from: '-1500ms' }, ['tx-9']],
  [{ service: ['mail'], min_duration_ms: 8.5 }, ['tx-9', 'tx-7']],
  [{ service: ['mail', 'shop'], node: ['test-node'], min_duration_ms: 11 }, ['tx-9']],
  [{ node: ['another'] }, []],
])('where %j', async (where, expected) => {
  app.setNow(START + 10_000n * MS);
  const { json } = await ask({ where });
  expect(idsOf(json)).toEqual(expected);
  expect(json.transaction_count).toBe(expected.length);
});

test('only some events get the latency', async () => {
  const { json } = await ask({ where: {}, only: { service: ['shop'] } });
  expect(json.transactions[0].curve).toEqual([{ events: 0, end_ns: 11_000_000 }]);
  expect(json.transactions[1].curve).toEqual([{ events: 2, end_ns: 10_000_000 }]);
});

test.each([
  ['{}', '', 'exactly one of transaction_id, where'],
  ['{"transaction_id":"tx-1","where":{}}', '', 'exactly one of transaction_id, where'],
  ['{"where":{},"limit":5}', '/limit', 'not for where'],
  ['{"where":{"service":"shop"}}', '/where/service', 'expected array'],
  ['{"where":{"service":[]}}', '/where/service', 'must name a service'],
  ['{"where":{"from":"yesterday"}}', '/where/from', 'RFC 3339'],
  ['{"where":{"from":-1}}', '/where/from', 'nanoseconds since the epoch'],
  ['{"where":{"from":true}}', '/where/from', 'RFC 3339'],
  ['{"where":{"from":5,"to":4}}', '/where/from', 'later than to'],
  ['{"where":{"min_duration_ms":-1}}', '/where/min_duration_ms', 'decimal milliseconds'],
  ['{"where":{"min_duration_ms":0.0000001}}', '/where/min_duration_ms', 'whole nanoseconds'],
  ['{"where":{"min_duration_ms":"1"}}', '/where/min_duration_ms', 'decimal milliseconds'],
  ['{"where":{"transaction_id":"tx-1"}}', '/where/transaction_id', 'unknown field'],
  ['{"where":{},"clock_offsets_ns":{"another":1}}', '/clock_offsets_ns/another', 'nothing is recorded'],
])('%s is refused', async (body, pointer, message) => {
  const { status, json } = await app.get(PATH, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  expect([status, json.code]).toEqual([400, 'invalid_body']);
  expect(json.errors).toContainEqual({ pointer, message: expect.stringContaining(message) });
});

test('more than an answer may have are the newest, and it says that there are more', async () => {
  const rows: Row[] = Array.from({ length: CURVES_MAX + 5 }, (_, n) => {
    return { at: START + BigInt(n) * 1000n, transaction: `tx-${n}`, duration: 5n };
  });
  const { json } = await ask({ where: {} }, await served(recorded(rows)));
  expect([json.transaction_count, json.are_more]).toEqual([CURVES_MAX, true]);
  expect(idsOf(json).slice(0, 2)).toEqual([`tx-${CURVES_MAX + 4}`, `tx-${CURVES_MAX + 3}`]);
});

describe('a long list', () => {
  const COUNT = 500;
  const POST = { method: 'POST', headers: { 'content-type': 'application/json' } };
  let [scans, begun] = [0, Promise.withResolvers<void>()];

  /** A daemon that runs one query at a time, and counts its scans: with a copy it reads each transaction alone. */
  async function counting(): Promise<Served> {
    [scans, begun] = [0, Promise.withResolvers<void>()];
    const rows = Array.from({ length: COUNT }, (_, n) => ({ at: START + BigInt(n), transaction: `tx-${n}` }));
    const folder = recorded(rows);
    const copy = join(newFolder(), 'copy.kreplay');
    copyFileSync(recordingPath(folder), copy);
    const store = openRecordingStore(undefined, [recordingPath(folder), copy]);
    const scanGate = createScanGate({ scansMax: 1, waitMsMax: 1, nowMs: () => performance.now() });
    return served(
      {
        ...store,
        scan(scan) {
          scans++;
          begun.resolve();
          return store.scan(scan);
        },
      },
      { scanGate },
    );
  }

  test('takes a turn like other queries', async () => {
    const one = await counting();
    const asking = ask({ where: {} }, one);
    await begun.promise;
    const { status, json } = await ask({ where: {} }, one);
    expect([status, json.code]).toEqual([503, 'busy']);
    expect((await asking).json.transaction_count).toBe(COUNT);
    expect(scans).toBe(COUNT);
  });

  test('is cut short when its client has gone', async () => {
    const one = await counting();
    const asking = request({ host: '127.0.0.1', port: one.port, path: PATH, ...POST, agent: false });
    asking.on('error', () => {});
    asking.end('{"where":{}}');
    await begun.promise;
    asking.destroy();
    // The turn is free again once the work has ended.
    while ((await ask({ where: { node: ['another'] } }, one)).status !== 200) await nextTurn(5);
    expect(scans).toBeLessThan(COUNT);
  });
});
