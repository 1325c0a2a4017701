/** Answers that end early: what is shown of them is said to be a part. */
import type { Route } from 'playwright-core';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { breakingWay } from './breaking.ts';
import { newPage } from './browser.ts';

const COUNT = 10_000;
const FIRST = START - 60_000_000_000n;
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLS = Array.from({ length: COUNT }, (_, i): Row => {
  const transaction = i % 2 === 0 ? 'order-1' : 'order-2';
  return { at: FIRST + BigInt(i) * 10_000n, duration: 9000n, transaction, trace: TRACE };
});
const OF_ONE = CALLS.map((row): Row => ({ ...row, transaction: 'order-1' }));
const COLUMNS = { headers: { accept: 'application/vnd.kreplay.columns' } };

/** The way to a daemon, on which answers of a path can be cut near their end. */
async function cuttable(rows: Row[], path: string) {
  const { port, get } = await served(recorded(rows));
  const { length } = (await get(path, COLUMNS)).text;
  const way = await breakingWay(port);
  const cut = () => {
    way.bytesOf = (asked) => (asked === path ? Math.floor(length * 0.9) : Number.POSITIVE_INFINITY);
  };
  return { way, cut };
}

test('a transaction of which the answer is cut is shown as its first events, without reasons', async () => {
  const { way, cut } = await cuttable(OF_ONE, '/api/events?transaction_id=order-1');
  cut();
  const { page } = await newPage();
  const part = page.locator('h1:has-text("of 10 000 events of order-1: what it waited for is not known yet.")');
  way.beforeBreak = () => part.waitFor();
  await page.goto(`${way.url}/#v=1&view=lanes&transaction=order-1`);
  await part.waitFor();
  await page.waitForSelector('main > .failure');
  expect(await part.textContent()).toMatch(/^The first (4|5)\s\d{3}\sof/);
  expect(await page.locator('text=Where the time went').count()).toBe(0);
  expect(await page.locator('text=nothing is known to be missing').count()).toBe(0);

  way.bytesOf = () => Number.POSITIVE_INFINITY;
  await page.reload();
  await page.waitForSelector('h1:has-text("of 100.0 ms")');
  await page.waitForSelector('text=nothing is known to be missing');
  await page.waitForSelector('text=Where the time went');

  // Reading again with other clocks is no better where it ends early.
  cut();
  await page.goto(`${way.url}/#v=1&view=lanes&transaction=order-1&clock_offset=test-node:5`);
  await page.waitForSelector('main > .failure');
  await part.waitFor();
  expect(await page.locator('text=nothing is known to be missing').count()).toBe(0);
});

test('so is a trace', async () => {
  const { way, cut } = await cuttable(CALLS, `/api/events?trace_id=${TRACE}&coverage=full`);
  cut();
  const { page } = await newPage();
  const names = `Trace ${TRACE} with order-1 and order-2`;
  const part = page.locator(`h1:has-text("of 10 000 events of ${names}: what it waited for")`);
  way.beforeBreak = () => part.waitFor();
  await page.goto(`${way.url}/#trace=${TRACE}`);
  await page.waitForSelector('main > .failure');
  await part.waitFor();
  expect(await page.locator('text=Where the time went').count()).toBe(0);
  expect(await page.locator('text=nothing is known to be missing').count()).toBe(0);
});

test('an answer that was cut is asked again by itself', async () => {
  const { way, cut } = await cuttable(OF_ONE, '/api/events?transaction_id=order-1');
  cut();
  const { page } = await newPage();
  await page.goto(`${way.url}/#v=1&view=lanes&transaction=order-1`);
  await page.waitForSelector('.failure:has-text("the page asks again by itself")');
  way.bytesOf = () => Number.POSITIVE_INFINITY;
  await page.waitForSelector('h1:has-text("of 100.0 ms")');
  await page.waitForSelector('.failure', { state: 'detached' });
});

test('an answer that is cut each time is asked for less and less often', async () => {
  const { way, cut } = await cuttable(OF_ONE, '/api/events?transaction_id=order-1');
  cut();
  const { page, requested } = await newPage();
  await page.clock.install();
  await page.goto(`${way.url}/#v=1&view=lanes&transaction=order-1`);
  const asked = () => requested.filter((address) => address.includes('/api/events?transaction_id=order-1')).length;
  await page.waitForSelector('main[aria-busy="false"] .failure:has-text("the page asks again by itself")');
  // Time passes for the page only here.
  await page.clock.pauseAt(Number(await page.evaluate('Date.now()')) + 500);
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      await page.clock.runFor(1000);
      await page.waitForTimeout(100);
      // An answer takes as long as it takes: no time passes for the page until it is there.
      await page.waitForSelector('main[aria-busy="false"]');
    }
  };
  await pass(8);
  // At once and after a second; a daemon that does not answer would be asked four times.
  expect(asked()).toBe(2);
  await pass(6);
  expect(asked()).toBe(3);
});

