/** Tests access control: tokens by scope and route, hostile credentials, and pages of other sites. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { type Logger, pino } from 'pino';
import type { Scope } from '../../../../daemon/contract/words.ts';
import type { AccessOptions } from '../../../../daemon/http/access/access.ts';
import { createBearerCheck } from '../../../../daemon/http/access/bearer.ts';
import { createSecret, hashSecret } from '../../../../daemon/http/access/token.ts';
import { openTokens } from '../../../../daemon/http/access/tokens.ts';
import { newFolder, recorded, START } from '../../recorded.ts';
import { type Served, served } from '../../served.ts';

const NOW_MS = Date.parse('2026-01-01T00:00:00Z');
const reader = createSecret();
const player = createSecret();
const both = createSecret();
const expired = createSecret();

function stored(name: string, secret: string, scopes: Scope[], expires_at: string | null = null) {
  return { name, sha256: hashSecret(secret).toString('hex'), scopes, created_at: '2025-01-01T00:00:00Z', expires_at };
}

const TOKENS = [
  stored('reader', reader, ['events:read']),
  stored('player', player, ['replay:control']),
  stored('both', both, ['events:read', 'replay:control'], '2026-01-01T00:00:00.001Z'),
  stored('expired', expired, ['events:read', 'replay:control'], '2026-01-01T00:00:00Z'),
];

interface Bench {
  served: Served;
  path: string;
  logged: string[];
  allowed: AccessOptions;
  clock: { wallMs: number; steadyMs: number };
}

async function withTokens(more: AccessOptions = {}): Promise<Bench> {
  const path = join(newFolder(), 'tokens.json');
  writeFileSync(path, JSON.stringify({ version: 1, tokens: TOKENS }), { mode: 0o600 });
  const clock = { wallMs: NOW_MS, steadyMs: 0 };
  const logged: string[] = [];
  const log: Logger = pino({ level: 'trace' }, { write: (line) => void logged.push(line) });
  const tokens = openTokens({ path, nowMs: () => clock.wallMs, log });
  const bearer = createBearerCheck({ tokens, nowMs: () => clock.steadyMs, log });
  const allowed = { bearer, ...more };
  const folder = recorded([{ at: START, transaction: 'tx' }]);
  return { served: await served(folder, { allowed }), path, logged, allowed, clock };
}

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

const GET = 'GET';
const ROUTES: [method: string, path: string, status: number, opens: Record<'reader' | 'player', boolean>][] = [
  [GET, '/', 200, { reader: true, player: true }],
  [GET, '/openapi.json', 200, { reader: true, player: true }],
  [GET, '/docs', 200, { reader: true, player: true }],
  [GET, '/docs/show.js', 200, { reader: true, player: true }],
  ['POST', '/openapi.json', 405, { reader: false, player: true }],
  [GET, '/docsx', 404, { reader: true, player: false }],
  [GET, '/api/access', 200, { reader: true, player: true }],
  ['HEAD', '/api/access', 200, { reader: true, player: true }],
  [GET, '/api/access?x=1', 400, { reader: true, player: true }],
  ['POST', '/api/access', 405, { reader: false, player: true }],
  [GET, '/api/access/x', 404, { reader: true, player: false }],
  [GET, '/api/events', 200, { reader: true, player: false }],
  ['HEAD', '/api/events', 200, { reader: true, player: false }],
  [GET, '/api/events/x', 404, { reader: true, player: false }],
  [GET, '/api/transactions/tx', 200, { reader: true, player: false }],
  [GET, '/api/services', 200, { reader: true, player: false }],
  [GET, '/api/pins', 200, { reader: true, player: false }],
  [GET, '/api/replay/sessions', 200, { reader: true, player: true }],
  [GET, '/api/replay/sessions/x/events', 404, { reader: true, player: true }],
  [GET, '/nothing', 404, { reader: true, player: false }],
  ['POST', '/api/events', 405, { reader: false, player: true }],
  ['POST', '/api/transactions/none/pin', 404, { reader: false, player: true }],
  ['DELETE', '/api/transactions/tx/pin', 404, { reader: false, player: true }],
  ['POST', '/api/replay/sessions', 400, { reader: false, player: true }],
  ['POST', '/api/replay/sessions/x/play', 404, { reader: false, player: true }],
  ['PATCH', '/api/replay/sessions/x', 404, { reader: false, player: true }],
  ['DELETE', '/api/replay/sessions/x', 404, { reader: false, player: true }],
];

test.each(ROUTES)('%s %s: by token', async (method, path, status, opens) => {
  const { served } = await withTokens();
  const outcome = async (headers: Record<string, string>) => (await served.get(path, { method, headers })).status;
  expect(await outcome({})).toBe(401);
  expect(await outcome(bearer(createSecret()))).toBe(401);
  expect(await outcome(bearer(expired))).toBe(401);
  expect(await outcome(bearer(reader))).toBe(opens.reader ? status : 403);
  expect(await outcome(bearer(player))).toBe(opens.player ? status : 403);
  expect(await outcome(bearer(both))).toBe(status);
});

test('a client learns what its token permits, and until when', async () => {
  const { served, clock, path } = await withTokens();
  const accessOf = async (secret: string) => (await served.get('/api/access', { headers: bearer(secret) })).json;
  expect(await accessOf(reader)).toEqual({
    ...{ token_needed: true, name: 'reader', scopes: ['events:read'], expires_at: null },
  });
  expect(await accessOf(player)).toMatchObject({ name: 'player', scopes: ['replay:control'], expires_at: null });
  expect(await accessOf(both)).toEqual({
    ...{ token_needed: true, name: 'both', scopes: ['events:read', 'replay:control'] },
    expires_at: '2026-01-01T00:00:00.001Z',
  });
  clock.wallMs += 1;
  expect(await accessOf(both)).toMatchObject({ status: 401, code: 'unauthorized' });
  // What the file says counts at once.
  const [first] = TOKENS;
  writeFileSync(path, JSON.stringify({ version: 1, tokens: [{ ...first, scopes: ['replay:control'] }] }));
  expect(await accessOf(reader)).toMatchObject({ name: 'reader', scopes: ['replay:control'] });
});

test('without tokens, every client may do everything', async () => {
  const app = await served(recorded([{ at: START }]));
  const { status, json, headers } = await app.get('/api/access');
  expect([status, headers['cache-control']]).toEqual([200, 'no-store']);
  expect(json).toEqual({
    ...{ token_needed: false, name: null, scopes: ['events:read', 'replay:control'], expires_at: null },
  });
  // A token that nothing asked for says nothing.
  expect((await app.get('/api/access', { headers: bearer(reader) })).json).toEqual(json);
  const refused = await app.get('/api/access', { method: 'POST' });
  expect([refused.status, refused.headers.allow]).toEqual([405, 'GET, HEAD']);
  expect((await app.get('/api/access?verbose=1')).json).toMatchObject({ code: 'invalid_parameter' });
});

test('refusals state what is required and nothing else', async () => {
  const { served } = await withTokens();
  const refused = async (headers: Record<string, string>, method = GET) => {
    const answer = await served.get('/api/events', { method, headers });
    return [answer.status, answer.json.code, answer.headers['www-authenticate']];
  };
  expect(await refused({})).toEqual([401, 'unauthorized', 'Bearer realm="kreplay"']);
  expect(await refused(bearer(expired))).toEqual([
    401,
    'unauthorized',
    'Bearer realm="kreplay", error="invalid_token"',
  ]);
  expect(await refused(bearer(reader), 'POST')).toEqual([
    403,
    'forbidden',
    'Bearer realm="kreplay", error="insufficient_scope", scope="replay:control"',
  ]);
});

test('no secret and no hash is ever logged or returned', async () => {
  const { served, path, logged } = await withTokens();
  const secrets = [reader, expired, createSecret()];
  const answers = [];
  for (const secret of secrets) answers.push(await served.get('/api/events?x', { headers: bearer(secret) }));
  writeFileSync(path, `{"version": 1, "tokens": [{"sha256": "${TOKENS[0]!.sha256}", "${reader}": 1}]}`);
  answers.push(await served.get('/api/events', { headers: bearer(reader) }));
  writeFileSync(path, `${TOKENS[0]!.sha256} ${reader}`);
  answers.push(await served.get('/api/events', { headers: bearer(reader) }));
  expect(answers.map(({ status }) => status)).toEqual([400, 401, 401, 200, 200]);
  const told = [...logged, ...answers.map(({ text, headers }) => text + JSON.stringify(headers))].join('\n');
  expect(logged.length).toBeGreaterThan(3);
  for (const secret of [...secrets, ...TOKENS.map(({ sha256 }) => sha256)]) {
    expect(told).not.toContain(secret);
    expect(told).not.toContain(secret.slice(4, 20));
  }
});

test('scheme names are case-insensitive', async () => {
  const { served } = await withTokens();
  for (const scheme of ['bearer', 'BEARER', 'Bearer '])
    expect((await served.get('/api/events', { headers: { authorization: `${scheme} ${reader}` } })).status).toBe(200);
});

test('hostile credentials grant nothing and break nothing', async () => {
  const { served, clock } = await withTokens();
  // Generates any header text that an HTTP client can send.
  const character = fc.integer({ min: 0x20, max: 0xff }).filter((code) => code !== 0x7f);
  const headerText = fc.string({ unit: character.map((code) => String.fromCharCode(code)) });
  const near = fc
    .tuple(
      fc.constantFrom(reader, player),
      fc.integer({ min: 1, max: 46 }),
      fc.constantFrom('', 'x', '=', ' ', ',', '\t'),
    )
    .map(([secret, at, text]) => secret.slice(0, at) + text + secret.slice(at + (text === '' ? 1 : 0)));
  const hostile: fc.Arbitrary<string | string[]> = fc.oneof(
    headerText,
    headerText.map((text) => `Bearer ${text}`),
    near.map((secret) => `Bearer ${secret}`),
    near,
    fc.constantFrom(...TOKENS.map(({ sha256 }) => `Bearer ${sha256}`)),
    fc.constant(`Basic ${Buffer.from(`:${reader}`).toString('base64')}`),
    fc.constant<string[]>([`Bearer ${reader}`, `Bearer ${reader}`]),
    fc.constant<string[]>([`Bearer ${createSecret()}`, `Bearer ${reader}`]),
  );
  await fc.assert(
    fc.asyncProperty(hostile, async (authorization) => {
      clock.steadyMs += 60_000;
      const { status, json } = await served.get('/api/events', { headers: { authorization } });
      expect([status, json.code]).toEqual([401, 'unauthorized']);
    }),
    { numRuns: 300 },
  );
  expect((await served.get('/api/events', { headers: bearer(reader) })).status).toBe(200);
});

test('ten wrong tokens are answered at once, then one every six seconds', async () => {
  const { served, clock, logged } = await withTokens();
  const wrong = async () => {
    const { status, headers, json } = await served.get('/api/events', { headers: bearer(createSecret()) });
    return [status, json.code, headers['retry-after']];
  };
  for (let i = 0; i < 10; i++) expect(await wrong()).toEqual([401, 'unauthorized', undefined]);
  expect(await wrong()).toEqual([429, 'too_many_attempts', '6']);
  clock.steadyMs += 5_000;
  expect(await wrong()).toEqual([429, 'too_many_attempts', '1']);
  // A valid token at the same address is not locked out, and a request without a token is no guess.
  expect((await served.get('/api/events', { headers: bearer(reader) })).status).toBe(200);
  expect((await served.get('/api/events')).status).toBe(401);
  clock.steadyMs += 1_000;
  expect(await wrong()).toEqual([401, 'unauthorized', undefined]);
  expect(await wrong()).toEqual([429, 'too_many_attempts', '6']);
  expect(logged.filter((line) => line.includes('a client presented a wrong token'))).toHaveLength(11);
});

test.each(['/healthz', '/readyz'])('%s needs no token on loopback, if it is open', async (path) => {
  const { served } = await withTokens({ openMetrics: true });
  expect((await served.get(path)).status).toBe(200);
  const foreign = { host: 'evil.example' };
  expect((await served.get(path, { headers: foreign })).status).toBe(401);
  expect((await served.get(path, { headers: { ...foreign, ...bearer(reader) } })).status).toBe(200);
});

test('with a token any host name is accepted, but no page of another site', async () => {
  const { served } = await withTokens();
  const status = async (headers: Record<string, string>) =>
    (await served.get('/api/events', { headers: { ...bearer(reader), host: 'db-7.example:7467', ...headers } })).status;
  expect(await status({})).toBe(200);
  expect(await status({ origin: 'http://db-7.example:7467' })).toBe(200);
  expect(await status({ origin: 'http://evil.example' })).toBe(403);
  expect(await status({ 'sec-fetch-site': 'cross-site' })).toBe(403);
});

describe('pages of allowed sites', () => {
  const site = 'https://grafana.example';
  const preflight = { 'access-control-request-method': 'GET', 'sec-fetch-site': 'cross-site' };
  const corsOf = (headers: object) => Object.entries(headers).filter(([name]) => name.startsWith('access-control-'));

  test('receive their own origin in the answer', async () => {
    const { served } = await withTokens({ origins: new Set([site, 'https://other.example']) });
    const headers = { ...bearer(reader), origin: site, 'sec-fetch-site': 'cross-site' };
    const answer = await served.get('/api/events', { headers });
    expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([200, site]);
    expect(answer.headers.vary).toContain('Origin');
    expect(answer.headers['access-control-allow-credentials']).toBeUndefined();
    const refusal = await served.get('/api/events', { headers: { origin: site } });
    expect([refusal.status, refusal.headers['access-control-allow-origin']]).toEqual([401, site]);
  });

  test('may read the headers of an answer', async () => {
    const { served } = await withTokens({ origins: new Set([site]) });
    const accept = 'application/x-ndjson';
    const answer = await served.get('/api/events', { headers: { ...bearer(reader), origin: site, accept } });
    const own = Object.keys(answer.headers).filter((name) => /^(kreplay-|x-request-id)/.test(name));
    expect(own).toHaveLength(4);
    const exposed = String(answer.headers['access-control-expose-headers']).toLowerCase();
    expect(exposed.split(', ')).toEqual(expect.arrayContaining(own));
  });

  test('may send a preflight request without a token', async () => {
    const { served } = await withTokens({ origins: new Set([site]) });
    const asked = await served.get('/api/events', { method: 'OPTIONS', headers: { ...preflight, origin: site } });
    expect([asked.status, asked.text]).toEqual([204, '']);
    expect(asked.headers['access-control-allow-headers']).toContain('Authorization');
    expect(asked.headers['access-control-allow-methods']).toContain('PATCH');
  });

  test.each(['https://grafana.example.evil.example', 'http://grafana.example', 'https://GRAFANA.example', 'null', '*'])(
    'do not include the origin %s',
    async (origin) => {
      const { served } = await withTokens({ origins: new Set([site]) });
      const asked = await served.get('/api/events', { method: 'OPTIONS', headers: { ...preflight, origin } });
      expect([asked.status, corsOf(asked.headers)]).toEqual([403, []]);
      expect(asked.headers.vary).toContain('Origin');
      const read = await served.get('/api/events', { headers: { ...bearer(reader), origin } });
      expect([read.status, corsOf(read.headers)]).toEqual([403, []]);
    },
  );
});

/** Two streams of one session. */
async function streamsOf(served: Served) {
  const created = await served.get('/api/replay/sessions', {
    method: 'POST',
    headers: { ...bearer(both), 'content-type': 'application/json' },
    body: '{"transaction_id":"tx"}',
  });
  const stream = async (secret: string) => {
    const opened = await served.open(`/api/replay/${created.headers.location}/events`, { headers: bearer(secret) });
    opened.resume();
    return { opened, cut: new Promise((resolve) => opened.once('error', resolve)) };
  };
  return [await stream(reader), await stream(both)] as const;
}

