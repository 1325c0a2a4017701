/** The overview in a browser: sentence, map, box, differences, lists, and what fails of them. */
import type { CDPSession, Page } from 'playwright-core';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { EVERY_NS, FIRST_NS, PLANTED, type Plant, recordMade } from '../daemon/sums/differences/planted.ts';
import { newPage } from './browser.ts';

const COUNT = 1000;
const WINDOW = `from=${FIRST_NS}&to=${FIRST_NS + BigInt(COUNT) * EVERY_NS}`;
const files = new Map<string, string[]>();

/** Serves a recording with a planted cause, which is made once. */
async function planted(name: string) {
  const plant: Plant = PLANTED.find((one) => one.name === name)!.plant;
  const paths = files.get(name) ?? recordMade(COUNT, 5, plant);
  files.set(name, paths);
  const daemon = await served(openRecordingStore(undefined, paths));
  return { ...daemon, address: `${daemon.url}/#v=1&${WINDOW}` };
}

/** The cells of all rows of a table that has only the visible rows in the document. */
async function allRows(page: Page): Promise<string[][]> {
  const found = new Map<string, string[]>();
  const section = page.locator('.rows');
  const rowCount = Number(await page.getAttribute('.rows [aria-rowcount]', 'aria-rowcount')) - 1;
  const readHeight = () => section.evaluate(({ scrollHeight }) => scrollHeight);
  // The table may get higher as its rows are drawn, so the end is not where it was at first.
  for (let top = 0; found.size < rowCount; top = top > (await readHeight()) ? 0 : top + 400) {
    await section.evaluate(async (element, y) => {
      const nextFrame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const count = element.querySelector('[aria-rowcount]')!.getAttribute('aria-rowcount');
      // On a busy machine the rows come frames later than the event of the scroll.
      const isFilled = () => {
        const last = [...element.querySelectorAll('tbody tr[aria-rowindex]')].at(-1);
        const { bottom } = element.getBoundingClientRect();
        return last?.getAttribute('aria-rowindex') === count || (last?.getBoundingClientRect().bottom ?? 0) >= bottom;
      };
      element.scrollTo(0, y);
      await nextFrame();
      while (!isFilled()) await nextFrame();
    }, top);
    const seen = await page.$$eval('.rows tbody tr[aria-rowindex]', (rows) =>
      rows.map((row): [string, string[]] => [
        row.getAttribute('aria-rowindex')!,
        [...row.children].map(({ textContent }) => textContent!.replaceAll(' ', '')),
      ]),
    );
    for (const [index, cells] of seen) found.set(index, cells);
  }
  return [...found.values()];
}

const heading = (page: Page) => page.textContent('h1');
const opened = async (page: Page, address: string) => {
  await page.goto(address);
  await page.waitForSelector('h1:has-text("in the median")');
};
const parameters = (page: Page) => new URLSearchParams(new URL(page.url()).hash.slice(1));

/** Number of pixels of the map with this colour, within a part of it: shares of its width and height. */
function pixels(page: Page, hex: string, [left, top, right, bottom] = [0, 0, 1, 1]): Promise<number> {
  const rgb = [0, 2, 4].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  return page.evaluate(`(() => {
    const canvas = document.querySelector('canvas.map');
    const [x, y] = [Math.round(canvas.width * ${left}), Math.round(canvas.height * ${top})];
    const [w, h] = [Math.round(canvas.width * ${right}) - x, Math.round(canvas.height * ${bottom}) - y];
    const { data } = canvas.getContext('2d').getImageData(x, y, w, h);
    let count = 0;
    for (let i = 0; i < data.length; i += 4)
      if (Math.abs(data[i] - ${rgb[0]}) + Math.abs(data[i + 1] - ${rgb[1]}) + Math.abs(data[i + 2] - ${rgb[2]}) < 12 && data[i + 3] > 240) count++;
    return count;
  })()`) as Promise<number>;
}

