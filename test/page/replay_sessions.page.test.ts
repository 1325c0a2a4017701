/** Which session a view plays: one of its own, the one of the link, and none that the link must not lead to. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { type Served, served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const MS = 1_000_000n;
const SESSIONS = '/api/replay/sessions';

const rows: Row[] = ['order-1', 'order-2'].flatMap((transaction, order) =>
  Array.from({ length: 30 }, (_, i) => ({
    ...{ at: START - 10_000n * MS + BigInt(i) * 10n * MS, duration: 2n * MS, tid: 10 + order, transaction },
  })),
);

async function opened(url: string, more = '') {
  const watched = await newPage();
  await watched.page.goto(`${url}/#v=1&view=lanes&transaction=order-1${more}`);
  await watched.page.waitForSelector('.moving');
  return watched;
}

async function sessionIn(page: Page): Promise<string> {
  await page.waitForURL(/session=/);
  return /session=([0-9a-f-]+)/.exec(page.url())![1]!;
}

async function made(daemon: Served, transaction_id: string): Promise<string> {
  const headers = { 'content-type': 'application/json' };
  const { json } = await daemon.get(SESSIONS, { method: 'POST', headers, body: JSON.stringify({ transaction_id }) });
  return json.session_id;
}

const sessionOf = async (daemon: Served, id: string) => (await daemon.get(`${SESSIONS}/${id}`)).json;

test('a session that is made after its view was left is deleted, and is not in the link', async () => {
  const daemon = await served(recorded(rows));
  const { page, errors } = await opened(daemon.url);
  let isAnswered = false;
  await page.route(`**${SESSIONS}`, async (route) => {
    await sleep(400);
    await route.continue();
    isAnswered = true;
  });
  const deleted = page.waitForResponse((response) => response.request().method() === 'DELETE');
  const asked = page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith(SESSIONS));
  await page.keyboard.press('Space');
  // A view that is left before it has asked for a session makes none.
  await asked;
  await page.keyboard.press('1');
  await page.waitForSelector('canvas.map');
  while (!isAnswered) await sleep(20);
  expect((await deleted).status()).toBe(204);
  await sleep(300);
  expect(page.url()).not.toContain('session=');
  expect((await daemon.get(SESSIONS)).json.sessions).toEqual([]);
  expect(errors).toEqual([]);
});

test('a session whose first answers fail is followed once the daemon answers', async () => {
  const daemon = await served(recorded(rows));
  const session = await made(daemon, 'order-1');
  const watched = await newPage();
  let failures = 0;
  await watched.page.route(`**${SESSIONS}/${session}`, (route) =>
    failures++ < 2
      ? route.fulfill({
          ...{ status: 503, contentType: 'application/problem+json' },
          body: '{"code":"busy","detail":"too many long requests at once"}',
        })
      : route.continue(),
  );
  await watched.page.goto(`${daemon.url}/#v=1&view=lanes&transaction=order-1&session=${session}`);
  await watched.page.waitForSelector('text=too many long requests at once');
  await watched.page.waitForSelector('text=ready, event 0 of 30');
  expect(await watched.page.isVisible('text=too many long requests at once')).toBe(false);
  // Another client plays it.
  await daemon.get(`${SESSIONS}/${session}/play`, { method: 'POST' });
  await watched.page.waitForSelector('text=finished, event 30 of 30');
});

test.each(['../../transactions/order-1/pin%23', '%2e%2e/x', 'x?y', '0'.repeat(36)])(
  'a link with the session %s leads to no request that it made up',
  async (name) => {
    const daemon = await served(recorded(rows));
    const { page, requested } = await opened(daemon.url, `&session=${name}`);
    await page.waitForSelector('text=session: is not the id of a session');
    await page.keyboard.press('Space');
    await page.waitForSelector('text=/playing|finished/');
    const paths = requested.map((address) => new URL(address).pathname);
    expect(paths.filter((path) => path.includes('pin') || path.includes('..'))).toEqual([]);
    expect((await daemon.get('/api/pins')).json.pins).toEqual([]);
    expect((await daemon.get(SESSIONS)).json.sessions).toHaveLength(1);
  },
);

test('a session of another transaction is not played, and one of this one is made in its place', async () => {
  const daemon = await served(recorded(rows));
  const other = await made(daemon, 'order-2');
  const { page } = await opened(daemon.url, `&session=${other}`);
  await page.waitForSelector('text=the session of the link plays another transaction');
  await page.keyboard.press('Space');
  await page.waitForURL((url) => url.hash.includes('session=') && !url.hash.includes(other));
  await page.waitForSelector('text=/playing|finished/');
  expect(await sessionOf(daemon, other)).toMatchObject({ state: 'ready', transaction_id: 'order-2' });
});

test('a command that comes before the session of the link is read waits for it', async () => {
  const daemon = await served(recorded(rows));
  const other = await made(daemon, 'order-2');
  const watched = await newPage();
  const { promise, resolve } = Promise.withResolvers<void>();
  await watched.page.route(`**${SESSIONS}/${other}`, (route) => void promise.then(() => route.continue()));
  await watched.page.goto(`${daemon.url}/#v=1&view=lanes&transaction=order-1&session=${other}`);
  await watched.page.waitForSelector('.moving');
  await watched.page.keyboard.press('Space');
  await sleep(300);
  resolve();
  await watched.page.waitForSelector('text=the session of the link plays another transaction');
  await sleep(300);
  expect((await sessionOf(daemon, other)).state).toBe('ready');
});

test.each([
  ['l', '&latency=5000000', { extra_latency_ns: 10_000_000 }],
  ['Shift+L', '&latency=5000000', { extra_latency_ns: 2_000_000 }],
  ['NumpadAdd', '&speed=0.01', { speed_factor: 0.02 }],
  ['Minus', '&speed=4', { speed_factor: 2 }],
  ['i', '&max_gap=3000000', { max_gap_ns: null }],
])('the key %s goes on from %s of the link', async (key, more, expected) => {
  const daemon = await served(recorded(rows));
  const { page } = await opened(daemon.url, more);
  await page.keyboard.press(key);
  const session = await sessionIn(page);
  const [name, value] = Object.entries(expected)[0]!;
  while ((await sessionOf(daemon, session))[name] !== value) await sleep(20);
});

test('what a step has played is said of the picture that is shown by then', async () => {
  // Requests of others that began before make other rows of the same events.
  const others: Row[] = Array.from({ length: 200 }, (_, i) => ({
    ...{ type: 'block_io' as const, at: START - 10_001n * MS + BigInt(i), duration: 12n * MS, service: 'backup' },
    ...{ transaction: 'backup-1', bytes: 4096n, queue: 1n, result: 0n },
  }));
  const daemon = await served(recorded([...others, ...rows]));
  const { page, errors } = await newPage();
  const { promise, resolve } = Promise.withResolvers<void>();
  await page
    .context()
    .route('**/api/events?event_type=block_io*', (route) => void promise.then(() => route.continue()));
  await page.goto(`${daemon.url}/#v=1&view=lanes&transaction=order-1`);
  await page.waitForSelector('.moving');
  await page.keyboard.press('Period');
  await page.waitForSelector('.spoken:has-text("starts +0 ns")', { state: 'attached' });
  await page.keyboard.press('Period');
  await page.keyboard.press('Period');
  await page.waitForSelector('text=paused, event 3 of 30');
  resolve();
  await page.waitForSelector('main[aria-busy=false]');
  await page.waitForSelector('.spoken:has-text("starts +20.0 ms")', { state: 'attached' });
  expect(errors).toEqual([]);
});
