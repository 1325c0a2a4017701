/** What is recorded now, as the page follows it: rates, the map, the newest rows, losses, and what it cannot follow. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { openWriter, type RecordingWriter } from '../../agent/recording/write/writer.ts';
import { REORDER_NS, TAILS_MAX } from '../../daemon/tail/tails.ts';
import { appendRows, newFolder, type Row, recordingPath } from '../daemon/recorded.ts';
import { type Served, served } from '../daemon/served.ts';
import { tail } from '../daemon/tail/tailed.ts';
import { expectReadable, violations } from './axe.ts';
import { newPage } from './browser.ts';

const LIVE = '/#v=1&view=live';
const nowNs = () => BigInt(Date.now()) * 1_000_000n;

interface Recorded {
  daemon: Served;
  writer: RecordingWriter;
  /** Records events that end now, and lets the daemon send them. */
  record(...rows: Partial<Row>[]): void;
}

const writers: RecordingWriter[] = [];
let clocks: NodeJS.Timeout[] = [];
afterEach(() => {
  for (const writer of writers.splice(0)) writer.close();
  clocks.forEach(clearInterval);
  clocks = [];
});

/** A daemon on a recording that is being written, by the wall clock. */
async function recording(): Promise<Recorded> {
  const folder = newFolder();
  const origin = { node: 'web-1', bootId: 'boot', machineId: 'machine' };
  const writer = openWriter({ path: recordingPath(folder), ...origin, nowNs, retention: { bytes: 1 << 30 } });
  writers.push(writer);
  const daemon = await served(folder);
  clocks.push(setInterval(() => daemon.setNow(nowNs() + REORDER_NS), 10));
  const record = (...rows: Partial<Row>[]) => {
    const endNs = nowNs();
    appendRows(
      writer,
      rows.map((row, i) => {
        const duration = row.duration ?? 1_000_000n;
        return { requested: 64n, ...row, duration, at: endNs - duration + BigInt(i) } as Row;
      }),
    );
  };
  return { daemon, writer, record };
}

const following = (page: Page) => page.waitForSelector('text=following');

/** The cells of the newest rows, without marks. */
const rowsOf = (page: Page) =>
  page.$$eval('[aria-label="The newest events"] tbody tr[aria-rowindex]', (rows) =>
    rows.map((row) => [...row.children].map(({ textContent }) => textContent ?? '')),
  );

test('events come as rows with all digits and as cells of the map, and failures are counted', async () => {
  const { daemon, record } = await recording();
  const { page, errors, requested } = await newPage();
  await page.goto(daemon.url + LIVE);
  await following(page);
  record({ duration: 123_456_789n, file: '/srv/a' }, { result: -28n, file: '/srv/b', requested: 2n ** 53n + 1n });
  await page.waitForSelector('td:has-text("ENOSPC")');
  const rows = await rowsOf(page);
  expect(rows.map((cells) => cells[2])).toEqual(['1 ms', '123.456789 ms']);
  expect(rows[0]).toContain('9 007 199 254 740 993 B');
  await page.waitForSelector('h1:has-text("of 2 that began in it 1 failed, and the longest took 123.5 ms")');
  await page.keyboard.press('v');
  await page.waitForURL(/table=1/);
  await page.waitForSelector('[aria-label*="second by second"] tr:has-text("✕ 1")');
  const seconds = await page.$$eval('[aria-label*="second by second"] tbody tr[aria-rowindex]', (lines) =>
    lines.map((line) => Number(line.children[1]!.textContent)),
  );
  expect(seconds.reduce((sum, count) => sum + count, 0)).toBe(2);
  expect(errors).toEqual([]);
  expect(requested.filter((address) => new URL(address).origin !== daemon.url)).toEqual([]);
});