test('the first sentence names a planted node, and Keep leaves only that', async () => {
  const { address } = await planted('a node');
  const { page, errors } = await newPage();
  await opened(page, address);
  expect(await heading(page)).toMatch(
    /^The slowest 3\.0 % \(30 of 1 000\) took [\d.]+ ms or more; the rest [\d.]+ ms in the median\. \d+ % of them were on node n2, of the rest \d+ %\./,
  );
  await page.click('button[aria-label="Keep node n2"]');
  await page.waitForURL(/node=n2/);
  await page.waitForSelector('h1:has-text("No difference outside noise")');
  expect(await page.textContent('.overview')).toContain('no difference: service, node,');
  expect(errors).toEqual([]);
});

test('a neighbour is named with the device that both used, and the slowest one opens', async () => {
  const { address } = await planted('a neighbour in the queue of a device');
  const { page } = await newPage();
  await opened(page, address);
  expect(await heading(page)).toMatch(
    /of them shared device sdb with backup, of the rest \d+ %\. Waiting in the queue of sdb is [\d.]+ ms of/,
  );
  const slowest = await page.textContent('table tbody tr:first-child th a');
  await page.click('text=Open');
  await page.waitForURL((url) => url.hash.includes(`transaction=${slowest}`));
});

test('failures are selected by a choice, and named', async () => {
  const { address } = await planted('an error');
  const { page } = await newPage();
  await opened(page, address);
  await page.click('label:has-text("failed,")');
  await page.waitForSelector('h1:has-text("failed with ENOSPC")');
  await page.waitForURL(/box_failed=1/);
  expect(await heading(page)).toMatch(/^(\d+) of 1 000 failed \(\d+ %\): they took/);
  await page.waitForSelector('.wide table tbody tr:first-child:has-text("✕")');
});

test('a box drawn by the pointer has what is beside it, and is asked when it rests', async () => {
  const { address, get } = await planted('a device');
  const { page } = await newPage();
  await opened(page, address);
  const { x, y, width, height } = (await page.locator('canvas.map').boundingBox())!;
  await page.mouse.move(x + width * 0.2, y + 10);
  await page.mouse.down();
  for (let step = 1; step <= 4; step++) {
    await page.mouse.move(x + width * (0.2 + step * 0.1), y + height * 0.15 * step);
    const shown = await page.textContent('.readout');
    expect(shown).toMatch(/^\d+ in the box/);
  }
  await page.waitForURL(/box_min=/);
  await page.waitForSelector('h1:has-text("are in the box")');
  const countIn = async () => {
    const [from, to, min, max] = ['box_from', 'box_to', 'box_min', 'box_max'].map((name) => parameters(page).get(name));
    const box = `from=${from}&to=${to}&min_duration_ms=${Number(min) / 1e6}${max ? `&max_duration_ms=${Number(max) / 1e6}` : ''}`;
    return (await get(`/api/heatmap?columns=1&${box}`)).json.total.count;
  };
  const shownCounts = async () => [
    Number.parseInt((await page.textContent('.readout'))!, 10),
    Number.parseInt((await heading(page))!, 10),
  ];
  let count = await countIn();
  // On a busy machine the pointer has rested on its way, and that box was asked for first.
  for (let tries = 0; tries < 50 && (await shownCounts()).some((shown) => shown !== count); tries++) {
    await page.waitForTimeout(100);
    count = await countIn();
  }
  expect(await shownCounts()).toEqual([count, count]);
  expect(await heading(page)).toMatch(/^\d+ of 1 000 are in the box/);
  await page.mouse.up();
  // The list comes from another answer than the sentence.
  while ((await page.locator('.wide table tbody tr').count()) !== Math.min(count, 50)) await page.waitForTimeout(20);

  const other = await newPage();
  await opened(other.page, page.url());
  expect(await heading(other.page)).toBe(await heading(page));
});

test('a finger draws a box sideways', async () => {
  const { address } = await planted('a device');
  const { page } = await newPage({ hasTouch: true, isMobile: true, viewport: { width: 390, height: 800 } });
  await opened(page, address);
  await page.locator('canvas.map').scrollIntoViewIfNeeded();
  const { x, y } = (await page.locator('canvas.map').boundingBox())!;
  const session = await page.context().newCDPSession(page);
  await touch(session, 'touchStart', x + 100, y + 40);
  for (let step = 1; step <= 8; step++) await touch(session, 'touchMove', x + 100 + step * 20, y + 40 + step * 8);
  await touch(session, 'touchEnd');
  await page.waitForSelector('h1:has-text("in the box")');
});

