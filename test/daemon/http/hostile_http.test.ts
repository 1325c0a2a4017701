/** Tests requests that no honest client sends: from web pages, with wrong methods and bodies, and not HTTP at all. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { recorded, START } from '../recorded.ts';
import { type Sent, type Served, serve } from '../served.ts';

let served: Served;
beforeAll(async () => {
  served = await serve(recorded([{ at: START }]));
});
afterAll(() => served.close());

async function outcome(path: string, sent: Sent): Promise<[number, string | undefined]> {
  const { status, json } = await served.get(path, sent);
  return [status, json?.code];
}

test.each([
  'evil.example',
  'evil.example:7467',
  '127.0.0.1.evil.example',
  'localhost.evil.example',
  'localhost@evil.example',
  '10.0.0.1',
  '0.0.0.0',
  '[::2]',
  '128.0.0.1',
])('Host %j is refused', async (host) => {
  expect(await outcome('/api/events', { headers: { host } })).toEqual([403, 'forbidden_host']);
});

test.each(['localhost', 'LOCALHOST:1', '127.0.0.1:7467', '127.1.2.3', '[::1]', '[::1]:7467'])(
  'Host %j is accepted as this machine',
  async (host) => {
    expect((await served.get('/api/events', { headers: { host } })).status).toBe(200);
  },
);

test.each([
  { origin: 'http://evil.example' },
  { origin: 'https://127.0.0.1:7467' },
  { origin: 'http://127.0.0.1:1' },
  { origin: 'null' },
  { origin: '' },
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
  { 'sec-fetch-site': 'Same-Origin' },
])('a browser that sends %j is refused', async (headers) => {
  expect(await outcome('/api/events', { headers: { host: '127.0.0.1:7467', ...headers } })).toEqual([
    403,
    'forbidden_origin',
  ]);
});

test.each([{ origin: 'http://127.0.0.1:7467' }, { 'sec-fetch-site': 'same-origin' }, { 'sec-fetch-site': 'none' }])(
  'the page of the daemon, which sends %j, is served',
  async (headers) => {
    expect((await served.get('/api/events', { headers: { host: '127.0.0.1:7467', ...headers } })).status).toBe(200);
  },
);

test('no answer allows another site to read it', async () => {
  const { headers } = await served.get('/api/events', { method: 'OPTIONS' });
  expect(Object.keys(headers).filter((name) => name.startsWith('access-control-'))).toEqual([]);
});

test.each([
  '/',
  '/healthz',
  '/readyz',
  '/metrics',
  '/api/events',
  '/api/events/x',
  '/api/services',
  '/api/nodes',
  '/api/stats',
  '/api/transactions',
  '/api/heatmap',
  '/api/differences',
  '/api/event-types',
])('%s accepts only GET and HEAD', async (path) => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY']) {
    const { status, headers, json } = await served.get(path, { method });
    expect([method, status, headers.allow, json.code]).toEqual([method, 405, 'GET, HEAD', 'method_not_allowed']);
  }
  const head = await served.get(path, { method: 'HEAD' });
  expect([head.status === 404 || head.status === 200, head.text]).toEqual([true, '']);
});

test.each(['/nothing', '/api', '/api/', '/api/event', '/API/events', '/api/events/a/b', '//api/events'])(
  '%s is not found',
  async (path) => {
    expect(await outcome(path, {})).toEqual([404, 'not_found']);
  },
);

const json = { 'content-type': 'application/json' };

test.each([
  ['a body over 64 KiB', { body: `"${'x'.repeat(65_535)}"`, headers: json }, 413, 'body_too_large'],
  [
    'a body that claims to be over 64 KiB',
    { body: 'x'.repeat(65_537), headers: { ...json, 'content-length': '65537' } },
    413,
    'body_too_large',
  ],
  [
    'an unknown content coding',
    { body: '{}', headers: { ...json, 'content-encoding': 'zap' } },
    415,
    'unsupported_media_type',
  ],
  [
    'a body that is not gzip',
    { body: '{}', headers: { ...json, 'content-encoding': 'gzip' } },
    400,
    'malformed_request',
  ],
])('%s is refused', async (_name, sent, status, code) => {
  expect(await outcome('/api/events', { method: 'POST', ...sent })).toEqual([status, code]);
});

test('every answer has a request id and is not cached', async () => {
  for (const path of ['/', '/healthz', '/api/events', '/nothing', '/api/events?limit=0']) {
    const { headers } = await served.get(path);
    expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(headers['cache-control']).toBe('no-store');
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(headers['x-powered-by']).toBeUndefined();
    expect(headers['strict-transport-security']).toBeUndefined();
    expect(headers['content-security-policy']).not.toContain('upgrade-insecure-requests');
  }
});

test('a harmless request id of the caller is kept', async () => {
  const idOf = async (id: string) =>
    (await served.get('/', { headers: { 'x-request-id': id } })).headers['x-request-id'];
  expect(await idOf('trace-1.a_B')).toBe('trace-1.a_B');
  expect(await idOf('a b')).toMatch(/^[0-9a-f-]{36}$/);
  expect(await idOf('x'.repeat(65))).toMatch(/^[0-9a-f-]{36}$/);
});

async function raw(text: string): Promise<string> {
  // The daemon does not read an overlong request to its end, so writing the rest of it fails.
  const socket = connect(served.port, '127.0.0.1').on('error', () => {});
  await once(socket, 'connect');
  socket.write(text);
  let answer = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    answer += chunk;
  });
  await new Promise((resolve) => socket.once('close', resolve));
  return answer;
}

test('a path of 10 MB is truncated', async () => {
  // The daemon never reads the end of the path, and the reset that follows may destroy the answer on its way.
  expect(await raw(`GET /${'x'.repeat(10_000_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`)).toMatch(
    /^(HTTP\/1.1 431 |$)/,
  );
  expect((await served.get('/healthz')).status).toBe(200);
});

test('consecutive requests on one connection are answered in order', async () => {
  const asked = ['/healthz', '/api/services', '/nothing'].map(
    (path, i) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${i === 2 ? 'Connection: close\r\n' : ''}\r\n`,
  );
  const answers = (await raw(asked.join(''))).match(/HTTP\/1.1 \d+|{.*?}/g);
  expect(answers).toEqual([
    ...['HTTP/1.1 200', '{"status":"ok"}', 'HTTP/1.1 200', '{"services":["shop"]}'],
    ...['HTTP/1.1 404', expect.stringContaining('not_found')],
  ]);
});

test.each([
  ['not HTTP', 'hello\r\n\r\n', 400],
  ['no Host', 'GET /api/events HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
  ['two lengths', 'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx', 400],
  [
    'length and chunks',
    'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    400,
  ],
  ['a huge header', `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  ['a huge path', `GET /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`, 431],
  ['an expectation', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\nConnection: close\r\n\r\n', 200],
  ['OPTIONS of no path', 'OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', 404],
  [
    'chunks of more than 64 KiB',
    `POST /api/replay/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${`4000\r\n${' '.repeat(0x4000)}\r\n`.repeat(5)}0\r\n\r\n`,
    413,
  ],
  [
    'an absolute target of this machine',
    'GET http://localhost:1/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    200,
  ],
  ['HTTP/1.0', 'GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n', 200],
  ['an empty Host', 'GET /api/events HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n', 403],
  ['HTTP/1.0 without Host', 'GET /api/events HTTP/1.0\r\n\r\n', 403],
  [
    'an absolute target',
    'GET http://evil.example/api/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    403,
  ],
])('%s is handled without harm', async (_name, text, status) => {
  expect(await raw(text)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect((await served.get('/healthz')).status).toBe(200);
});
