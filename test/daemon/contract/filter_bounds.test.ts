/** Tests that filters that would take too long, or that nothing can meet by mistake, are refused everywhere. */
import { stringify } from '../../../daemon/base/exact_json.ts';
import { recorded, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

let served: Served;
beforeAll(async () => {
  served = await serve(
    recorded([
      { at: START - 10n, duration: 5n, transaction: 'failed', result: -5n, file: '/f/63' },
      { at: START - 9n, duration: 5n, transaction: 'fine', file: '/f/64' },
    ]),
  );
});
afterAll(() => served.close());

const LISTS = [
  ...['/api/events?', '/api/transactions?', '/api/heatmap?', '/api/heatmap?of=events&', '/api/stats?'],
  ...['/api/differences?', '/api/differences?of=events&'],
];
const paths = (count: number) => Array.from({ length: count }, (_, i) => `/f/${i}`);

async function whatIf(where: object) {
  const headers = { 'content-type': 'application/json' };
  return await served.get('/api/replay/whatif', { method: 'POST', headers, body: stringify({ where }) });
}

describe.each(['file', 'exclude_file'])('%s', (name) => {
  const message = 'must have at most 64 values: give patterns, such as /srv/db/*, for many files';

  test.each(LISTS)('%s takes 64 values, and not more', async (start) => {
    expect((await served.get(`${start}${name}=${paths(64)}`)).status).toBe(200);
    for (const more of [`${name}=${paths(65)}`, `${name}=${paths(32)}&${name}=${paths(33)}`]) {
      const { status, json } = await served.get(`${start}${more}`);
      expect([status, json.errors]).toEqual([400, [{ parameter: name, message }]]);
    }
  });

  test('a live tail takes no more either', async () => {
    const headers = { accept: 'text/event-stream' };
    const { status, json } = await served.get(`/api/events?${name}=${paths(65)}`, { headers });
    expect([status, json.errors]).toEqual([400, [{ parameter: name, message }]]);
  });

  test('where takes 64 values, and not more', async () => {
    expect((await whatIf({ [name]: paths(64) })).status).toBe(200);
    const { status, json } = await whatIf({ [name]: paths(65) });
    expect([status, json.errors]).toEqual([400, [{ pointer: `/where/${name}`, message }]]);
  });
});

test.each(['service', 'node', 'device', 'comm'])('%s has at most 1000 values', async (name) => {
  const message = 'must have at most 1000 values: ask for fewer at a time';
  const many = (count: number) => Array.from({ length: count }, (_, i) => `${i}`);
  for (const field of [name, `exclude_${name}`]) {
    expect((await served.get(`/api/events?${field}=${many(1000)}`)).status).toBe(200);
    const { status, json } = await served.get(`/api/events?${field}=${many(1001)}`);
    expect([status, json.errors]).toEqual([400, [{ parameter: field, message }]]);
    expect((await whatIf({ [field]: many(1000) })).status).toBe(200);
    const refused = await whatIf({ [field]: many(1001) });
    expect([refused.status, refused.json.errors]).toEqual([400, [{ pointer: `/where/${field}`, message }]]);
  }
});

test.each(LISTS)('%s refuses a minimum above the maximum, and names both', async (start) => {
  const { status, json } = await served.get(`${start}min_duration_ms=0.002&max_duration_ms=0.001`);
  const message = 'must not be longer than max_duration_ms';
  expect([status, json.errors]).toEqual([400, [{ parameter: 'min_duration_ms', message }]]);
  expect((await served.get(`${start}min_duration_ms=0.001&max_duration_ms=0.001`)).status).toBe(200);
});

test('where refuses a minimum above the maximum, and names both', async () => {
  const message = 'must not be longer than max_duration_ms';
  const { status, json } = await whatIf({ min_duration_ms: 0.002, max_duration_ms: 0.001 });
  expect([status, json.code, json.errors]).toEqual([
    400,
    'invalid_body',
    [{ pointer: '/where/min_duration_ms', message }],
  ]);
  expect(json.detail).toBe(`where/min_duration_ms: ${message}`);
  expect((await whatIf({ min_duration_ms: 0.001, max_duration_ms: 0.001 })).status).toBe(200);
});

test('where selects by whether an event failed, as lists do', async () => {
  const idsOf = (transactions: { transaction_id: string }[]) => transactions.map((one) => one.transaction_id);
  for (const has_error of [true, false]) {
    const { transactions } = (await served.get(`/api/transactions?has_error=${has_error}`)).json;
    const { json } = await whatIf({ has_error });
    expect(idsOf(json.transactions)).toEqual(idsOf(transactions));
    expect(idsOf(transactions)).toEqual([has_error ? 'failed' : 'fine']);
  }
  const { status, json } = await whatIf({ has_error: 'true' });
  expect([status, json.errors[0].pointer]).toEqual([400, '/where/has_error']);
});