async function touch(session: CDPSession, type: 'touchStart' | 'touchMove' | 'touchEnd', x?: number, y?: number) {
  const touchPoints = x === undefined || y === undefined ? [] : [{ x, y }];
  await session.send('Input.dispatchTouchEvent', { type, touchPoints });
}

test('keys move and resize the box, and Escape returns to the slowest', async () => {
  const { address } = await planted('a device');
  const { page } = await newPage();
  await opened(page, address);
  const first = await heading(page);
  await page.focus('canvas.map');
  for (let i = 0; i < 10; i++) await page.keyboard.press('Shift+ArrowLeft');
  await page.keyboard.press('Shift+ArrowDown');
  await page.waitForSelector('h1:has-text("in the box")');
  await page.waitForURL(/box_to=/);
  const before = BigInt(parameters(page).get('box_from')!);
  expect(await page.getAttribute('canvas.map', 'aria-label')).toContain('the box has');
  await page.keyboard.press('ArrowRight');
  await page.waitForURL(new RegExp(`box_from=(?!${before})`));
  const column = BigInt(parameters(page).get('box_from')!) - before;
  expect(column > 0n && column < 100_000_000n).toBe(true);
  await page.keyboard.press('Escape');
  await page.waitForURL((url) => !url.hash.includes('box_'));
  await page.waitForSelector('h1:has-text("The slowest 3.0 %")');
  expect(await heading(page)).toBe(first);
});

test('the answer of the last box stays, whichever comes last', async () => {
  const { address } = await planted('a device');
  const { page } = await newPage();
  await opened(page, address);
  let isFirst = true;
  await page.route('**/api/differences*', async (route) => {
    const isLate = isFirst;
    isFirst = false;
    if (isLate) await new Promise((resolve) => setTimeout(resolve, 1000));
    // The page has given up the first one.
    await route.continue().catch(() => {});
  });
  await page.focus('canvas.map');
  for (let i = 0; i < 10; i++) await page.keyboard.press('Shift+ArrowLeft');
  await page.waitForURL(/box_to=/);
  await page.keyboard.press('Escape');
  await page.waitForSelector('h1:has-text("The slowest 3.0 %")');
  await page.waitForTimeout(1500);
  expect(await heading(page)).toMatch(/^The slowest 3\.0 %/);
});

