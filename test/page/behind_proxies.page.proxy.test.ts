/** The page, the API and the commands behind real proxies: nginx, HAProxy and Caddy, in the ways in which people have them. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import express from 'express';
import { pino } from 'pino';
import type { BrowserContext, BrowserContextOptions } from 'playwright-core';
import type { Scope } from '../../daemon/contract/words.ts';
import { createBearerCheck } from '../../daemon/http/access/bearer.ts';
import { createSecret, hashSecret } from '../../daemon/http/access/token.ts';
import { openTokens } from '../../daemon/http/access/tokens.ts';
import { close, listen } from '../../daemon/server/server.ts';
import { newAuthority, newCertificate } from '../daemon/certificates.ts';
import { exampleRecording } from '../daemon/example_recording.ts';
import { hosted, hostedWith } from '../daemon/hosted.ts';
import { newFolder } from '../daemon/recorded.ts';
import { type Served, serve } from '../daemon/served.ts';
import { newPage } from './browser.ts';
import { PROXIES, type ProxyName } from './proxies.ts';
import { COOKIE, NAME, type RunningProxy, startProxy, USER } from './proxy_programs.ts';

const LANES = '/#v=1&view=lanes&transaction=order-1';
const PLAYED = 'text=/(playing|paused|finished), event [1-9]/';
const [secret, proxySecret] = [createSecret(), createSecret()];

const daemons: Served[] = [];
/** A path for a socket is short. */
const folder = mkdtempSync(join(tmpdir(), 'kreplay-'));
const running: Partial<Record<ProxyName, RunningProxy>> = {};

beforeAll(async () => {
  const scopes: Scope[] = ['events:read', 'replay:control'];
  const stored = (name: string, one: string) => {
    const sha256 = hashSecret(one).toString('hex');
    return { name, sha256, scopes, created_at: '2026-01-01T00:00:00Z', expires_at: null };
  };
  const path = join(folder, 'tokens.json');
  const tokens = [stored('ann', secret), stored('proxy', proxySecret)];
  writeFileSync(path, JSON.stringify({ version: 1, tokens }), { mode: 0o600 });
  const log = pino({ level: 'silent' });
  const bearer = createBearerCheck({ tokens: openTokens({ path, nowMs: Date.now, log }), nowMs: Date.now, log });
  const data = exampleRecording();
  const socket = join(folder, 'socket');
  daemons.push(
    await serve(data, { allowed: { bearer } }),
    await serve(data),
    await serve(data, { address: { path: socket } }),
  );
  const upstreams = { withTokens: daemons[0]!.port, open: daemons[1]!.port, socket, token: proxySecret };
  const certificate = newCertificate(folder, 'proxy', newAuthority(folder));
  for (const name of Object.keys(PROXIES) as ProxyName[])
    running[name] = await startProxy(name, upstreams, newFolder(), certificate);
});

afterAll(async () => {
  for (const proxy of Object.values(running)) await proxy.stop();
  for (const daemon of daemons) await daemon.close();
  rmSync(folder, { recursive: true });
});

