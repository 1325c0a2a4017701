/** What a person who is paged does first: find a transaction, open, copy and compare it, and choose a window of time. */
import type { Page } from 'playwright-core';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { EVERY_NS, FIRST_NS, PLANTED, recordMade } from '../daemon/sums/differences/planted.ts';
import { newPage } from './browser.ts';

const MS = 1_000_000n;
const SECOND = 1000n * MS;

/** A write and a sync, 95 ms altogether. */
const burst = (transaction: string, at: bigint): Row[] => [
  { at, duration: 3n * MS, transaction, file: '/srv/log', requested: 1n },
  { type: 'sys_sync', at: at + 5n * MS, duration: 90n * MS, transaction, file: '/srv/wal', result: 0n },
];
const request = (at: bigint): Row => ({ type: 'block_io', at, duration: 20n * MS, device: 'vda', service: 'backup' });
const parameters = (page: Page) => new URLSearchParams(new URL(page.url()).hash.slice(1));

test('a transaction is a link: another tab opens from it, Back returns, and filters stay', async () => {
  const { url } = await served(recorded(burst('a b&c', START - 60n * SECOND)));
  const { page, errors } = await newPage();
  await page.goto(`${url}/#v=1&service=shop`);
  const link = page.locator('tbody a');
  const href = await link.evaluate((element) => (element as HTMLAnchorElement).href);
  expect(Object.fromEntries(new URLSearchParams(new URL(href).hash.slice(1)))).toEqual({
    v: '1',
    view: 'lanes',
    transaction: 'a b&c',
    service: 'shop',
  });
  const [tab] = await Promise.all([page.context().waitForEvent('page'), link.click({ modifiers: ['ControlOrMeta'] })]);
  await tab.waitForSelector('h1:has-text("a b&c of shop")');
  expect(parameters(page).get('view')).toBeNull();
  await link.click();
  await page.waitForSelector('h1:has-text("a b&c of shop")');
  await page.goBack();
  await page.waitForSelector('tbody a');
  expect(parameters(page).get('service')).toBe('shop');
  expect(errors).toEqual([]);
});

test('a part of an id finds transactions of the window, and says that there is none', async () => {
  const names = ['order-4711', 'ORDER-47', 'pay-4711', '50%'];
  const rows = names.flatMap((name, i) => burst(name, START - BigInt(60 - i) * SECOND));
  const { url } = await served(recorded(rows));
  const { page, errors } = await newPage();
  await page.goto(url);
  const found = () => page.$$eval('tbody th a', (links) => links.map(({ textContent }) => textContent));
  const search = async (text: string, words: string) => {
    await page.fill('input[type=search]', text);
    await page.waitForSelector(`text=${words}`);
  };
  await search('order', 'The 2 whose ids contain order');
  expect((await found()).sort()).toEqual(['ORDER-47', 'order-4711']);
  await search('%', 'The 1 whose ids contain %');
  expect(await found()).toEqual(['50%']);
  await search('r_', 'No id of a transaction of this window and these filters contains r_');
  await page.fill('input[type=search]', '');
  await page.waitForSelector('caption:has-text("The slowest transactions")');
  await page.goto(`${url}/#v=1&to=${START - 59n * SECOND}`);
  await search('4711', 'The 1 whose ids contain 4711');
  expect(await found()).toEqual(['order-4711']);
  expect(errors).toEqual([]);
});

test('own events come first in the table of a transaction, with durations in ms', async () => {
  const early = Array.from({ length: 40 }, (_, i) => request(START - 61n * SECOND + BigInt(i) * 20n * MS));
  const { url } = await served(recorded([...early, ...burst('order-1', START - 60n * SECOND)]));
  const { page } = await newPage();
  await page.goto(`${url}/#v=1&view=lanes&transaction=order-1&table=1`);
  const cells = () =>
    page.$$eval('.rows tbody tr[aria-rowindex]', (rows) =>
      rows.map((row) => [...row.children].slice(0, 4).map(({ textContent }) => textContent)),
    );
  await page.waitForSelector('.rows td:has-text("block_io")');
  const rows = await cells();
  expect(rows.slice(0, 3).map(([start, , duration, event]) => [start, duration, event])).toEqual([
    ['+0 ms', '3 ms', 'sys_write'],
    ['+5 ms', '90 ms', 'sys_sync'],
    ['-1 000 ms', '20 ms', 'block_io'],
  ]);
  await page.click('.rows tr[aria-rowindex="4"]');
  await page.waitForSelector('.detail:has-text("-1 000 ms")');
  expect(await page.getAttribute('.rows tr.selected', 'aria-rowindex')).toBe('4');
});

