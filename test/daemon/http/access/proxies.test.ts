/** Tests what a request by way of a proxy opens: headers of trusted and of other proxies, and pages behind them. */
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Request } from 'express';
import { pino } from 'pino';
import type { AccessOptions } from '../../../../daemon/http/access/access.ts';
import { createBearerCheck } from '../../../../daemon/http/access/bearer.ts';
import { createProxies, isProxyAddress } from '../../../../daemon/http/access/proxies.ts';
import { createSecret, hashSecret } from '../../../../daemon/http/access/token.ts';
import { openTokens } from '../../../../daemon/http/access/tokens.ts';
import { newFolder, recorded, START } from '../../recorded.ts';
import { type Served, served } from '../../served.ts';

const secret = createSecret();

async function behind(trusted: string[], more: AccessOptions = {}): Promise<Served & { warned: string[] }> {
  const path = join(newFolder(), 'tokens.json');
  const scopes = ['events:read', 'replay:control'];
  const created_at = '2026-01-01T00:00:00Z';
  const token = { name: 'proxy', sha256: hashSecret(secret).toString('hex'), scopes, created_at, expires_at: null };
  writeFileSync(path, JSON.stringify({ version: 1, tokens: [token] }), { mode: 0o600 });
  const warned: string[] = [];
  const log = pino({ level: 'warn' }, { write: (line) => void warned.push(JSON.parse(line).client) });
  const proxies = createProxies(trusted);
  const tokens = openTokens({ path, nowMs: Date.now, log: pino({ level: 'silent' }) });
  const bearer = createBearerCheck({ tokens, nowMs: () => 0, log, proxies });
  return { ...(await served(recorded([{ at: START }]), { allowed: { bearer, proxies, ...more } })), warned };
}

const LOOPBACK = ['127.0.0.1'];
/** What a browser and a proxy with TLS send of a page at this address. */
const PAGE = 'https://kreplay.example';
const FROM_PAGE = { authorization: `Bearer ${secret}`, 'content-type': 'application/json', origin: PAGE };

/** A request that changes something: it is refused, or there is no such transaction. */
async function post(daemon: Served, headers: Record<string, string | string[]>): Promise<string> {
  const sent = { method: 'POST', headers: { ...FROM_PAGE, ...headers }, body: '{"transaction_id":"none"}' };
  return (await daemon.get('/api/replay/sessions', sent)).json.code;
}

describe('a page whose browser says that it is of this daemon', () => {
  test.each(['kreplay.example', 'kreplay.example:443', '127.0.0.1:7467', 'localhost'])(
    'may use it by way of a proxy that says Host: %s',
    async (host) => {
      const daemon = await behind([]);
      expect(await post(daemon, { host, 'sec-fetch-site': 'same-origin' })).toBe('transaction_not_found');
    },
  );

  test('needs no proxy that is trusted, also where no token is needed', async () => {
    const daemon = await served(recorded([{ at: START }]));
    const headers = { 'sec-fetch-site': 'same-origin', authorization: '' };
    expect(await post(daemon, { ...headers, host: 'localhost' })).toBe('transaction_not_found');
    expect(await post(daemon, { ...headers, host: 'kreplay.example' })).toBe('forbidden_host');
  });

  test('may load its scripts, also where the browser says nothing of the site', async () => {
    const daemon = await behind([]);
    const html = await daemon.get('/', { headers: { accept: 'text/html' } });
    const [script] = /page\/page-\w+\.js/.exec(html.text)!;
    const { status, headers } = await daemon.get(`/${script}`, { headers: { origin: 'http://kreplay.example' } });
    expect([status, headers['access-control-allow-origin']]).toEqual([200, undefined]);
  });
});