describe.each(Object.keys(PROXIES) as ProxyName[])('%s', (name) => {
  const portOf = (way: keyof RunningProxy['ports']) => running[name]!.ports[way];
  const secure = (way: 'tls' | 'socket' | 'cookie') => `https://${NAME}:${portOf(way)}`;
  const plain = (way: 'below' | 'password' | 'bare') => `http://127.0.0.1:${portOf(way)}`;

  /** Opens the transaction, which the second thread reads, and plays it, which posts, streams and posts again. */
  async function plays(url: string, options: BrowserContextOptions = {}, token?: string) {
    const watched = await newPage({ ignoreHTTPSErrors: true, ...options });
    const { page, errors, requested } = watched;
    await page.goto(url + LANES);
    if (token !== undefined) {
      await page.fill('#token', token);
      await page.click('text=Open');
    }
    await page.waitForSelector('.moving');
    const noise = errors.splice(0).filter((text) => !text.includes('401'));
    await page.keyboard.press('Space');
    await page.waitForSelector(PLAYED);
    expect([...noise, ...errors]).toEqual([]);
    expect(requested.filter((address) => !address.startsWith(`${url}/`))).toEqual([]);
    return watched;
  }

  test('ends TLS, before a daemon that asks for a token', async () => {
    await plays(secure('tls'), {}, secret);
  });

  test('ends TLS, before the unix socket of a daemon', async () => {
    await plays(secure('socket'));
  });

  test('has the daemon below a path: the page, the API, links and commands', async () => {
    const url = `${plain('below')}/kreplay`;
    await plays(url);
    const { links } = await (await fetch(`${url}/`)).json();
    for (const link of Object.values<string>(links)) expect((await fetch(new URL(link, `${url}/`))).status).toBe(200);
    const sessions = `${url}/api/replay/sessions`;
    const headers = { 'content-type': 'application/json' };
    const created = await fetch(sessions, { method: 'POST', headers, body: '{"transaction_id":"order-1"}' });
    const session = new URL(created.headers.get('location')!, sessions);
    expect((await fetch(session, { method: 'DELETE' })).status).toBe(204);
    for (const given of [url, `${url}/`])
      expect(await hosted('services', '--url', given)).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^shop$/m),
      });
  });

  test('knows people by a password, and adds the token', async () => {
    await plays(plain('password'), { httpCredentials: USER });
  });

  test('knows people by a cookie: the page says that they have to sign in again, and asks for no token', async () => {
    const url = secure('cookie');
    const [cookieName, value] = COOKIE.split('=') as [string, string];
    const { page } = await newPage({ ignoreHTTPSErrors: true });
    const cookie = { name: cookieName, value, domain: NAME, path: '/', secure: true, sameSite: 'None' as const };
    await page.context().addCookies([cookie]);
    await page.goto(url + LANES);
    await page.waitForSelector('.moving');
    await page.keyboard.press('Space');
    await page.waitForSelector(PLAYED);

    const before = await sessionCount();
    expect(await postedFromElsewhere(page.context(), `${url}/api/replay/sessions`)).toBe(403);
    expect(await sessionCount()).toBe(before);

    await page.context().clearCookies();
    await page.keyboard.press('4');
    await page.waitForSelector(
      'text=a proxy before the daemon answers with a redirect — sign in there: reload the page',
    );
    expect(await page.$('#token')).toBeNull();
  });

  test('keeps connections to the daemon: requests of all kinds use them, and its end comes after theirs', async () => {
    const connected = daemons[0]!.connectionCount();
    const headers = { host: NAME, authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
    for (let i = 0; i < 20; i++) {
      expect(await statusOf(portOf('bare'), '/api/replay/whatif', headers, '{"transaction_id":"order-1"}')).toBe(200);
      expect(await statusOf(portOf('bare'), '/api/services', headers)).toBe(200);
    }
    expect(daemons[0]!.connectionCount() - connected).toBeLessThan(10);
  });

  test('opens nothing that the daemon has for programs of its own machine', async () => {
    for (const path of ['/metrics', '/readyz', '/api/services'])
      expect(await statusOf(portOf('bare'), path, { host: NAME })).toBe(401);
    const environment = { KREPLAY_TOKEN: secret };
    expect((await hostedWith(environment, 'services', '--url', plain('bare'))).code).toBe(0);
  });
});

test('the description of the API, which sends requests, and the guide stay below the path of a proxy', async () => {
  const url = `http://127.0.0.1:${running.nginx!.ports.below}/kreplay`;
  const { page, errors, requested } = await newPage();
  await page.goto(`${url}/docs/`);
  await page.click('#operations-events-listServices .opblock-summary-control');
  await page.click('text=Try it out');
  await page.click('text=Execute');
  await page.waitForSelector('.live-responses-table');
  expect(requested).toContain(`${url}/api/services`);
  await page.goto(`${url}/docs/guide`);
  await page.click('a:has-text("Operate")');
  await page.waitForSelector('h1:has-text("Operate")');
  expect(requested.filter((address) => !address.startsWith(`${url}/`))).toEqual([]);
  expect(errors).toEqual([]);
});

test('over plain HTTP, where browsers say nothing of the site, a proxy has to pass on Host, and the page says so', async () => {
  const { page } = await newPage();
  await page.goto(`http://${NAME}:${running.nginx!.ports.bare}${LANES}`);
  await page.fill('#token', secret);
  await page.click('text=Open');
  await page.waitForSelector('.moving');
  await page.keyboard.press('Space');
  await page.waitForSelector(
    'text=a page of another site may not use this daemon — the proxy before it must pass on Host',
  );
});

async function sessionCount(): Promise<number> {
  const headers = { authorization: `Bearer ${secret}` };
  return (await daemons[0]!.get('/api/replay/sessions', { headers })).json.sessions.length;
}

/** What the form of another site gets in the same browser, which sends its cookies along. */
async function postedFromElsewhere(context: BrowserContext, url: string): Promise<number> {
  const form = `<form method="post" enctype="text/plain" action="${url}"><button>send</button></form>`;
  const site = express().get('/', (_req, res) => void res.type('html').send(form));
  const [server, siteUrl] = await listen(site, { host: '127.0.0.1', port: 0 });
  try {
    const page = await context.newPage();
    await page.goto(siteUrl);
    const answered = page.waitForResponse(url);
    await page.click('text=send');
    return (await answered).status();
  } finally {
    await close(server);
  }
}

function statusOf(port: number, path: string, headers: Record<string, string>, body?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST';
    const sent = request({ host: '127.0.0.1', port, path, headers, method, agent: false }, (res) => {
      res.resume().on('end', () => resolve(res.statusCode!));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