test('rows stand still under the pointer and under the focus, and the new ones are counted', async () => {
  const { daemon, record } = await recording();
  const { page } = await newPage();
  await page.goto(daemon.url + LIVE);
  await following(page);
  record({ file: '/srv/first' });
  await page.waitForSelector('td:has-text("/srv/first")');
  await page.hover('[aria-label="The newest events"]');
  record(...Array.from({ length: 12 }, (_, i) => ({ file: `/srv/later-${i}` })));
  await page.waitForSelector('text=12 new rows');
  expect((await rowsOf(page)).map((cells) => cells[4])).toEqual(['/srv/first']);
  await page.hover('h1');
  await page.waitForSelector('td:has-text("/srv/later-11")');
  expect((await rowsOf(page))[0]![4]).toBe('/srv/later-11');
  await page.focus('[aria-label="The newest events"]');
  record({ file: '/srv/last' });
  await page.waitForSelector('text=1 new row:');
  expect((await rowsOf(page))[0]![4]).toBe('/srv/later-11');
  await page.focus('header button');
  await page.waitForSelector('td:has-text("/srv/last")');
});

test('what is paused goes on without a gap, says how far it is behind, and can jump', async () => {
  const { daemon, record } = await recording();
  const { page } = await newPage();
  await page.goto(daemon.url + LIVE);
  await following(page);
  record({ file: '/srv/0' });
  await page.waitForSelector('td:has-text("/srv/0")');
  await page.keyboard.press('Space');
  await page.waitForSelector('text=paused: the daemon keeps');
  record({ file: '/srv/1' });
  await timePasses(page, 3000);
  await page.waitForSelector('text=/[34]\\.00 s behind/');
  expect(await rowsOf(page)).toHaveLength(1);
  await page.keyboard.press('Space');
  await page.waitForSelector('td:has-text("/srv/1")');
  expect((await rowsOf(page)).map((cells) => cells[4])).toEqual(['/srv/1', '/srv/0']);
  await page.waitForSelector('text=/s behind/', { state: 'detached' });

  await page.keyboard.press('Space');
  await page.waitForSelector('text=paused: the daemon keeps');
  record({ file: '/srv/2' });
  await page.click('text=Jump to now');
  await following(page);
  record({ file: '/srv/3' });
  await page.waitForSelector('td:has-text("/srv/3")');
  const rows = await rowsOf(page);
  expect(rows.map((cells) => cells[4] ?? cells[0])).toEqual([
    '/srv/3',
    expect.stringMatching(/left out: jumped to now$/),
    ...['/srv/1', '/srv/0'],
  ]);
});

/** Lets the page believe that some milliseconds have passed. */
const timePasses = (page: Page, ms: number) =>
  page.evaluate(`(() => {
    const now = performance.now.bind(performance);
    performance.now = () => now() + ${ms};
  })()`);

test.each(['pause', 'cut', 'refusal'])(
  'what is said of the last minute stands still after a %s, as nothing is known of what comes',
  async (stop) => {
    const { daemon, record } = await recording();
    const { page } = await newPage({ colorScheme: 'light' });
    await page.goto(daemon.url + LIVE);
    await following(page);
    record({ file: '/srv/0', result: -5n }, { file: '/srv/1' });
    // A whole second has passed since the stream began.
    await page.waitForSelector(
      'h1:text-matches(", [0-9.]*[1-9][0-9.]* a second over the minute: of 2 that began in it 1 failed")',
    );
    if (stop === 'pause') await page.keyboard.press('Space');
    else {
      const problem = { code: 'forbidden', detail: 'not for this token' };
      await page.route('**/api/events*', (route) =>
        stop === 'cut' ? route.abort() : route.fulfill({ status: 403, json: problem }),
      );
      await hide(page, true);
      await hide(page, false);
    }
    await page.waitForSelector(stop === 'pause' ? 'text=paused: the daemon keeps' : 'text=not connected');
    await timePasses(page, 65_000);
    await page.waitForSelector('text=/1 min \\d+ s behind/');
    const sentence = await page.textContent('h1');
    expect(sentence).toMatch(/^As of [0-9:]{8} UTC, .* of 2 that began in it 1 failed/);
    expect(sentence).not.toContain(', 0 a second');
    expect(await page.locator('text=Jump to now').count()).toBe(stop === 'pause' ? 1 : 0);
    expect(Number(await page.evaluate(REDS_IN_MAP))).toBeGreaterThan(0);
    await page.keyboard.press('v');
    await page.waitForSelector('[aria-label*="second by second"] tr:has-text("✕ 1")');
    await page.keyboard.press('v');
    await page.waitForSelector('.map canvas');
    await page.waitForTimeout(300);
    expect(Number(await page.evaluate(REDS_IN_MAP))).toBeGreaterThan(0);

    await page.unroute('**/api/events*');
    if (stop === 'pause') await page.keyboard.press('Space');
    if (stop === 'refusal') await page.click('text=Ask again');
    await following(page);
    record({ file: '/srv/2' });
    await page.waitForSelector('td:has-text("/srv/2")');
    expect((await rowsOf(page)).map((cells) => cells[4])).toEqual(['/srv/2', '/srv/1', '/srv/0']);
    await page.waitForSelector('h1:text-matches("^[0-9]")');
  },
);