describe('failures', () => {
  const busy = '{"code":"busy","detail":"too many long requests at once"}';
  const refuse = (page: Page, what: string) =>
    page.route(what, (route) =>
      route.fulfill({
        status: 503,
        contentType: 'application/problem+json',
        headers: { 'Retry-After': '1' },
        body: busy,
      }),
    );

  test('of the comparison leaves map and list, and is asked again', async () => {
    const { address } = await planted('a device');
    const { page } = await newPage();
    await refuse(page, '**/api/differences*');
    await page.goto(address);
    await page.waitForSelector('text=too many long requests at once');
    expect(await heading(page)).toMatch(/^The slowest of 1 000 transactions took [\d.]+ ms or more\.$/);
    expect(await page.$$('canvas.map')).toHaveLength(1);
    expect(await page.$$('.wide table tbody tr')).toHaveLength(30);
    await page.unroute('**/api/differences*');
    await page.click('button:has-text("Ask again")');
    await page.waitForSelector('h1:has-text("used device sdb")');
    expect(await page.$$('[role=alert]')).toHaveLength(0);
  });

  test('of the list leaves the sentence, from the cells of the map', async () => {
    const { address } = await planted('a device');
    const { page } = await newPage();
    await refuse(page, '**/api/transactions?*');
    await page.goto(address);
    await page.waitForSelector('h1:has-text("used device sdb")');
    expect(await page.textContent('.wide')).toContain('too many long requests at once');
  });

  test('of another map leaves the old one', async () => {
    const { address } = await planted('a node');
    const { page } = await newPage();
    await opened(page, address);
    const first = await heading(page);
    await refuse(page, '**/api/heatmap*');
    await page.click('button[aria-label="Keep node n2"]');
    await page.waitForSelector('text=too many long requests at once');
    expect([await heading(page), (await page.$$('canvas.map')).length]).toEqual([first, 1]);
  });

  test('of another map leaves the old one marked as such, and what acts on it off', async () => {
    const { address } = await planted('a node');
    const { page } = await newPage();
    await opened(page, address);
    await refuse(page, '**/api/heatmap*');
    await page.click('button[aria-label="Keep node n2"]');
    await page.waitForSelector('text=Below is the answer for the window and the filters before');
    expect(await page.isDisabled('button[aria-label="Keep node n2"]')).toBe(true);
    await page.waitForSelector('.top .pill', { state: 'detached' });
    await page.unroute('**/api/heatmap*');
    await page.click('button:has-text("Ask again")');
    await page.waitForSelector('h1:has-text("No difference outside noise")');
    expect(await page.$$('main > p.loss')).toHaveLength(0);
    expect(await page.$$('.top .pill')).toHaveLength(1);
  });

  test('of the list does not leave the slowest of another filter', async () => {
    const { url } = await served(
      recorded(
        [1n, 2n].map((ms) => ({
          ...{ at: START - ms * 1_000_000_000n, duration: ms * 1_000_000n },
          ...{ transaction: `order-${ms}`, service: `s${ms}`, requested: 1n },
        })),
      ),
    );
    const { page } = await newPage();
    await page.goto(`${url}/#v=1&service=s1`);
    await page.waitForSelector('h1:has-text("The only transaction here, order-1")');
    await page.waitForSelector('main[aria-busy="false"]');
    await refuse(page, '**/api/transactions?*');
    await page.goto(`${url}/#v=1&service=s2`);
    await page.waitForSelector('h1:has-text("1 transaction is here; the longest took 2.00 ms.")');
    await page.waitForSelector('text=too many long requests at once');
    expect(await page.textContent('main')).not.toContain('order-1');
    await page.unroute('**/api/transactions?*');
    await page.click('button:has-text("Ask again")');
    await page.waitForSelector('h1:has-text("The only transaction here, order-2")');
  });

  test('of the comparison does not leave that of another selection', async () => {
    const { address } = await planted('an error');
    const { page } = await newPage();
    await opened(page, address);
    await page.waitForSelector('text=Where the time went');
    await refuse(page, '**/api/differences*');
    await page.click('label:has-text("failed,")');
    await page.waitForSelector('text=too many long requests at once');
    expect(await page.$$('text=Where the time went')).toHaveLength(0);
    expect(await heading(page)).toMatch(/^\d+ of 1 000 transactions failed\.$/);
  });
});

test('cells, failures and gaps are on the map at every resolution, and loss is beside the numbers', async () => {
  const [gapFrom, gapTo] = [FIRST_NS + 5_000_000_000n, FIRST_NS + 6_000_000_000n];
  const paths = recordMade(
    ...([COUNT, 9, (made: Parameters<Plant>[0]) => ({ ...made, failed: made.file === '/a/1' && made.slow })] as const),
    (writer) => {
      writer.recordLoss({ cause: 'agent_killed', eventType: 'sys_write', count: 12, fromNs: gapFrom, toNs: gapTo });
      const faintNs = FIRST_NS + 13_000_000_000n;
      writer.recordLoss({ cause: 'end_missed', eventType: null, count: 1, fromNs: faintNs, toNs: faintNs + 1n });
    },
  );
  const { url } = await served(openRecordingStore(undefined, paths));
  for (const deviceScaleFactor of [1, 2]) {
    const { page } = await newPage({ colorScheme: 'light', deviceScaleFactor });
    await opened(page, `${url}/#v=1&${WINDOW}&box_failed=1`);
    const share = (columns: number) => 0.045 + columns * 0.95;
    // Both at the top and at the bottom, where no transaction is.
    for (const [top, bottom] of [
      [0.03, 0.1],
      [0.8, 0.9],
    ] as const) {
      expect(await pixels(page, 'b3261e', [share(0.26), top, share(0.28), bottom])).toBeGreaterThan(0);
      expect(await pixels(page, 'b3261e', [share(0.5), top, share(0.9), bottom])).toBe(0);
    }
    expect(await pixels(page, 'b3261e', [share(0.4), 0.1, 1, 0.6])).toBeGreaterThan(0);
    expect(await pixels(page, 'cc7526')).toBeGreaterThan(0);
    expect(await heading(page)).toMatch(/^At least \d+ of at least 1 000 failed/);
    expect(await page.textContent('p.loss')).toContain('At least 26 events are missing in this window');
    expect(await page.textContent('.wide caption')).toContain('at least, as events are missing');
  }
});

