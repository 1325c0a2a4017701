/** The page under axe, by keyboard alone, on a narrow screen, and with preferences of the system. */
import type { Page } from 'playwright-core';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import { exampleRecording } from '../daemon/example_recording.ts';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { PLANTED, recordMade } from '../daemon/sums/differences/planted.ts';
import { expectReadable } from './axe.ts';
import { newPage } from './browser.ts';

test('in any view axe finds nothing and nothing is cut off: in both themes, with forced colours, and when narrow', async () => {
  const { url } = await served(exampleRecording());
  const { page, errors } = await newPage({ colorScheme: 'light' });
  await page.goto(url);
  await page.waitForSelector('table');
  await expectReadable(page);
  await page.click('text=Open');
  await page.waitForSelector('.moving');
  await page.keyboard.press('ArrowRight');
  await page.waitForSelector('.detail');
  await page.keyboard.press('Period');
  await page.waitForSelector('.figures');
  await expectReadable(page);
  await page.keyboard.press('v');
  await page.waitForSelector('tr.selected');
  await expectReadable(page);
  await page.keyboard.press('4');
  await page.waitForSelector('text=Recordings');
  await expectReadable(page);
  await page.keyboard.press('Shift+Slash');
  await page.waitForSelector('dialog[open]');
  await expectReadable(page);
  expect(errors).toEqual([]);
});

test('so it is in an overview with a map, a box, long names and its table', async () => {
  const { plant } = PLANTED.find(({ name }) => name === 'a folder with a file for each')!;
  const { url } = await served(openRecordingStore(undefined, recordMade(300, 3, plant)));
  const { page, errors } = await newPage({ colorScheme: 'light' });
  await page.goto(url);
  await page.waitForSelector('.differences li');
  await expectReadable(page);
  await page.focus('canvas.map');
  await page.keyboard.press('Shift+ArrowDown');
  await page.waitForSelector('h1:has-text("in the box")');
  await expectReadable(page);
  await page.keyboard.press('v');
  await page.waitForSelector('.rows td');
  await expectReadable(page);
  expect(errors).toEqual([]);
});

test('what sets the slowest apart is read and kept by keyboard alone', async () => {
  const { plant } = PLANTED.find(({ name }) => name === 'a node')!;
  const { url } = await served(openRecordingStore(undefined, recordMade(300, 3, plant)));
  const { page } = await newPage();
  await page.goto(url);
  await page.waitForSelector('h1:has-text("of them were on node n2")');
  const keep = () => page.evaluate('document.activeElement?.getAttribute("aria-label")');
  for (let i = 0; i < 30 && (await keep()) !== 'Keep node n2'; i++) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForURL(/node=n2/);
});

test('a transaction is found, opened, looked at and played by keyboard alone', async () => {
  const { url } = await served(exampleRecording());
  const { page } = await newPage({ reducedMotion: 'reduce' });
  await page.goto(url);
  await page.waitForSelector('h1 a');
  for (let i = 0; i < 20 && (await focused(page)) !== 'Open'; i++) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.moving');
  const sentence = await page.textContent('h1');
  await page.waitForSelector(`[aria-live]:has-text(${JSON.stringify(sentence)})`, { state: 'attached' });
  expect(await page.title()).toBe(`${sentence} · kreplay`);
  await page.keyboard.press('ArrowRight');
  await page.waitForSelector('.detail');
  await page.keyboard.press('Period');
  await page.waitForSelector('text=/paused, event 1 of /');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.detail', { state: 'detached' });
});