test('a loss is a hatched row with count and cause, and an event that comes late has a mark', async () => {
  const { daemon, writer, record } = await recording();
  const { page } = await newPage({ colorScheme: 'light' });
  await page.goto(daemon.url + LIVE);
  await following(page);
  record({ file: '/srv/now' });
  await page.waitForSelector('td:has-text("/srv/now")');
  const endNs = nowNs();
  writer.recordLoss({
    ...{ cause: 'ring_full', eventType: 'sys_write', count: 12 },
    ...{ fromNs: endNs - 5_000_000_000n, toNs: endNs - 3_000_000_000n },
  });
  writer.flush();
  record({ file: '/srv/long', duration: 4_000_000_000n });
  await page.waitForSelector('tr.late:has-text("◷ late")');
  await page.waitForSelector('tr.lost:has-text("at least 12 events not recorded on web-1")');
  expect(await page.textContent('tr.lost')).toContain('the agent did not drain the ring buffer in time');
  await page.waitForSelector('text=At least 12 events were not recorded');
  expect(await page.textContent('h1')).toContain('of at least 2 that began in it none recorded failed');
  // The map is drawn a little later than the sentence.
  while (Number(await page.evaluate(REDS_IN_MAP)) <= 500) await page.waitForTimeout(20);
  await page.keyboard.press('v');
  await page.waitForSelector('[aria-label*="second by second"] tr.lost:has-text("▲ not all")');
  expect(await violations(page)).toEqual([]);
});

/** Pixels of the map in the colour of errors and losses. */
const REDS_IN_MAP = `(() => {
  const map = document.querySelector('.map canvas');
  const { data } = map.getContext('2d').getImageData(0, 0, map.width, map.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) if (data[at] === 0xb3 && data[at + 1] === 0x26) count++;
  return count;
})()`;

test('no match is said with what each filter leaves out, and no agent with how to start one', async () => {
  const { daemon, writer, record } = await recording();
  record({ service: 'shop' }, { service: 'shop' });
  const { page } = await newPage();
  await page.goto(`${daemon.url}${LIVE}&service=pay`);
  await page.waitForSelector('h1:has-text("No event has arrived yet.")');
  await page.waitForSelector('text=Without service pay 2 events of the last minute match.');
  const followed = page.waitForResponse((one) => one.headers()['content-type']!.startsWith('text/event-stream'));
  await page.click('text=Drop it');
  await page.waitForSelector('text=An agent is recording');
  // The new stream sends only events that end once it has begun.
  await followed;
  record({ service: 'shop' });
  await page.waitForSelector('td:has-text("shop")');
  writers.splice(0);
  writer.close();
  await page.goto(`${daemon.url}${LIVE}&service=none`);
  await page.waitForSelector('text=No agent is recording now.');
});

test('refusals are said: too many tails, and a parameter that the daemon does not know', async () => {
  const { daemon, record } = await recording();
  const others = await Promise.all(Array.from({ length: TAILS_MAX }, () => tail(daemon)));
  const { page } = await newPage();
  await page.goto(daemon.url + LIVE);
  await page.waitForSelector('text=close another tab or a kreplay tail');
  for (const other of others) await other.leave();
  await following(page);
  record({ file: '/srv/after' });
  await page.waitForSelector('td:has-text("/srv/after")');
  await page.goto(`${daemon.url}${LIVE}&event_type=sys_nothing`);
  await page.waitForSelector('[role=alert]:has-text("event_type")');
  await page.waitForSelector('text=not connected');
});

