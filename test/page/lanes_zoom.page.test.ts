/** Which part of a transaction is in view: by keys, by the strip of all events, by a link, and after the break. */
import type { Page } from 'playwright-core';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const MS = 1_000_000n;
const FIRST = START - 60_000n * MS;

/** A call each millisecond for half a second, of two threads one after the other, and write-back half a minute later. */
const CALLS: Row[] = Array.from({ length: 500 }, (_, i) => ({
  ...{ at: FIRST + BigInt(i) * MS, duration: 900_000n, tid: i < 250 ? 100 : 101, transaction: 'order-1' },
}));
const LATER: Row[] = Array.from({ length: 3 }, (_, i) => ({
  ...{ type: 'block_io' as const, at: FIRST + BigInt(20_000 + i * 4000) * MS, duration: 400n * MS, queue: 1n },
  ...{ service: 'kernel', pid: 9, tid: 9, transaction: 'order-1', source: 'origin' as const, result: 0n },
}));

async function opened(url: string, more = '') {
  const watched = await newPage({ viewport: { width: 1280, height: 800 } });
  await watched.page.goto(`${url}/#v=1&view=lanes&transaction=order-1${more}`);
  await watched.page.waitForSelector('.minimap');
  return watched;
}

/** The zoom as the strip says it, and as the address has it. */
const shownTime = (page: Page) => page.getAttribute('.minimap', 'aria-label');
async function zoomIn(page: Page): Promise<[from: bigint, to: bigint]> {
  await page.waitForURL(/zoom_from=\d+&zoom_to=\d+/);
  // The address is written when the zoom rests.
  await page.waitForTimeout(400);
  const [, from, to] = /zoom_from=(\d+)&zoom_to=(\d+)/.exec(page.url())!;
  return [BigInt(from!), BigInt(to!)];
}

/** Drags within the strip, by shares of its time, and waits until the address has another zoom. */
async function drag(page: Page, from: number, to: number): Promise<void> {
  const before = page.url();
  const box = (await page.locator('.minimap').boundingBox())!;
  const x = (share: number) => box.x + 150 + share * (box.width - 150);
  await page.mouse.move(x(from), box.y + 16);
  await page.mouse.down();
  await page.mouse.move(x(to), box.y + 16, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL((url) => url.href !== before);
}

test('the zoom stands in the address; Back and a new page show the same', async () => {
  const { url } = await served(recorded(CALLS));
  const { page, errors } = await opened(url);
  expect(page.url()).not.toContain('zoom');
  for (const key of ['w', 'w', 'w', 'd', 'd']) await page.keyboard.press(key);
  const [from, to] = await zoomIn(page);
  expect(from).toBeGreaterThan(FIRST);
  expect(to).toBeLessThan(FIRST + 500n * MS);
  const text = await shownTime(page);
  const address = page.url();

  await page.keyboard.press('4');
  await page.waitForSelector('text=Recordings');
  expect(page.url()).not.toContain('zoom');
  await page.goBack();
  await page.waitForSelector('.minimap');
  expect([page.url(), await shownTime(page)]).toEqual([address, text]);

  const other = await newPage({ viewport: { width: 1280, height: 800 } });
  await other.page.goto(address);
  await other.page.waitForSelector('.minimap');
  expect(await shownTime(other.page)).toBe(text);

  await page.keyboard.press('f');
  await page.waitForURL((now) => !now.hash.includes('zoom'));
  expect(errors).toEqual([]);
});

test('the part in view is dragged, by its edges and as a whole', async () => {
  const { url } = await served(recorded(CALLS));
  const { page } = await opened(url);
  const whole = 530n * MS;
  await drag(page, 0.999, 0.5);
  const [from, to] = await zoomIn(page);
  expect(Number(to - from) / Number(whole)).toBeCloseTo(0.5, 1);
  await drag(page, 0.001, 0.25);
  const [later] = await zoomIn(page);
  expect(Number(later - from) / Number(whole)).toBeCloseTo(0.25, 1);
  await drag(page, 0.375, 0.575);
  const [moved, end] = await zoomIn(page);
  expect(Number(moved - later) / Number(whole)).toBeCloseTo(0.2, 1);
  expect(Number(end - to) / Number(whole)).toBeCloseTo(0.2, 1);
  // A press beside the part brings it there.
  await drag(page, 0.9, 0.9);
  const [last] = await zoomIn(page);
  expect(last).toBeGreaterThan(moved);
});

test('a zoom of another time is not applied, and one of the largest times breaks nothing', async () => {
  const { url } = await served(recorded(CALLS));
  for (const zoom of ['&zoom_from=1&zoom_to=2', `&zoom_from=${2n ** 63n - 2n}&zoom_to=${2n ** 63n - 1n}`]) {
    const { page, errors } = await opened(url, zoom);
    expect(await shownTime(page)).toMatch(/from -15\.0 ms to 5\d\d\.\d ms$/);
    await page.close();
    expect(errors).toEqual([]);
  }
});

test('what is written back later is folded after a break, until it is asked for', async () => {
  const { url } = await served(recorded([...CALLS, ...LATER]));
  const { page } = await opened(url);
  expect(await shownTime(page)).toMatch(/to 51\d\.\d ms$/);
  const note = await page.textContent('.picture');
  expect(note).toContain('3 requests wrote its data back, up to 27.9 s later');
  // The requests are seen in the folded part, and selected there.
  const box = (await page.locator('.moving').boundingBox())!;
  const found = await selectedFrom(page, box.x + box.width - 72, box.x + box.width);
  expect(found).toContain('origin');
  expect(await shownTime(page)).toMatch(/to 51\d\.\d ms$/);
  await page.keyboard.press('Escape');

  await page.click('text=Show write-back to scale');
  const [, to] = await zoomIn(page);
  expect(to).toBeGreaterThan(FIRST + 28_000n * MS);
  const other = await opened(url, `&${page.url().split('&').slice(3).join('&')}`);
  expect(await shownTime(other.page)).toBe(await shownTime(page));
  expect(await other.page.getAttribute('button:has-text("Show write-back")', 'aria-pressed')).toBe('true');
  await page.click('text=Show write-back to scale');
  await page.waitForURL((now) => !now.hash.includes('zoom'));

  await page.keyboard.press('v');
  await page.waitForSelector('.rows');
  expect(await page.getAttribute('table', 'aria-rowcount')).toBe('504');
});

/** Presses along the rows of the picture until an event is selected, and returns what is said of it. */
async function selectedFrom(page: Page, fromX: number, toX: number): Promise<string> {
  const box = (await page.locator('.moving').boundingBox())!;
  for (let y = 30; y < box.height; y += 12)
    for (let x = fromX + 2; x < toX; x += 5) {
      await page.mouse.click(x, box.y + y);
      if ((await page.locator('.detail').count()) > 0) return (await page.textContent('.detail'))!;
    }
  return '';
}

test('lanes without events in view are thin lines, unless all are asked for', async () => {
  const { url } = await served(recorded(CALLS));
  const { page } = await opened(url);
  const height = async () => (await page.locator('.moving').boundingBox())!.height;
  const full = await height();
  await drag(page, 0.999, 0.3);
  await zoomIn(page);
  const folded = await height();
  expect(folded).toBeLessThan(full);
  await page.click('text=show all lanes');
  expect(await height()).toBe(full);
  await page.click('text=show all lanes');
  expect(await height()).toBe(folded);
});
