/** What the replay bar does beside playing: fast sessions, skipped gaps, the end of the wait, a session that is gone. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { newFolder, type Row, recorded, START } from '../daemon/recorded.ts';
import { type Served, serve, served } from '../daemon/served.ts';
import { breakingWay } from './breaking.ts';
import { newPage } from './browser.ts';

const MS = 1_000_000n;
const LANES = '/#v=1&view=lanes&transaction=order-1';
const AT = START - 10_000n * MS;

const rows: Row[] = Array.from({ length: 300 }, (_, i) => ({
  ...{ at: AT + BigInt(i) * 10n * MS, duration: 2n * MS, tid: 10 + (i % 3), transaction: 'order-1', file: '/srv/f' },
}));

async function opened(url: string, more = '') {
  const watched = await newPage();
  await watched.page.goto(url + LANES + more);
  await watched.page.waitForSelector('.moving');
  return watched;
}

const figures = async (page: Page) => (await page.textContent('.figures:not(.projection)')) ?? '';
async function sessionIn(page: Page): Promise<string> {
  await page.waitForURL(/session=/);
  return /session=([0-9a-f-]+)/.exec(page.url())![1]!;
}
const pathOf = (session: string) => `/api/replay/sessions/${session}`;

function command(daemon: Served, session: string, at: string, body = '{}', method = 'POST') {
  const headers = { 'content-type': 'application/json' };
  return daemon.get(pathOf(session) + at, { method, headers, body });
}

test('a fast session is followed by its position, and ends where a slow one does', async () => {
  const daemon = await served(recorded(rows));
  const { page, errors, requested } = await opened(daemon.url, '&speed=16');
  await page.keyboard.press('Period');
  await page.waitForSelector('text=paused, event 1 of 300');
  expect(requested.some((address) => address.endsWith('frames=state,position'))).toBe(false);
  const session = await sessionIn(page);
  // 300 events in 2.992 s are 2005 a second at 20 times the speed, which is the next step.
  await page.locator('input[aria-label="Speed in steps"]').focus();
  await page.keyboard.press('ArrowRight');
  await page.waitForSelector('text=fast: positions in the place of single events');
  await page.keyboard.press('Space');
  await page.waitForSelector('text=/finished, event 300 of 300/');
  expect(requested.some((address) => address.endsWith('frames=state,position'))).toBe(true);
  expect((await daemon.get(pathOf(session))).json).toMatchObject({ event_index: 300, state: 'finished' });
  const place = await page.textContent('.replay output');
  await command(daemon, session, '', '{"speed_factor": 1}', 'PATCH');
  await page.waitForSelector('text=fast: positions in the place of single events', { state: 'detached' });
  await page.keyboard.press('Comma');
  await page.waitForSelector('text=paused, event 299 of 300');
  await page.keyboard.press('Period');
  await page.waitForSelector('text=/(finished|paused), event 300 of 300/');
  await page.keyboard.press('End');
  await page.waitForSelector('text=/event 300 of 300/');
  expect(await page.textContent('.replay output')).toBe(place);
  expect(errors).toEqual([]);
});

test('a command without an answer is not asked again, and nothing says so', async () => {
  const { port } = await served(recorded(rows));
  const way = await breakingWay(port);
  const { page } = await opened(way.url);
  const advice = page.locator('.failure:has-text("see whether kreplay daemon is running")');
  const path = '/api/replay/sessions';
  way.bytesOf = (asked) => (asked === path ? 0 : Number.POSITIVE_INFINITY);
  await page.keyboard.press('Period');
  await advice.waitFor();
  expect(await advice.textContent()).not.toContain('by itself');
  way.bytesOf = () => Number.POSITIVE_INFINITY;
  await page.keyboard.press('Period');
  await page.waitForSelector('text=paused, event 1 of 300');
  way.bytesOf = (asked) => (asked.endsWith('/step') ? 0 : Number.POSITIVE_INFINITY);
  await page.keyboard.press('Period');
  await advice.waitFor();
  expect(await advice.textContent()).not.toContain('by itself');
});

test('times in which nothing is under way are skipped, and counted', async () => {
  const pauses = [0n, 1n, 2n, 700n, 701n, 2000n];
  const spread = pauses.map((ms): Row => ({ at: AT + ms * MS, duration: MS / 2n, transaction: 'order-1' }));
  const daemon = await served(recorded(spread));
  const { page } = await opened(daemon.url);
  await page.keyboard.press('i');
  // 697.5 and 1298.5 ms, of which 10 ms are left each.
  await page.waitForSelector('text=skips 2 idle parts, 1.98 s altogether: 10.0 ms is left of each');
  const session = await sessionIn(page);
  const { max_gap_ns, replay_end_ns } = (await daemon.get(pathOf(session))).json;
  expect([max_gap_ns, replay_end_ns]).toEqual([10e6, 2000.5e6 - 687.5e6 - 1288.5e6]);
  await page.waitForURL(/max_gap=10000000/);
  await page.keyboard.press('i');
  await page.waitForSelector('text=skips 2 idle parts', { state: 'detached' });
  expect((await daemon.get(pathOf(session))).json.max_gap_ns).toBeNull();
});

test('what another client changes is shown, and the link has it', async () => {
  const daemon = await served(recorded(rows));
  const { page } = await opened(daemon.url);
  await page.keyboard.press('Period');
  await page.waitForSelector('text=paused, event 1 of 300');
  const session = await sessionIn(page);
  const change = { timeout_ns: 250_000_000, only: { service: ['shop'] }, extra_latency_ns: 2e6, max_gap_ns: 1e6 };
  await command(daemon, session, '', JSON.stringify(change), 'PATCH');
  await page.waitForSelector('text=deadline 250 ms');
  await page.waitForSelector('text=latency only for shop');
  await page.waitForSelector('text=+2.00 ms each');
  await page.waitForURL(/latency=2000000&timeout=250000000/);
  expect(page.url()).toContain('only_service=shop');
  expect(await page.inputValue('input[aria-label="Extra latency, exactly"]')).toBe('2 ms');
  await command(daemon, session, '/seek', '{"event_index": 40}');
  await page.waitForSelector('text=paused, event 40 of 300');
  const { events } = (await daemon.get(`${pathOf(session)}/timeline?event_index=39&limit=1`)).json;
  await page.keyboard.press('Comma');
  await page.waitForSelector('text=paused, event 39 of 300');
  await page.keyboard.press('Period');
  await page.waitForSelector('text=paused, event 40 of 300');
  expect(events).toHaveLength(1);
});

test('a step while it plays pauses it first, by key and by button, and one at its end says what to do', async () => {
  const daemon = await served(recorded(rows));
  const { page, requested } = await opened(daemon.url, '&speed=0.1');
  const stepped = async (step: () => Promise<void>) => {
    await page.keyboard.press('Space');
    await page.waitForSelector('text=/playing, event/');
    const before = requested.length;
    const done = page.waitForResponse((response) => response.url().endsWith('/step'));
    await step();
    await done;
    await page.waitForSelector('text=/paused, event/');
    const session = await sessionIn(page);
    const { state, event_index } = (await daemon.get(pathOf(session))).json;
    await page.waitForSelector(`text=paused, event ${event_index} of 300`);
    const commands = requested.slice(before).filter((address) => /(pause|step)$/.test(address));
    expect([state, commands.map((address) => /\w+$/.exec(address)![0])]).toEqual(['paused', ['pause', 'step']]);
    return event_index as number;
  };
  const first = await stepped(() => page.keyboard.press('Period'));
  expect(first).toBeGreaterThan(0);
  await stepped(() => page.keyboard.press('Comma'));
  // Space is for the button that has the focus.
  expect(await stepped(() => page.click('button[title^="one event forward"]'))).toBeGreaterThan(first);
  expect(await page.locator('.failure').count()).toBe(0);
  await page.keyboard.press('End');
  await page.waitForSelector('text=/finished, event 300 of 300/');
  await page.keyboard.press('Period');
  await page.waitForSelector('.failure:has-text("see the buttons for what it can do now")');
});

test('each step is said in a sentence, and no more than one a second', async () => {
  const daemon = await served(recorded(rows));
  const { page } = await opened(daemon.url);
  await page.keyboard.press('Period');
  await page.waitForSelector('.spoken[aria-live]:has-text("sys_write write of")');
  expect(await page.textContent('.spoken[aria-live]')).toMatch(
    /^sys_write write of \/srv\/f, 2\.00 ms, starts \+0 ns\.$/,
  );
  await page.evaluate(`window.said = [];
    new MutationObserver(() => said.push(document.querySelector('.spoken[aria-live]').textContent))
      .observe(document.querySelector('.spoken[aria-live]'), { characterData: true, childList: true, subtree: true });`);
  for (let i = 0; i < 8; i++) await page.keyboard.press('Period');
  await page.waitForSelector('.spoken[aria-live]:has-text("starts +80.0 ms")');
  expect(((await page.evaluate('said')) as string[]).length).toBeLessThan(8);
  await page.keyboard.press('Home');
  await page.waitForSelector('text=paused, event 0 of 300');
});

/** A write of 200 ms, whose data is written back a second later. */
const WRITTEN_BACK: Row[] = [
  { at: AT, duration: 200n * MS, transaction: 'order-1' },
  {
    ...{ type: 'block_io', at: AT + 1200n * MS, duration: MS, transaction: 'order-1', source: 'origin', result: 0n },
    origins: [{ transaction: 'order-1', bytes: 512n }],
  },
];