test('an id that was used again is two bursts, in the list, the overview, the picture and the replay', async () => {
  const rows = [
    ...[60n, 47n].flatMap((ago) => burst('order-1', START - ago * SECOND)),
    // Its work explains that it takes this long.
    ...[40n, 38n, 36n].map((ago): Row => ({ at: START - ago * SECOND, duration: 2n * SECOND, transaction: 'long' })),
  ];
  const { url } = await served(recorded(rows));
  const { page, errors } = await newPage();
  await page.goto(url);
  const words = '▲ 2 bursts of calls, 12.9 s apart:';
  await page.waitForSelector(`tbody tr:has-text("order-1"):has-text("${words}")`);
  expect(await page.textContent('.words')).toContain(words);
  expect(await page.textContent('tbody tr:has-text("long")')).not.toContain('burst');
  await page.click('tbody a:has-text("95.0 ms from 23:59:13 UTC")');
  await page.waitForSelector(`main > p:has-text("${words}")`);
  const [from, to] = [START - 47n * SECOND, START - 47n * SECOND + 95n * MS + 1n];
  expect([parameters(page).get('zoom_from'), parameters(page).get('zoom_to')]).toEqual([`${from}`, `${to}`]);
  await page.click('main > p a >> nth=0');
  await page.waitForURL(new RegExp(`zoom_from=${START - 60n * SECOND}`));
  expect(await page.textContent('.replay')).toContain('“skip idle” cuts it');
  await page.click('text=skip idle >> nth=0');
  await page.waitForSelector('.replay:not(:has-text("cuts it"))');
  expect(errors).toEqual([]);
});

test('a list says of an id with many events that it was used again, without reading them for links', async () => {
  const many = Array.from(
    { length: 101 },
    (_, i): Row => ({ at: START - 90n * SECOND + BigInt(i), transaction: 'many' }),
  );
  const { url } = await served(recorded([...many, { at: START - 30n * SECOND, transaction: 'many' }]));
  const { page, errors } = await newPage();
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.goto(url);
  const words = '▲ 2 bursts of calls, 1 min 0 s apart';
  await page.waitForSelector(`tbody tr:has-text("many"):has-text("${words}")`);
  expect(await page.textContent('.words')).toContain(words);
  await page.waitForLoadState('networkidle');
  expect(asked.filter((path) => path.includes('/explain'))).toEqual([]);
  expect(await page.locator('tbody tr:has-text("many") a').count()).toBe(1);
  expect(errors).toEqual([]);
});

test('what if comes after the picture', async () => {
  const { url } = await served(recorded(burst('order-1', START - 60n * SECOND)));
  const { page } = await newPage();
  await page.goto(`${url}/#v=1&view=lanes&transaction=order-1`);
  await page.waitForSelector('.moving');
  const top = async (selector: string) => (await page.locator(selector).first().boundingBox())!.y;
  expect(await top('.what-if')).toBeGreaterThan(await top('.picture'));
});

test('nothing moves when the comparison arrives', async () => {
  const { plant } = PLANTED.find(({ name }) => name === 'a device')!;
  const { url } = await served(openRecordingStore(undefined, recordMade(1000, 5, plant)));
  for (const width of [1440, 390]) {
    const { page } = await newPage({ viewport: { width, height: 900 } });
    const { promise, resolve } = Promise.withResolvers<void>();
    await page.route('**/api/differences*', (route) => void promise.then(() => route.continue()));
    await page.goto(`${url}/#v=1&from=${FIRST_NS}&to=${FIRST_NS + 1000n * EVERY_NS}`);
    await page.waitForSelector('text=Comparing the selected');
    await page.waitForSelector('tbody a');
    const tops = () =>
      page.$$eval('canvas.map, .apart, .wide', (parts) =>
        parts.map((part) => [part.getBoundingClientRect().x, part.getBoundingClientRect().y + scrollY]),
      );
    const before = await tops();
    resolve();
    await page.waitForSelector('h1:has-text("used device")');
    const after = await tops();
    // Below the comparison is only what a narrow screen has no room for beside it.
    expect(after.slice(0, width > 900 ? 3 : 2)).toEqual(before.slice(0, width > 900 ? 3 : 2));
  }
});