test('a tab that is hidden reads nothing, and goes on without a gap when it is shown', async () => {
  const { daemon, record } = await recording();
  const { page } = await newPage();
  await page.goto(daemon.url + LIVE);
  await following(page);
  record({ file: '/srv/0' });
  await page.waitForSelector('td:has-text("/srv/0")');
  await hide(page, true);
  while (daemon.tailCount() > 0) await sleep(20);
  record({ file: '/srv/1' });
  await hide(page, false);
  await page.waitForSelector('td:has-text("/srv/1")');
  expect((await rowsOf(page)).map((cells) => cells[4])).toEqual(['/srv/1', '/srv/0']);
});

/** Headless Chromium shows every tab: the page is made to believe otherwise. */
const hide = (page: Page, isHidden: boolean) =>
  page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'))`);

test('six tabs follow at once, and none of them hangs', async () => {
  const { daemon, record } = await recording();
  const { page } = await newPage();
  const tabs: Page[] = [page];
  while (tabs.length < 6) tabs.push(await page.context().newPage());
  await Promise.all(
    tabs.map(async (tab) => {
      await tab.goto(daemon.url + LIVE);
      await tab.waitForSelector('text=/^following/');
    }),
  );
  const inTurns = await Promise.all(tabs.map((tab) => tab.locator('text=following in turns').count()));
  expect(inTurns).toContain(1);
  record({ file: '/srv/all' });
  await Promise.all(tabs.map((tab) => tab.waitForSelector('td:has-text("/srv/all")')));
  await sleep(1500);
  for (const tab of tabs) expect(await rowsOf(tab)).toHaveLength(1);
});

const HOSTILE = ['<img src=x onerror=document.title=1>', '"timestamp_ns":1,"duration_ns":2', '\u202egnp.exe', '🙂"\'&'];

test('names are text, and none of them looks like a field of its event', async () => {
  const { daemon, record } = await recording();
  const { page, errors } = await newPage();
  await page.goto(daemon.url + LIVE);
  await following(page);
  record(...HOSTILE.map((name) => ({ file: `/${name}`, service: name, transaction: name, duration: 5_000_000n })));
  await page.waitForSelector('h1:has-text("of 4 that began in it none failed, and the longest took 5.00 ms")');
  const text = JSON.stringify(await rowsOf(page));
  expect(text).toContain('<img src=x onerror=document.title=1>');
  expect(text).toContain('\\\\u{202e}gnp.exe');
  expect(await page.title()).toMatch(/^\w+ · kreplay$/);
  expect(errors).toEqual([]);
});

test('axe finds nothing and nothing is cut off: in both themes, with forced colours, and when narrow', async () => {
  const { daemon, record } = await recording();
  const { page } = await newPage({ colorScheme: 'light' });
  await page.goto(daemon.url + LIVE);
  await following(page);
  record({ transaction: 'order-1', result: -5n }, {});
  await page.waitForSelector('td:has-text("order-1")');
  await expectReadable(page);
  await page.focus('.map canvas');
  await page.keyboard.press('ArrowLeft');
  await page.waitForSelector('text=/0 events of .* begun at/');
  await page.keyboard.press('v');
  await page.waitForSelector('[aria-label*="second by second"]');
  await expectReadable(page);
});

test('a view that is left while a picture of its map is due breaks nothing', async () => {
  const { daemon, record } = await recording();
  const { page, errors } = await newPage();
  await page.goto(daemon.url + LIVE);
  await following(page);
  record({});
  await page.waitForSelector('[aria-label="The newest events"] td');
  // Frames are asked for by the map ten times a second, and by the text less often.
  for (let i = 0; i < 4; i++) {
    await page.evaluate(`new Promise((resolve) => {
      const request = requestAnimationFrame;
      const leave = () => {
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '4', code: 'Digit4', bubbles: true }));
        request(() => request(resolve));
      };
      requestAnimationFrame = (draw) => {
        requestAnimationFrame = request;
        queueMicrotask(leave);
        return request(draw);
      };
    })`);
    await page.waitForSelector('text=Recordings');
    await page.keyboard.press('2');
    await following(page);
  }
  expect(errors).toEqual([]);
});
