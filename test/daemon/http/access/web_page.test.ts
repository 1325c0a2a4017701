/** The web page's own requests: which clients get it, and what a page of another site gets. */
import { cpSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import express from 'express';
import { pino } from 'pino';
import { createBearerCheck } from '../../../../daemon/http/access/bearer.ts';
import { openTokens } from '../../../../daemon/http/access/tokens.ts';
import { createPageRoutes } from '../../../../daemon/http/routes/page.ts';
import { close, listen } from '../../../../daemon/server/server.ts';
import { newFolder, recorded, START } from '../../recorded.ts';
import { type Served, served } from '../../served.ts';

const BROWSER_ACCEPT = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8';
const asBrowser = { accept: BROWSER_ACCEPT };
const followed = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };

const open = () => served(recorded([{ at: START, transaction: 'tx' }]));

function withTokens(): Promise<Served> {
  const path = join(newFolder(), 'tokens.json');
  writeFileSync(path, JSON.stringify({ version: 1, tokens: [] }), { mode: 0o600 });
  const log = pino({ level: 'silent' });
  const bearer = createBearerCheck({ tokens: openTokens({ path, nowMs: Date.now, log }), nowMs: Date.now, log });
  return served(recorded([{ at: START }]), { allowed: { bearer } });
}

const filesOf = (html: string) => [...html.matchAll(/(?:href|src)="(page\/[^"]+)"/g)].map(([, path]) => `/${path}`);

test.each([
  ['a browser', BROWSER_ACCEPT, 'text/html; charset=utf-8'],
  ['curl', '*/*', 'application/json; charset=utf-8'],
  ['a program', 'application/json', 'application/json; charset=utf-8'],
  ['a client that prefers JSON', 'text/html;q=0.5, application/json', 'application/json; charset=utf-8'],
])('%s that accepts %s gets %s at /', async (_, accept, type) => {
  const daemon = await open();
  const { status, headers } = await daemon.get('/', { headers: { accept } });
  expect([status, headers['content-type']]).toEqual([200, type]);
  expect(headers.vary).toMatch(/\bAccept\b/);
});

test('a client without Accept gets the links', async () => {
  const daemon = await open();
  expect((await daemon.get('/')).json.links.events).toBe('api/events');
});

test('the page names its files, which a browser may keep for ever, compressed or not', async () => {
  const daemon = await open();
  const index = await daemon.get('/', { headers: asBrowser });
  expect(index.headers['cache-control']).toBe('no-cache');
  const files = filesOf(index.text);
  expect(files.map((path) => path.replace(/-[0-9a-f]{16}/, ''))).toEqual([
    '/page/icon.svg',
    '/page/style.css',
    '/page/shared.js',
    '/page/page.js',
  ]);
  for (const path of files) {
    const plain = await daemon.get(path);
    expect([plain.status, plain.headers['cache-control']]).toEqual([200, 'public, max-age=31536000, immutable']);
    expect(plain.headers['content-encoding']).toBeUndefined();
    const packed = await daemon.open(path, { headers: { 'accept-encoding': 'gzip, br' } });
    const bytes = await packed.toArray();
    expect(packed.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(Buffer.concat(bytes)).toString()).toBe(plain.text);
  }
});

test('a daemon that still runs while its package is replaced serves the page that it has', async () => {
  const folder = newFolder();
  cpSync(join(import.meta.dirname, '../../../../build/page'), folder, { recursive: true });
  const app = express().use(createPageRoutes(folder));
  rmSync(folder, { recursive: true });
  const [server, url] = await listen(app, { host: '127.0.0.1', port: 0 });
  try {
    const index = await fetch(url, { headers: asBrowser });
    expect(index.status).toBe(200);
    const files = filesOf(await index.text());
    expect(files).toHaveLength(4);
    for (const path of files) expect((await fetch(url + path)).status).toBe(200);
  } finally {
    await close(server);
  }
});

test('the page is at most 93.5 kB long, compressed', () => {
  const folder = join(import.meta.dirname, '../../../../build/page');
  const files = readdirSync(folder).filter((name) => name.endsWith('.gz'));
  expect(files).toHaveLength(6);
  expect(files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)).toBeLessThanOrEqual(93_500);
});

test.each(['/page/', '/page/index.html', '/page/inputs.json', '/page/..%2f..%2fpackage.json', '/page/x.js'])(
  '%s is not there',
  async (path) => {
    const daemon = await open();
    expect((await daemon.get(path)).status).toBe(404);
  },
);

test('the policy of the page allows its own files only, no text as a script, and no frame around it', async () => {
  const daemon = await open();
  const { headers } = await daemon.get('/', { headers: asBrowser });
  const policy = String(headers['content-security-policy']).split('; ');
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).toContain("require-trusted-types-for 'script'");
  expect(policy.filter((directive) => /unsafe|\*|http/.test(directive))).toEqual([]);
  expect(headers['referrer-policy']).toBe('no-referrer');
});

describe('a page of another site', () => {
  test('can link to the page', async () => {
    const daemon = await open();
    expect((await daemon.get('/', { headers: { ...asBrowser, ...followed } })).status).toBe(200);
  });

  test.each([
    [
      'fetch it',
      '/',
      { ...asBrowser, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'empty' },
    ],
    ['frame it', '/', { ...asBrowser, ...followed, 'sec-fetch-dest': 'iframe' }],
    [
      'run its script',
      '/page/x.js',
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' },
    ],
    ['link to the links', '/', { accept: 'application/json', ...followed }],
    ['link to events', '/api/events', { ...asBrowser, ...followed }],
    ['link to the metrics', '/metrics', { ...asBrowser, ...followed }],
  ])('cannot %s', async (_, path, headers) => {
    const daemon = await open();
    expect((await daemon.get(path, { headers })).status).toBe(403);
  });

  test('cannot post a form to the page', async () => {
    const daemon = await open();
    expect((await daemon.get('/', { method: 'POST', headers: { ...asBrowser, ...followed } })).status).toBe(403);
  });

  test('cannot use another name of this host', async () => {
    const daemon = await open();
    const { status, json } = await daemon.get('/', { headers: { ...asBrowser, host: 'rebound.example' } });
    expect([status, json.code]).toEqual([403, 'forbidden_host']);
  });
});

test('where tokens are needed, the page and its files need none, and nothing else is open', async () => {
  const daemon = await withTokens();
  const index = await daemon.get('/', { headers: asBrowser });
  expect(index.status).toBe(200);
  for (const path of filesOf(index.text)) expect((await daemon.get(path)).status).toBe(200);
  for (const path of ['/', '/api/events', '/docs', '/page'])
    expect((await daemon.get(path, { headers: path === '/' ? {} : asBrowser })).status).toBe(401);
  expect((await daemon.get('/', { method: 'POST', headers: asBrowser })).status).toBe(401);
});