test.each<[string, Record<string, string | string[]>]>([
  ['cross-site', { 'sec-fetch-site': 'cross-site' }],
  ['of another host of the same site', { 'sec-fetch-site': 'same-site' }],
  ['typed by a user, with an origin', { 'sec-fetch-site': 'none' }],
  ['of two sites', { 'sec-fetch-site': ['same-origin', 'cross-site'] }],
  ['of two equal sites', { 'sec-fetch-site': ['same-origin', 'same-origin'] }],
  ['of a site in other letters', { 'sec-fetch-site': 'Same-Origin' }],
  ['without a site', {}],
  ['without a name', { origin: 'null' }],
  ['of two names', { host: 'kreplay.example', origin: ['https://kreplay.example', 'http://kreplay.example'] }],
  ['of the same host with TLS', { host: 'kreplay.example' }],
])('a page that is %s may change nothing', async (_, headers) => {
  for (const trusted of [[], LOOPBACK]) expect(await post(await behind(trusted), headers)).toBe('forbidden_origin');
});

describe('where the browser says nothing of the site', () => {
  const forwarded = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'kreplay.example' };

  test.each<[string, Record<string, string | string[]>, string]>([
    ['scheme and host', forwarded, 'transaction_not_found'],
    ['the scheme', { 'x-forwarded-proto': 'https', host: 'kreplay.example' }, 'transaction_not_found'],
    ['the host in capitals', { ...forwarded, 'x-forwarded-host': 'KREPLAY.example' }, 'transaction_not_found'],
    ['both by Forwarded', { forwarded: 'for=192.0.2.1; host="kreplay.example";proto=https' }, 'transaction_not_found'],
    [
      'both by the last of two',
      { forwarded: ['proto=http', 'host=kreplay.example;proto=https'] },
      'transaction_not_found',
    ],
    [
      'a host that its client wrote before',
      { ...forwarded, 'x-forwarded-host': 'kreplay.example, a.example' },
      'forbidden_origin',
    ],
    ['two hosts', { ...forwarded, 'x-forwarded-host': ['kreplay.example', 'a.example'] }, 'forbidden_origin'],
    ['another scheme', { ...forwarded, 'x-forwarded-proto': 'http' }, 'forbidden_origin'],
    ['a scheme that is none', { ...forwarded, 'x-forwarded-proto': 'wss' }, 'forbidden_origin'],
    [
      'Forwarded beside them, as a client can',
      { ...forwarded, forwarded: 'host=kreplay.example;proto=https' },
      'forbidden_origin',
    ],
    [
      'Forwarded with a quote that does not end',
      { forwarded: 'for="a;host=kreplay.example;proto=https' },
      'forbidden_origin',
    ],
    ['nothing', {}, 'forbidden_origin'],
  ])('a trusted proxy says %s', async (_, headers, code) => {
    expect(await post(await behind(LOOPBACK), headers)).toBe(code);
    expect(await post(await behind(['127.0.0.0/8', 'unix']), headers)).toBe(code);
    // The same headers of anything else count for nothing.
    for (const trusted of [[], ['unix'], ['10.0.0.0/8', '::1']])
      expect(await post(await behind(trusted), headers)).toBe('forbidden_origin');
  });

  test('a trusted proxy does not make another name of this host a name of the daemon', async () => {
    const daemon = await served(recorded([{ at: START }]), { allowed: { proxies: createProxies(LOOPBACK) } });
    const headers = { ...forwarded, 'x-forwarded-host': 'localhost', host: 'rebound.example' };
    expect((await daemon.get('/api/events', { headers })).json.code).toBe('forbidden_host');
  });
});

describe('metrics and readiness, where tokens are needed', () => {
  const PATHS = ['/readyz', '/metrics'];
  const statuses = async (daemon: Served, headers = {}) =>
    Promise.all(PATHS.map(async (path) => (await daemon.get(path, { headers })).status));

  test('need one, as a proxy on this machine may hide that others ask', async () => {
    const daemon = await behind([]);
    expect(await statuses(daemon)).toEqual([401, 401]);
    expect(await statuses(daemon, { authorization: `Bearer ${secret}` })).toEqual([200, 200]);
    expect((await daemon.get('/healthz')).status).toBe(200);
  });

  test('need none on this machine if the operator says so', async () => {
    const daemon = await behind([], { openMetrics: true });
    expect(await statuses(daemon)).toEqual([200, 200]);
    expect(await statuses(daemon, { host: 'recorder.example' })).toEqual([401, 401]);
    for (const path of ['/api/events', '/openapi.json', '/metrics/']) expect((await daemon.get(path)).status).toBe(401);
  });

  test.each<[string, string]>([
    ['x-forwarded-for', '127.0.0.1'],
    ['x-forwarded-proto', 'http'],
    ['x-forwarded', 'for=127.0.0.1'],
    ['x-real-ip', '127.0.0.1'],
    ['forwarded', 'for=127.0.0.1'],
    ['via', '1.1 proxy'],
  ])('are not open to a request with %s', async (name, value) => {
    for (const trusted of [[], LOOPBACK])
      expect(await statuses(await behind(trusted, { openMetrics: true }), { [name]: value })).toEqual([401, 401]);
  });
});