test('events of the table are selected by keyboard, each of them, from the row in sight on', async () => {
  const calls = Array.from({ length: 10_050 }, (_, i): Row => {
    return { at: START - 60_000_000_000n + BigInt(i) * 1000n, duration: 900n, transaction: 'order-1' };
  });
  const { url } = await served(recorded(calls));
  const { page } = await newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(`${url}/#v=1&view=lanes&transaction=order-1&table=1`);
  await page.waitForSelector('[aria-rowcount="10051"]');
  const selected = () => page.getAttribute('tr.selected', 'aria-rowindex');
  const press = async (key: string, row: number) => {
    await page.keyboard.press(key);
    await page.waitForSelector(`tr.selected[aria-rowindex="${row}"]`);
  };
  await press('ArrowRight', 2);
  await page.waitForSelector('.detail:has-text("+0 ms")');
  await press('ArrowRight', 3);
  await press('ArrowLeft', 2);
  await page.keyboard.press('ArrowLeft');
  expect(await selected()).toBe('2');

  await page.focus('.rows');
  await press('ArrowDown', 3);
  for (let row = 4; row < 40; row++) await press('ArrowDown', row);
  await press('ArrowUp', 38);
  const [table, row] = [await boxOf(page, '.rows'), await boxOf(page, 'tr.selected')];
  expect(row.y).toBeGreaterThan(table.y);
  expect(row.y + row.height).toBeLessThan(table.y + table.height);
  // The other way it scrolls, so that all columns can be read.
  await page.keyboard.press('ArrowRight');
  while ((await page.evaluate("document.querySelector('.rows').scrollLeft")) === 0) await page.waitForTimeout(20);
  expect(await selected()).toBe('38');

  for (let i = 0; i < 20 && (await focused(page)) !== 'After'; i++) await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=rows 10 001 to 10 050');
  await press('ArrowRight', 10_002);
  await press('ArrowLeft', 10_001);
  await page.waitForSelector('text=rows 1 to 10 000');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.detail', { state: 'detached' });
});

const boxOf = async (page: Page, selector: string) => (await page.locator(selector).boundingBox())!;
const focused = (page: Page) => page.evaluate('document.activeElement?.textContent?.trim()');

/** What has the focus, if it is not in view, or something lies over it; the canvas and the whole page are not asked. */
const HIDDEN_FOCUS = `(() => {
  const { activeElement } = document;
  if (activeElement === document.body || activeElement.matches('canvas')) return null;
  const { left, top, width, height } = activeElement.getBoundingClientRect();
  const seen = document.elementFromPoint(left + width / 2, top + height / 2);
  const isSeen = seen !== null && (activeElement.contains(seen) || seen.contains(activeElement));
  return isSeen ? null : activeElement.outerHTML;
})()`;

test('what has the focus is never below the replay bar: in a small window, at 400 % zoom, on a phone', async () => {
  const { url } = await served(exampleRecording());
  const { page } = await newPage();
  await page.goto(`${url}/#v=1&view=lanes&transaction=order-1`);
  await page.waitForSelector('.moving');
  await page.keyboard.press('Period');
  await page.waitForSelector('.figures');
  const hidden: unknown[] = [];
  for (const [width, height] of [
    [900, 500],
    [320, 256],
    [320, 640],
  ] as const) {
    await page.setViewportSize({ width, height });
    for (const key of ['Tab', 'Shift+Tab'])
      for (let i = 0; i < 40; i++) {
        await page.keyboard.press(key);
        const found = await page.evaluate(HIDDEN_FOCUS);
        if (found !== null) hidden.push(`${width}x${height}: ${found}`);
      }
  }
  expect(hidden).toEqual([]);
});

test('keys are off while they are switched off, and while the user types', async () => {
  const { url } = await served(exampleRecording());
  const { page } = await newPage();
  await page.goto(url);
  await page.waitForSelector('table');
  await page.keyboard.press('Shift+Slash');
  await page.uncheck('dialog input[type=checkbox]');
  await page.click('dialog button');
  await page.keyboard.press('4');
  await page.waitForTimeout(100);
  expect(page.url()).not.toContain('health');
  await page.click('header button:has-text("?")');
  await page.check('dialog input[type=checkbox]');
  await page.click('dialog button');
  await page.keyboard.press('4');
  await page.waitForURL(/health/);
});