test('playing pauses where the wait of the caller ends, once, and goes on to what is written back', async () => {
  const daemon = await served(recorded(WRITTEN_BACK));
  const { page } = await opened(daemon.url);
  await page.keyboard.press('Space');
  await page.waitForSelector('text=Paused where the caller’s wait ends');
  await page.waitForSelector('text=paused, event 1 of 2');
  const session = await sessionIn(page);
  const { json } = await daemon.get(pathOf(session));
  expect(json).toMatchObject({ state: 'paused', position_ns: 200_000_000, event_index: 1 });
  await page.keyboard.press('Space');
  await page.waitForSelector('text=finished, event 2 of 2');
  expect(await page.isVisible('.replay >> text=Paused where the caller’s wait ends')).toBe(false);
  // A session that another client plays is not paused.
  await command(daemon, session, '/seek', '{"event_index": 0}');
  await command(daemon, session, '/play');
  await page.waitForSelector('text=playing');
  await page.waitForSelector('text=finished, event 2 of 2');
});

test('a session that is gone is made again with its settings, where it was', async () => {
  const daemon = await served(recorded(rows));
  const { page } = await opened(daemon.url, '&speed=0.5&latency=1000000');
  await page.keyboard.press('Period');
  const first = await sessionIn(page);
  await command(daemon, first, '/seek', '{"position_ns": 500000000}');
  await page.waitForURL(/position=500000000/);
  const address = page.url();
  await command(daemon, first, '', '', 'DELETE');
  await page.click('text=New session at the same place');
  await page.waitForURL((url) => url.hash.includes('session=') && !url.hash.includes(first));
  await page.waitForSelector('text=/paused|ready/');
  const restored = async (other: Page) => {
    const { json } = await daemon.get(pathOf(await sessionIn(other)));
    const { speed_factor, extra_latency_ns, position_ns } = json;
    return { speed_factor, extra_latency_ns, position_ns };
  };
  const expected = { speed_factor: 0.5, extra_latency_ns: 1_000_000, position_ns: 500_000_000 };
  while ((await restored(page)).position_ns === 0) await sleep(20);
  expect(await restored(page)).toEqual(expected);
  // Another browser has only the link.
  const other = await newPage();
  await other.page.goto(address);
  await other.page.click('text=New session at the same place');
  await other.page.waitForURL((url) => url.hash.includes('session=') && !url.hash.includes(first));
  while ((await restored(other.page)).position_ns === 0) await sleep(20);
  expect(await restored(other.page)).toEqual(expected);
});