test('a window is chosen in local time, zoomed out, and taken from a box', async () => {
  const { url } = await served(recorded(burst('order-1', START - 60n * SECOND)));
  const { page, errors } = await newPage({ timezoneId: 'Asia/Kolkata' });
  await page.goto(url);
  await page.waitForSelector('tbody a');
  expect(await page.isDisabled('text=Zoom out')).toBe(true);
  await page.click('summary:has-text("Times")');
  // START is 2025-11-21T00:00:00Z.
  const field = (at: number) => page.locator(`input[type=datetime-local] >> nth=${at}`);
  await field(0).fill('2025-11-21T05:28:00');
  expect(parameters(page).get('from')).toBeNull();
  await field(0).press('Enter');
  await page.waitForURL(new RegExp(`from=${START - 120n * SECOND}`));
  await field(1).fill('2025-11-21T05:30:00');
  await field(1).blur();
  await page.waitForURL(new RegExp(`to=${START}`));
  await field(0).fill('2025-11-21T06:00:00');
  await field(0).blur();
  await page.waitForSelector('[role=alert]:has-text("must be so that the window begins before it ends")');
  expect(parameters(page).get('from')).toBe(`${START - 120n * SECOND}`);
  await page.click('text=Zoom out');
  await page.waitForURL(new RegExp(`to=${START + 60n * SECOND}`));
  expect(parameters(page).get('from')).toBe(`${START - 180n * SECOND}`);
  const [left, right] = [START - 70n * SECOND, START - 50n * SECOND];
  await page.goto(`${url}/#v=1&box_from=${left}&box_to=${right}&box_min=1&box_max=${SECOND}`);
  await page.click('text=Zoom in');
  await page.waitForURL(new RegExp(`from=${left}&to=${right}`));
  expect(parameters(page).get('box_min')).toBeNull();
  expect(errors).toEqual([]);
});

test('dragging along the axis of the map chooses the time, and leaves no box', async () => {
  const { url } = await served(recorded(burst('order-1', START - 60n * SECOND)));
  const { page, errors } = await newPage();
  const [from, to] = [START - 100n * SECOND, START];
  await page.goto(`${url}/#v=1&from=${from}&to=${to}`);
  await page.waitForSelector('tbody a');
  const { x, y, width, height } = (await page.locator('canvas.map').boundingBox())!;
  await page.mouse.move(x + width * 0.7, y + height - 5);
  await page.mouse.down();
  for (const share of [0.6, 0.5, 0.4]) await page.mouse.move(x + width * share, y + height - 5);
  await page.waitForTimeout(200);
  expect(parameters(page).get('box_from')).toBeNull();
  await page.mouse.up();
  await page.waitForURL((address) => !address.hash.includes(`from=${from}`));
  const chosen = ['from', 'to'].map((name) => Number(BigInt(parameters(page).get(name)!) - from) / 1e9);
  expect(chosen[0]).toBeGreaterThan(30);
  expect(chosen[0]).toBeLessThan(45);
  expect(chosen[1]).toBeGreaterThan(60);
  expect(chosen[1]).toBeLessThan(75);
  expect(parameters(page).get('box_from')).toBeNull();
  await page.waitForSelector('tbody a');
  expect(errors).toEqual([]);
});

test('a year is typed digit by digit, and what is no time does not change the window', async () => {
  const { url } = await served(recorded(burst('order-1', START - 60n * SECOND)));
  const { page, errors } = await newPage({ timezoneId: 'UTC', locale: 'en-US' });
  await page.goto(`${url}/#v=1&from=${START - 120n * SECOND}&to=${START}`);
  await page.click('summary:has-text("Times")');
  const field = page.locator('input[type=datetime-local] >> nth=0');
  const chooseYear = async () => {
    await field.focus();
    for (let i = 0; i < 2; i++) await page.keyboard.press('ArrowRight');
  };
  await chooseYear();
  await page.keyboard.type('2024');
  expect(await field.inputValue()).toMatch(/^2024-11-20T23:58/);
  expect(parameters(page).get('from')).toBe(`${START - 120n * SECOND}`);
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`from=${Date.UTC(2024, 10, 20, 23, 58)}000000`));
  await field.blur();
  await chooseYear();
  for (const clear of ['Backspace', '0002']) {
    if (clear === 'Backspace') await page.keyboard.press(clear);
    else await page.keyboard.type(clear);
    await page.keyboard.press('Enter');
    await page.waitForSelector(`[role=alert]:has-text("must be ${clear === 'Backspace' ? 'whole' : 'after 1970'}")`);
    expect(parameters(page).get('from')).toBe(`${Date.UTC(2024, 10, 20, 23, 58)}000000`);
  }
  // An empty field is no bound, and a time that is refused stays until it can be taken.
  await field.fill('');
  await field.blur();
  await page.waitForURL((address) => !address.hash.includes('from='));
  const last = page.locator('input[type=datetime-local] >> nth=1');
  await field.fill('2025-11-21T01:00:00');
  await field.blur();
  await page.waitForSelector('[role=alert]:has-text("must be so that the window begins before it ends")');
  await last.fill('2025-11-21T02:00:00');
  await last.blur();
  await field.press('Enter');
  await page.waitForURL(new RegExp(`from=${START + 3600n * SECOND}&to=${START + 7200n * SECOND}`));
  expect(await page.isVisible('[role=alert]')).toBe(false);
  expect(errors).toEqual([]);
});

