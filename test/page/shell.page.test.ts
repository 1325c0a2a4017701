/** The page as it opens: for any visitor, from any link, and with what it asks of other hosts. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import express from 'express';
import { pino } from 'pino';
import type { Scope } from '../../daemon/contract/words.ts';
import { createBearerCheck } from '../../daemon/http/access/bearer.ts';
import { createSecret, hashSecret } from '../../daemon/http/access/token.ts';
import { openTokens } from '../../daemon/http/access/tokens.ts';
import { close, listen } from '../../daemon/server/server.ts';
import { exampleRecording } from '../daemon/example_recording.ts';
import { newFolder, recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { newPage, newPageThatKeepsNothing } from './browser.ts';

const LANES = '/#v=1&view=lanes&transaction=order-1';
const SLOWEST = /^The slowest transaction here, order-1 of .* on web-1, took /;

test('the first sentence names the slowest transaction, and nothing leaves the origin', async () => {
  const { url } = await served(exampleRecording());
  const { page, errors, requested } = await newPage();
  await page.goto(url);
  await page.waitForSelector('h1:has-text("The slowest transaction here")');
  expect(await page.textContent('h1')).toMatch(SLOWEST);
  await page.click('text=Open');
  await page.waitForSelector('.moving');
  await page.keyboard.press('4');
  await page.waitForSelector('text=Recordings');
  expect(errors).toEqual([]);
  expect(requested.filter((address) => new URL(address).origin !== new URL(url).origin)).toEqual([]);
});

test('a browser that lets pages keep nothing shows the page, plays, and has its keys and themes', async () => {
  const { url } = await served(exampleRecording());
  const { page, errors } = await newPageThatKeepsNothing(newFolder());
  await page.goto(url);
  await page.waitForSelector('h1:has-text("The slowest transaction here")');
  expect(await page.textContent('h1')).toMatch(SLOWEST);
  const theme = () => page.getAttribute('html', 'data-theme');
  const before = await theme();
  await page.keyboard.press('t');
  expect([before, await theme()]).toEqual(['light', 'dark']);
  await page.click('text=Open');
  await page.waitForSelector('.moving');
  await page.keyboard.press('Space');
  await page.waitForSelector('text=/(playing|paused|finished), event [1-9]/');
  await page.keyboard.press('2');
  await page.waitForSelector('text=following');
  expect(errors).toEqual([]);
});

test('Back returns to the view before, and a link shows another person the same', async () => {
  const { url } = await served(exampleRecording());
  const { page } = await newPage();
  await page.goto(url);
  await page.click('text=Open');
  await page.waitForSelector('.moving');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('v');
  await page.waitForURL(/table=1/);
  const [address, sentence] = [page.url(), await page.textContent('h1')];
  await page.goBack();
  await page.waitForSelector(`text=${'The slowest transaction here'}`);

  const other = await newPage();
  await other.page.goto(address);
  await other.page.waitForSelector('tr.selected');
  expect(await other.page.textContent('h1')).toBe(sentence);
  expect(await other.page.textContent('tr.selected')).toContain('order-1');
});

test('keys and buttons lead to the same link: the event and the session are of the view that is left', async () => {
  const { url, get } = await served(exampleRecording());
  const headers = { 'content-type': 'application/json' };
  const body = '{"transaction_id":"order-1"}';
  const { json } = await get('/api/replay/sessions', { method: 'POST', headers, body });
  const { events } = (await get('/api/events?transaction_id=order-1&limit=1')).json;
  const { page } = await newPage();
  for (const [key, name] of ['Overview', 'Live', 'Compare', 'Health'].entries()) {
    const links = [];
    for (const go of [() => page.keyboard.press(`${key + 1}`), () => page.click(`nav button:text-is("${name}")`)]) {
      await page.goto('about:blank');
      await page.goto(`${url}${LANES}&session=${json.session_id}&event=${events[0].event_id}&latency=5&position=7`);
      await page.waitForSelector('tr.selected, .detail');
      await go();
      await page.waitForSelector(`nav button[aria-current=page]:text-is("${name}")`);
      links.push(new URL(page.url()).hash);
    }
    expect(links[0]).toBe(links[1]);
    expect(links[0]).not.toMatch(/session|event=|position/);
  }
});

test('what is wrong in a link is said, and the rest is applied', async () => {
  const { url } = await served(exampleRecording());
  const { page, errors } = await newPage();
  await page.goto(
    `${url}/#v=1&view=lanes&transaction=order-1&from=soon&to=1&colour=red&event=none&latency=${2n ** 63n - 1n}`,
  );
  await page.waitForSelector('.moving');
  const alert = await page.textContent('[role=alert]');
  expect(alert).toContain('from: must be nanoseconds since the epoch, as digits');
  expect(alert).toContain('colour: is not known');
  expect(errors).toEqual([]);
  await page.goto(`${url}/#v=1&view=lanes&transaction=none`);
  await page.waitForSelector('text=it was never recorded, or retention has removed it');
});

test('a site can link to the page, and can neither read nor frame it', async () => {
  const { url } = await served(exampleRecording());
  const app = express().get('/', (_req, res) => {
    res.type('html').send(`<a href="${url}/#v=1">open</a><iframe src="${url}/"></iframe><p id="read">-</p><script>
      fetch('${url}/').then((r) => r.text()).then(() => 'read', () => 'refused').then((t) => { read.textContent = t; });
    </script>`);
  });
  const [site, siteUrl] = await listen(app, { host: '127.0.0.1', port: 0 });
  const { page } = await newPage();
  // Another host name makes it another site.
  await page.goto(siteUrl.replace('127.0.0.1', 'localhost'));
  await page.waitForSelector('text=refused');
  const frames = page.frames().filter((frame) => frame !== page.mainFrame());
  for (const frame of frames) expect(await frame.$('#page')).toBeNull();
  await page.click('text=open');
  await page.waitForSelector('h1:has-text("The slowest transaction here")');
  expect(await page.textContent('h1')).toMatch(SLOWEST);
  await close(site);
});

describe('where tokens are needed', () => {
  async function withTokens() {
    const [reader, both] = [createSecret(), createSecret()];
    const stored = (name: string, secret: string, scopes: Scope[]) => {
      const created_at = '2025-01-01T00:00:00Z';
      return { name, sha256: hashSecret(secret).toString('hex'), scopes, created_at, expires_at: null };
    };
    const tokens = [stored('reader', reader, ['events:read']), stored('both', both, ['events:read', 'replay:control'])];
    const path = join(newFolder(), 'tokens.json');
    const write = (some: object[]) =>
      writeFileSync(path, JSON.stringify({ version: 1, tokens: some }), { mode: 0o600 });
    write(tokens);
    const log = pino({ level: 'silent' });
    const bearer = createBearerCheck({ tokens: openTokens({ path, nowMs: Date.now, log }), nowMs: Date.now, log });
    const { url } = await served(exampleRecording(), { allowed: { bearer } });
    return { url, reader, both, revokeAll: () => write([]) };
  }

  test('the page opens without one, asks for it, and keeps it out of address and storage', async () => {
    const { url, reader } = await withTokens();
    const { page } = await newPage();
    await page.goto(url + LANES);
    await page.fill('#token', 'no token!');
    await page.click('text=Open');
    await page.waitForSelector('text=This is not a token');
    await page.fill('#token', createSecret());
    await page.click('text=Open');
    await page.waitForSelector('text=the token is unknown, expired or revoked');
    await page.fill('#token', reader);
    await page.click('text=Open');
    await page.waitForSelector('.moving');
    expect(page.url()).not.toContain(reader);
    expect(await page.evaluate('JSON.stringify(localStorage) + document.cookie')).not.toContain(reader);
    expect(await page.textContent('.replay')).toContain('This token cannot play');
    expect(await page.isDisabled('.replay button.primary')).toBe(true);
  });

  test('a new tab gets it from the first one, and one that is revoked is asked for again', async () => {
    const { url, both, revokeAll } = await withTokens();
    const { page } = await newPage();
    await page.goto(url);
    await page.fill('#token', both);
    await page.click('text=Open');
    await page.waitForSelector('h1:has-text("slowest")');
    const tab = await page.context().newPage();
    await tab.goto(url + LANES);
    await tab.waitForSelector('.moving');
    expect(await tab.isEnabled('.replay button.primary')).toBe(true);
    revokeAll();
    await page.keyboard.press('4');
    await page.waitForSelector('text=This daemon needs a token');
  });
});

const HOSTILE = ['<img src=x onerror=document.title=1>', '__proto__', '\u202egnp.exe', 'long'.repeat(1000), '🙂"\'&'];

test('names of recorded programs are text, whatever is in them', async () => {
  const { url } = await served(
    recorded(
      HOSTILE.map((name, i) => ({
        ...{ at: START - 1_000_000n + BigInt(i) * 1000n, duration: 500n, file: `/${name}`, requested: 1n },
        ...{ service: name, transaction: name, comm: name.slice(0, 15) },
      })),
    ),
  );
  const { page, errors } = await newPage();
  await page.goto(url);
  await page.waitForSelector('table');
  const text = await page.textContent('table');
  expect(text).toContain('<img src=x onerror=document.title=1>');
  expect(text).toContain('\\u{202e}gnp.exe');
  for (const name of HOSTILE) {
    await page.goto(`${url}/#v=1&view=lanes&transaction=${encodeURIComponent(name)}`);
    if (name.length > 1024) continue;
    await page.waitForSelector('.moving');
    await page.keyboard.press('ArrowRight');
    await page.waitForSelector('.detail');
    await page.keyboard.press('v');
    await page.waitForSelector('tr.selected');
  }
  expect(await page.title()).toMatch(/. · kreplay$/);
  expect(errors).toEqual([]);
});