test('they are not open to a request in HTTP/1.0, as nginx sends it without a word of its client', async () => {
  const { port } = await behind([], { openMetrics: true });
  const statusOf = async (version: string) => {
    const socket = connect(port, '127.0.0.1');
    socket.write(`GET /metrics HTTP/${version}\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`);
    return / (\d+) /.exec(Buffer.concat(await socket.toArray()).toString())![1];
  };
  expect([await statusOf('1.0'), await statusOf('1.1')]).toEqual(['401', '200']);
});

test.each<[string, string[], Record<string, string | string[]>, string]>([
  ['the client that a trusted proxy names', LOOPBACK, { 'x-forwarded-for': '192.0.2.7' }, '192.0.2.7'],
  [
    'the last that is no proxy',
    ['127.0.0.1', '10.0.0.0/8'],
    { 'x-forwarded-for': '1.1.1.1, 192.0.2.7, 10.1.2.3' },
    '192.0.2.7',
  ],
  ['the last of two headers', LOOPBACK, { 'x-forwarded-for': ['1.1.1.1', '192.0.2.7'] }, '192.0.2.7'],
  ['one of a network of IPv6', LOOPBACK, { forwarded: 'For="[2001:db8:1:2::7]:4711"' }, '2001:db8:1:2'],
  ['one with a port', LOOPBACK, { 'x-forwarded-for': '192.0.2.7:4711' }, '192.0.2.7'],
  ['the proxy, if it names none', LOOPBACK, { 'x-forwarded-for': 'unknown' }, '127.0.0.1'],
  ['the proxy, if its client named itself', LOOPBACK, { forwarded: 'for=_hidden' }, '127.0.0.1'],
  ['the connection, if it is not trusted', ['::1'], { 'x-forwarded-for': '192.0.2.7' }, '127.0.0.1'],
])('a wrong token counts for %s', async (_, trusted, headers, client) => {
  const daemon = await behind(trusted);
  await daemon.get('/api/events', { headers: { ...headers, authorization: 'Bearer wrong' } });
  expect(daemon.warned).toEqual([client]);
});

test.each([
  ...[
    ['127.0.0.1', true],
    ['10.0.0.0/8', true],
    ['::1', true],
    ['2001:db8::/32', true],
    ['unix', true],
  ],
  ...[
    ['', false],
    ['localhost', false],
    ['10.0.0.0/33', false],
    ['10.0.0.0/0', false],
    ['::/0', false],
  ],
  ...[
    ['10.0.0.0/08', false],
    ['10.0.0.1:80', false],
    ['[::1]', false],
    ['unix:/s', false],
    ['10.0.0.0/8/8', false],
  ],
] as const)('%j is the address of a proxy: %s', (text, is) => {
  expect(isProxyAddress(text)).toBe(is);
});

test('an address is the same in its form for IPv6, and a unix socket is none', () => {
  const proxies = createProxies(['127.0.0.1', '10.0.0.0/8', 'fe80::/10']);
  const addresses = ['::ffff:127.0.0.1', '::ffff:10.1.1.1', 'fe80::1%eth0', '127.0.0.2', '11.0.0.1', undefined];
  expect(addresses.map((address) => proxies.isTrusted(address))).toEqual([true, true, true, false, false, false]);
  expect(createProxies(['unix']).isTrusted(undefined)).toBe(true);
  const req = { socket: {}, protocol: 'http', url: '/', headers: { host: 'a', 'x-forwarded-host': 'b' } };
  expect(createProxies(['unix']).findAsker(req as unknown as Request)).toMatchObject({ host: 'b', scheme: 'http' });
});