test('paper gets the colours of the light theme', async () => {
  const { address } = await planted('a device');
  const { page } = await newPage({ colorScheme: 'dark' });
  await opened(page, address);
  const outlines = async () => [await pixels(page, 'ffa23e'), await pixels(page, 'b65400')].map((count) => count > 0);
  expect(await outlines()).toEqual([true, false]);
  await page.evaluate("window.dispatchEvent(new Event('beforeprint'))");
  expect(await outlines()).toEqual([false, true]);
  await page.evaluate("window.dispatchEvent(new Event('afterprint'))");
  expect(await outlines()).toEqual([true, false]);
});

const eventRows = (): Row[] =>
  Array.from({ length: 300 }, (_, i) => ({
    ...{ at: START - 30_000_000_000n + BigInt(i) * 100_000_000n, duration: BigInt(1000 + (i % 2) * 5000) },
    ...(i % 10 === 9 && { file: '/srv/slow/1', duration: 50_000_000n }),
    ...(i % 10 !== 9 && { file: `/srv/fast/${i % 3}` }),
  }));

test('without a label the map is of events, and its table has every cell', async () => {
  const { url, get } = await served(recorded(eventRows()));
  const { page } = await newPage({ viewport: { width: 590, height: 800 } });
  await opened(page, url);
  expect(await heading(page)).toMatch(
    /^The slowest 10 % \(30 of 300 events\) took 48\.7 ms or more; the rest [\d.]+ µs in the median\. 100 % of them were on file \/srv\/slow\/1 and files in \/srv\/slow\/, of the rest 0 %/,
  );
  expect(await page.textContent('main')).toContain('The map is of events, because no transaction is labelled.');
  await page.keyboard.press('v');
  await page.waitForSelector('.rows tbody td');
  const { json } = await get('/api/heatmap?of=events&columns=60');
  const lines = await allRows(page);
  expect(lines.reduce((sum, cells) => sum + Number(cells[3]), 0)).toBe(json.total.count);
  expect(lines.filter((cells) => cells[5] === '✓').reduce((sum, cells) => sum + Number(cells[3]), 0)).toBe(30);
});

test('names of recorded programs are text in the sentence, the differences and the filter', async () => {
  const hostile = '<img src=x onerror=document.title=1>\u202e';
  const rows = Array.from({ length: 200 }, (_, i): Row => {
    const isSlow = i % 5 === 0;
    const service = isSlow ? hostile : '__proto__';
    const duration = isSlow ? 2n ** 53n + 1n + BigInt(i) : BigInt(1000 + i);
    return { at: FIRST_NS + BigInt(i) * EVERY_NS, duration, service, transaction: `order ${i} & ${hostile}` };
  });
  const { url } = await served(recorded(rows));
  const { page, errors } = await newPage();
  await opened(page, url);
  expect(await heading(page)).toContain('involved service <img src=x onerror=document.title=1>\\u{202e}, of the rest ');
  await page.click('button[aria-label^="Keep service <img"]');
  await page.waitForURL((address) => new URLSearchParams(address.hash.slice(1)).get('service') === hostile);
  await page.waitForSelector('h1:has-text("The slowest transaction here")');
  expect(await page.title()).toMatch(/^\w+ · kreplay$/);
  expect(errors).toEqual([]);
});