test('the position is moved by keys of its slider, and Home and End of the others are their own', async () => {
  const daemon = await served(recorded(rows));
  const { page } = await opened(daemon.url);
  const seek = page.locator('input.seek');
  await seek.focus();
  await page.keyboard.press('PageUp');
  await page.waitForSelector('text=/ready|paused/');
  const session = await sessionIn(page);
  const position = async () => (await daemon.get(pathOf(session))).json.position_ns as number;
  while ((await position()) === 0) await sleep(20);
  expect(await seek.getAttribute('aria-valuetext')).toMatch(/ of 2\.99 s$/);
  const before = await position();
  await page.locator('input[aria-label="Extra latency"]').focus();
  await page.keyboard.press('End');
  await page.waitForURL(/latency=3600000000000/);
  expect(await position()).toBe(before);
  // The keys go on from what was chosen, though the daemon takes its time.
  await page.route(`**${pathOf(session)}`, async (route) => {
    await sleep(300);
    await route.continue();
  });
  await page.locator('input[aria-label="Speed in steps"]').focus();
  for (let i = 0; i < 40; i++) await page.keyboard.press('ArrowRight', { delay: 15 });
  while ((await daemon.get(pathOf(session))).json.speed_factor !== 1000) await sleep(20);
  expect(await figures(page)).toContain('event');
});

test('a daemon that is gone is said, its picture stays, and a fast session goes on with the next daemon', async () => {
  const [stateFile, folder] = [`${newFolder()}/sessions.sqlite`, recorded(rows)];
  const first = await serve(folder, { stateFile });
  const way = await breakingWay(first.port);
  const { page } = await newPage();
  try {
    await page.goto(`${way.url}${LANES}&speed=20`);
    await page.waitForSelector('.moving');
    await page.keyboard.press('Period');
    await page.keyboard.press('Period');
    await page.waitForSelector('text=paused, event 2 of 300');
    await page.waitForSelector('text=fast: positions in the place of single events');
    way.bytesOf = () => 0;
  } finally {
    await first.close();
  }
  await page.waitForSelector('text=not connected: what is shown may be old');
  expect(await page.isVisible('.moving')).toBe(true);
  way.port = (await served(folder, { stateFile })).port;
  way.bytesOf = () => Number.POSITIVE_INFINITY;
  await page.waitForSelector('text=not connected: what is shown may be old', { state: 'detached' });
  await page.keyboard.press('Period');
  await page.waitForSelector('text=paused, event 3 of 300');
  await page.keyboard.press('Space');
  await page.waitForSelector('text=finished, event 300 of 300');
});

test('a page that is held up says how far it is behind', async () => {
  const daemon = await served(recorded(rows));
  const { page } = await opened(daemon.url, '&speed=0.5');
  await page.keyboard.press('Space');
  await page.waitForSelector('text=/playing, event [1-9]/');
  await page.evaluate('{ const until = performance.now() + 400; while (performance.now() < until); }');
  const line = await page.waitForSelector('.replay >> text=/display behind by \\d+ ms/');
  expect(Number(/\d+/.exec((await line.textContent())!)![0])).toBeGreaterThanOrEqual(40);
});