test('services of transactions come first, then those with more events of now', async () => {
  const nowNs = BigInt(Date.now()) * MS;
  const event = (service: string, count: number): Row[] =>
    Array.from({ length: count }, (_, i) => ({ at: nowNs - SECOND - BigInt(i), duration: 1n, service }));
  const { url } = await served(
    recorded([
      ...event('apt', 1),
      ...event('backup', 9),
      ...event('cron', 3),
      ...burst('order-1', nowNs - 60n * SECOND).map((row) => ({ ...row, service: 'zebra' })),
    ]),
  );
  const { page, requested } = await newPage();
  await page.goto(url);
  const select = page.locator('label:has-text("Service") select');
  await page.waitForSelector('option:nth-child(2):has-text("zebra")', { state: 'attached' });
  expect(await select.locator('option').allTextContents()).toEqual(['all services', 'zebra', 'backup', 'cron', 'apt']);
  await page.goto(`${url}/#v=1&view=live`);
  await page.waitForSelector('option:nth-child(2):has-text("zebra")', { state: 'attached' });
  expect(requested.filter((address) => address.includes('group_by=service&from='))).toHaveLength(1);
});

test('on a phone the sentence comes first, controls are folded away, and the picture has room', async () => {
  const { url } = await served(recorded(burst('order-1', START - 60n * SECOND)));
  const { page, errors } = await newPage({ viewport: { width: 390, height: 844 } });
  await page.goto(url);
  const top = async (selector: string) => (await page.locator(selector).first().boundingBox())!.y;
  await page.waitForSelector('h1');
  expect(await page.isVisible('text=all services')).toBe(false);
  expect(await top('h1')).toBeLessThan(await top('summary:has-text("Window and filters")'));
  await page.keyboard.press('/');
  expect(await page.evaluate('document.activeElement.placeholder')).toContain('service:');
  await page.goto(`${url}/#v=1&view=lanes&transaction=order-1`);
  await page.waitForSelector('.moving');
  expect((await page.locator('.replay').boundingBox())!.height).toBeLessThan(844 / 6);
  // A window that becomes wide has its controls again.
  await page.goto(url);
  await page.setViewportSize({ width: 1000, height: 844 });
  await page.waitForSelector('select:has-text("all services")');
  expect(errors).toEqual([]);
});

test('a transaction to compare is found by a part of its id', async () => {
  const names = ['order-1', 'order-2', 'other'];
  const rows = names.flatMap((name, i) => burst(name, START - BigInt(60 - i) * SECOND));
  const { url } = await served(recorded(rows));
  const { page, errors } = await newPage();
  await page.goto(`${url}/#v=1&view=compare`);
  const found = () => page.$$eval('tbody th a', (links) => links.map(({ textContent }) => textContent));
  await page.waitForSelector('tbody a');
  expect(await found()).toEqual(['other', 'order-2', 'order-1']);
  await page.fill('input[type=search]', 'r-');
  await page.waitForSelector('tbody:not(:has-text("other"))');
  await page.click('[aria-label="order-1 as A"]');
  await page.waitForSelector('h1:has-text("Choose a transaction to compare with order-1.")');
  await page.click('[aria-label="order-2 as B"]');
  await page.waitForSelector('h1:has-text("B took as long as A")');
  expect([parameters(page).get('transaction'), parameters(page).get('other')]).toEqual(['order-1', 'order-2']);
  expect(errors).toEqual([]);
});