test('a whole answer without its last line, as from a proxy, was cut too', async () => {
  const { url, get } = await served(recorded(OF_ONE));
  const { text } = await get('/api/events?transaction_id=order-1', COLUMNS);
  const { page } = await newPage();
  const cut = text.slice(0, text.slice(0, -1).lastIndexOf('\n') + 1);
  const lanes = (route: Route) => route.fulfill({ contentType: COLUMNS.headers.accept, body: cut });
  await page.context().route('**/api/events?transaction_id*', lanes);
  await page.goto(`${url}/#v=1&view=lanes&transaction=order-1`);
  await page.waitForSelector('.failure:has-text("the answer was cut: events are missing at its end")');
  await page.context().unroute('**/api/events?transaction_id*', lanes);
  await page.waitForSelector('h1:has-text("of 100.0 ms")');
  await page.waitForSelector('.failure', { state: 'detached' });
});

test('what a picture lacks after a failure is said until it was read', async () => {
  const { port } = await served(recorded(CALLS));
  const way = await breakingWay(port);
  const { page } = await newPage();
  const missing = page.locator('.loss:has-text("Others’ requests are missing.")');
  const earlier = page.locator('.loss:has-text("Below is the picture with the earlier clock offsets.")');
  for (const shown of ['view=lanes&transaction=order-1', `trace=${TRACE}`]) {
    way.bytesOf = unanswered('/api/events?event_type=block_io');
    await page.goto(`${way.url}/#v=1&${shown}`);
    await missing.waitFor();
    await page.waitForSelector('h1:has-text(" ms")');
    expect(await earlier.count()).toBe(0);
    way.bytesOf = () => Number.POSITIVE_INFINITY;
    await missing.waitFor({ state: 'detached' });
    await page.waitForSelector('.failure', { state: 'detached' });
  }
  await page.goto(`${way.url}/#v=1&view=lanes&transaction=order-1`);
  await page.waitForSelector('main[aria-busy="false"] .moving');
  way.bytesOf = unanswered('/api/events');
  await page.goto(`${way.url}/#v=1&view=lanes&transaction=order-1&clock_offset=test-node:5`);
  await earlier.waitFor();
  expect(await missing.count()).toBe(0);
  way.bytesOf = () => Number.POSITIVE_INFINITY;
  await earlier.waitFor({ state: 'detached' });
  await page.waitForSelector('.failure', { state: 'detached' });
});

const unanswered = (part: string) => (path: string) => (path.startsWith(part) ? 0 : Number.POSITIVE_INFINITY);

test.each(['/api/access', '/api/transactions/', '/api/events'])(
  'a page that was opened while %s had no answer asks again by itself',
  async (part) => {
    const { port } = await served(recorded(OF_ONE.slice(0, 10)));
    const way = await breakingWay(port);
    way.bytesOf = unanswered(part);
    const { page } = await newPage();
    await page.goto(`${way.url}/#v=1&view=lanes&transaction=order-1`);
    await page.waitForSelector('text=the page asks again by itself');
    way.bytesOf = () => Number.POSITIVE_INFINITY;
    await page.waitForSelector('h1:has-text("order-1 of shop: ")');
    await page.waitForSelector('.failure', { state: 'detached' });
  },
);

test('a token that the second thread finds expired is asked for', async () => {
  const { url } = await served(recorded(OF_ONE.slice(0, 10)));
  const { page } = await newPage();
  await page.context().route('**/api/events*', (route) =>
    route.fulfill({
      ...{ status: 401, contentType: 'application/problem+json' },
      body: '{"code":"unauthorized","detail":"the token has expired"}',
    }),
  );
  await page.goto(`${url}/#v=1&view=lanes&transaction=order-1`);
  await page.waitForSelector('input[type=password]');
});

/** Number of requests of others that the page reads. */
const OTHERS_MAX = 200_000;

test.each([
  [OTHERS_MAX, 0],
  [OTHERS_MAX + 10_000, 1],
])(
  'of %i requests of others, some are said not to be shown only if that is so',
  async (count, notes) => {
    const others = Array.from({ length: count }, (_, i): Row => {
      const request = { at: FIRST + BigInt(i), duration: 1_000_000n, service: 'backup', transaction: 'backup-1' };
      return { ...request, type: 'block_io', bytes: 4096n, queue: 1n, result: 0n };
    });
    const own: Row = { at: FIRST, duration: 2_000_000n, transaction: 'order-1' };
    const daemon = await served(recorded([own, ...others]));
    const { page } = await newPage();
    await page.goto(`${daemon.url}/#v=1&view=lanes&transaction=order-1`);
    // The title has the sentence once the requests of others are read.
    await page.waitForFunction(() => document.title.includes('2.00 ms'));
    expect(await page.locator('text=More requests of others were under way').count()).toBe(notes);
  },
  60_000,
);
