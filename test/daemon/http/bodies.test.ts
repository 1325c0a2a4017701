/** Tests request bodies on the one resource that takes them: errors name the field, and no integer is rounded. */
import { gzipSync } from 'node:zlib';
import { recorded, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

let served: Served;
beforeAll(async () => {
  served = await serve(recorded([{ at: START, transaction: 'tx' }]));
});
afterAll(() => served.close());

const SESSIONS = '/api/replay/sessions';

function post(body: string | Buffer, headers: Record<string, string> = { 'content-type': 'application/json' }) {
  return served.get(SESSIONS, { method: 'POST', body, headers });
}

test.each(['application/json', 'application/json; charset=utf-8', 'Application/JSON'])(
  'a body of type %s is accepted',
  async (type) => {
    expect((await post('{"transaction_id":"tx"}', { 'content-type': type })).status).toBe(201);
  },
);

test.each([
  ['application/json; x="; charset=utf-8"; charset=utf-16', 415],
  ['application/json; x="; charset=utf-16"; charset=utf-8', 201],
  ['application/json; charset="UTF-8"', 201],
  ['application/json;charset=utf-16', 415],
])('content type %s is answered with %i', async (type, status) => {
  expect((await post('{"transaction_id":"tx"}', { 'content-type': type })).status).toBe(status);
});

test('a compressed body is accepted, and its limit applies to the decompressed size', async () => {
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
  expect((await post(gzipSync('{"transaction_id":"tx"}'), headers)).status).toBe(201);
  const bomb = await post(gzipSync(`{"transaction_id":"${'x'.repeat(1 << 20)}"}`), headers);
  expect([bomb.status, bomb.json.code]).toEqual([413, 'body_too_large']);
});

test.each([
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/xml',
  '',
])('content type %j is refused, because any web page can send it', async (type) => {
  const { status, json } = await post('{"transaction_id":"tx"}', type ? { 'content-type': type } : {});
  expect([status, json.code]).toEqual([415, 'unsupported_media_type']);
});

test.each([
  '{',
  '{"transaction_id":"tx"',
  "{'a':1}",
  '{"a":01}',
  '{"a":1,}',
  'NaN',
  '\u0000',
  Buffer.from([0x22, 0xff, 0x22]),
])('%j is not JSON', async (body) => {
  const { status, json } = await post(body);
  expect([status, json.code]).toEqual([400, 'malformed_json']);
});

test.each([
  ['', '/transaction_id'],
  ['[]', ''],
  ['null', ''],
  ['"tx"', ''],
  ['{}', '/transaction_id'],
  ['{"transaction_id":null}', '/transaction_id'],
  ['{"transaction_id":"tx","speed":2}', '/speed'],
  ['{"transaction_id":"tx","a/b~c":2}', '/a~1b~0c'],
  ['{"transaction_id":"tx","__proto__":{}}', '/__proto__'],
  ['{"transaction_id":"tx","extra_latency_ns":"5"}', '/extra_latency_ns'],
  ['{"transaction_id":"tx","extra_latency_ns":1.5}', '/extra_latency_ns'],
  ['{"transaction_id":"tx","extra_latency_ns":-1}', '/extra_latency_ns'],
  ['{"transaction_id":"tx","extra_latency_ns":3600000000001}', '/extra_latency_ns'],
  ['{"transaction_id":"tx","extra_latency_ns":9007199254740993}', '/extra_latency_ns'],
  ['{"transaction_id":"tx","extra_latency_ns":1e400}', '/extra_latency_ns'],
  ['{"transaction_id":"tx","extra_latency_ns":0.99999999999999999999}', '/extra_latency_ns'],
])('%s is a 400 at %j', async (body, pointer) => {
  const { status, json } = await post(body);
  expect([status, json.code, json.errors.map((error: { pointer: string }) => error.pointer)]).toEqual([
    400,
    'invalid_body',
    [pointer],
  ]);
});

test('integers are exact in any notation', async () => {
  for (const text of ['3599999999999', '3599999999999.0', '3.599999999999e12']) {
    const { status, text: answer } = await post(`{"transaction_id":"tx","extra_latency_ns":${text}}`);
    expect([status, answer.includes('"extra_latency_ns":3599999999999,')]).toEqual([201, true]);
  }
});
