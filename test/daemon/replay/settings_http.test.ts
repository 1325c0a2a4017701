/** Tests settings of a session over HTTP: which can be changed, and what is refused. */
import { type Row, recorded, START } from '../recorded.ts';
import { type Answer, type Served, serve } from '../served.ts';

const MS = 1_000_000n;
const SESSIONS = '/api/replay/sessions';

const ROWS: readonly Row[] = [
  ...Array.from({ length: 51 }, (_, n) => ({ at: START + BigInt(n) * MS, transaction: 'tx-1', tid: n % 3 })),
  { type: 'block_io', at: START + 51n * MS, duration: 2n * MS, transaction: 'tx-1' },
];

let served: Served;
beforeAll(async () => {
  served = await serve(recorded(ROWS));
});
afterAll(() => served.close());

function send(method: string, path: string, body: unknown): Promise<Answer> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return served.get(path, { method, headers: { 'content-type': 'application/json' }, body: text });
}

async function create(more: object = {}): Promise<string> {
  const { json } = await send('POST', SESSIONS, { transaction_id: 'tx-1', ...more });
  return `${SESSIONS}/${json.session_id}`;
}

test('deadline, gaps and the events that get the latency can be set and changed', async () => {
  const only = { event_type: ['block_io'] };
  const path = await create({ extra_latency_ns: 10_000_000, only });
  expect((await served.get(path)).json).toMatchObject({ only, replay_duration_ns: 63_000_000 });
  const change = { only: { service: ['shop'], node: ['test-node'] }, timeout_ns: 5_000_000, max_gap_ns: 0 };
  const { status, json } = await send('PATCH', path, change);
  expect([status, json]).toEqual([200, expect.objectContaining(change)]);
  expect((await served.get(path)).json).toMatchObject(change);
  const { json: cleared } = await send('PATCH', path, { only: {}, timeout_ns: null, max_gap_ns: null });
  expect(cleared).toMatchObject({ only: {}, timeout_ns: null, max_gap_ns: null, extra_latency_ns: 10_000_000 });
});

test.each([
  ['{}', '', 'at least one of speed_factor'],
  ['{"timeout_ns":0}', '/timeout_ns', 'at least 1'],
  ['{"max_gap_ns":-1}', '/max_gap_ns', 'at least 0'],
  ['{"only":null}', '/only', 'object'],
  ['{"only":{"node":[]}}', '/only/node', 'must name a node'],
  ['{"loop":true,"clock_offsets_ns":{}}', '/clock_offsets_ns', 'unknown field'],
])('changing with %s', async (body, pointer, message) => {
  const { status, json } = await send('PATCH', await create(), body);
  expect([status, json.code]).toEqual([400, 'invalid_body']);
  expect(json.errors).toEqual([{ pointer, message: expect.stringContaining(message) }]);
});

test.each([
  ['{"until":"replay_end_ns"}', '/until', 'must be "replay_duration_ns" or null'],
  ['{"until":5}', '/until', 'must be "replay_duration_ns" or null'],
  ['{"until_ns":5}', '/until_ns', 'unknown field'],
])('playing with %s', async (body, pointer, message) => {
  const path = await create();
  const { status, json } = await send('POST', `${path}/play`, body);
  expect([status, json.code]).toEqual([400, 'invalid_body']);
  expect(json.errors).toEqual([{ pointer, message: expect.stringContaining(message) }]);
  expect((await served.get(path)).json).toMatchObject({ state: 'ready', until: null });
  // Nothing of it is written back, so that it plays to its end.
  for (const until of ['replay_duration_ns', null])
    expect((await send('POST', `${path}/play`, { until })).json).toMatchObject({ state: 'playing', until: null });
});

test.each([
  ['{"transaction_id":"tx-1","only":{"file":["x"]}}', '/only/file', 'unknown field'],
  ['{"transaction_id":"tx-1","only":{"service":"web"}}', '/only/service', 'array'],
  ['{"transaction_id":"tx-1","only":{"event_type":["sys_read"]}}', '/only/event_type/0', 'Invalid option'],
])('creating with %s', async (body, pointer, message) => {
  const { status, json } = await send('POST', SESSIONS, body);
  expect([status, json.code]).toEqual([400, 'invalid_body']);
  expect(json.errors).toEqual([{ pointer, message: expect.stringContaining(message) }]);
});