test('a stream ends when its token loses a scope, and not when it gets one', async () => {
  const { served, path, allowed } = await withTokens();
  const withScopes = (scopesOf: Record<string, Scope[]>) => {
    const tokens = TOKENS.map((token) => ({ ...token, scopes: scopesOf[token.name] ?? token.scopes }));
    writeFileSync(path, JSON.stringify({ version: 1, tokens }));
    allowed.bearer!.answers.cut();
  };
  const [ofReader, ofBoth] = await streamsOf(served);
  withScopes({ reader: ['events:read', 'replay:control'] });
  expect([ofReader, ofBoth].map(({ opened }) => opened.destroyed)).toEqual([false, false]);
  withScopes({ both: ['replay:control'] });
  await ofBoth.cut;
  expect(ofReader.opened.destroyed).toBe(false);
});

test('a stream ends when its token does', async () => {
  const { served, path, allowed, clock } = await withTokens();
  const [ofReader, ofBoth] = await streamsOf(served);
  allowed.bearer!.answers.cut();
  writeFileSync(path, JSON.stringify({ version: 1, tokens: TOKENS.filter(({ name }) => name !== 'reader') }));
  allowed.bearer!.answers.cut();
  await ofReader.cut;
  expect(ofBoth.opened.destroyed).toBe(false);
  clock.wallMs += 1;
  allowed.bearer!.answers.cut();
  await ofBoth.cut;
});
