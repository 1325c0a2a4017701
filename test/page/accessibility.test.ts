/** The page under axe, by keyboard alone, on a narrow screen, and with preferences of the system. */
import type { Page } from 'playwright-core';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import { exampleRecording } from '../daemon/example_recording.ts';
import { served } from '../daemon/served.ts';
import { PLANTED, recordMade } from '../daemon/sums/planted.ts';
import { violations } from './axe.ts';
import { newPage } from './browser.ts';

const BROWSER_MS = 120_000;
test.each(['light', 'dark'] as const)(
  'axe finds nothing in any view, %s',
  async (colorScheme) => {
    const { url } = await served(exampleRecording());
    const { page } = await newPage({ colorScheme });
    await page.goto(url);
    await page.waitForSelector('table');
    expect(await violations(page)).toEqual([]);
    await page.click('text=Open');
    await page.waitForSelector('.moving');
    await page.keyboard.press('ArrowRight');
    await page.waitForSelector('.detail');
    await page.keyboard.press('Period');
    await page.waitForSelector('.figures');
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press('v');
    await page.waitForSelector('tr.selected');
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press('4');
    await page.waitForSelector('text=Recordings');
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press('Shift+Slash');
    await page.waitForSelector('dialog[open]');
    expect(await violations(page)).toEqual([]);
  },
  BROWSER_MS,
);

test.each(['light', 'dark'] as const)(
  'axe finds nothing in an overview with a map, a box and its table, %s',
  async (colorScheme) => {
    const { plant } = PLANTED.find(({ name }) => name === 'a device of one node')!;
    const { url } = await served(openRecordingStore(undefined, recordMade(1000, 3, plant)));
    const { page } = await newPage({ colorScheme });
    await page.goto(url);
    await page.waitForSelector('.differences li');
    expect(await violations(page)).toEqual([]);
    await page.focus('canvas.map');
    await page.keyboard.press('Shift+ArrowDown');
    await page.waitForSelector('h1:has-text("in the box")');
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press('v');
    await page.waitForSelector('.rows td');
    expect(await violations(page)).toEqual([]);
  },
  BROWSER_MS,
);

test(
  'what sets the slowest apart is read and kept by keyboard alone',
  async () => {
    const { plant } = PLANTED.find(({ name }) => name === 'a node')!;
    const { url } = await served(openRecordingStore(undefined, recordMade(1000, 3, plant)));
    const { page } = await newPage();
    await page.goto(url);
    await page.waitForSelector('h1:has-text("of them were on node n2")');
    const keep = () => page.evaluate('document.activeElement?.getAttribute("aria-label")');
    for (let i = 0; i < 30 && (await keep()) !== 'Keep node n2'; i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.waitForURL(/node=n2/);
  },
  BROWSER_MS,
);

test(
  'a transaction is found, opened, looked at and played by keyboard alone',
  async () => {
    const { url } = await served(exampleRecording());
    const { page } = await newPage({ reducedMotion: 'reduce' });
    await page.goto(url);
    await page.waitForSelector('h1 button');
    for (let i = 0; i < 20 && (await focused(page)) !== 'Open'; i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.moving');
    await page.keyboard.press('ArrowRight');
    await page.waitForSelector('.detail');
    await page.keyboard.press('Period');
    await page.waitForSelector('text=/paused, event 1 of /');
    await page.keyboard.press('Escape');
    await page.waitForSelector('.detail', { state: 'detached' });
  },
  BROWSER_MS,
);

const focused = (page: Page) => page.evaluate('document.activeElement?.textContent?.trim()');

test.each([
  ['a phone', { viewport: { width: 320, height: 640 } }],
  ['200 % zoom', { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 }],
  ['forced colours', { forcedColors: 'active' as const }],
])(
  'nothing is cut off at the side on %s',
  async (_, options) => {
    const { url } = await served(exampleRecording());
    const { page, errors } = await newPage(options);
    for (const view of ['', '#v=1&view=lanes&transaction=order-1', '#v=1&view=health']) {
      await page.goto(`${url}/${view}`);
      await page.waitForSelector('h1');
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    }
    const { plant } = PLANTED.find(({ name }) => name === 'a folder with a file for each')!;
    const { url: other } = await served(openRecordingStore(undefined, recordMade(1000, 3, plant)));
    for (const table of ['', '#v=1&table=1']) {
      await page.goto(`${other}/${table}`);
      await page.waitForSelector('.differences li');
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    }
    expect(errors).toEqual([]);
  },
  BROWSER_MS,
);

test(
  'keys are off while they are switched off, and while the user types',
  async () => {
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
  },
  BROWSER_MS,
);
