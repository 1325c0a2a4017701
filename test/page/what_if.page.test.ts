/** The what-if of a transaction and of those like it, by keyboard, compared with what the API answers. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Page } from 'playwright-core';
import { createBearerCheck } from '../../daemon/http/access/bearer.ts';
import { createSecret, hashSecret } from '../../daemon/http/access/token.ts';
import { openTokens } from '../../daemon/http/access/tokens.ts';
import { parseDuration } from '../../daemon/page/numbers/duration_text.ts';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import {
  appendRows,
  newFolder,
  newWriter,
  type Row,
  recorded,
  recordedOn,
  recordingPath,
  START,
} from '../daemon/recorded.ts';
import { type Served, served } from '../daemon/served.ts';
import { violations } from './axe.ts';
import { newPage } from './browser.ts';

const MS = 1_000_000n;
const lanesOf = (url: string, more = '') => `${url}/#v=1&view=lanes&transaction=order-1${more}`;

async function opened(url: string, more = '') {
  const { page, errors } = await newPage();
  await page.goto(lanesOf(url, more));
  await page.waitForSelector('.projection');
  return { page, errors };
}

async function whatIf({ get }: Served, body: object) {
  const headers = { 'content-type': 'application/json' };
  const { status, json } = await get('/api/replay/whatif', { method: 'POST', headers, body: JSON.stringify(body) });
  expect(status).toBe(200);
  return json;
}

const slider = (page: Page, label: string) => page.locator(`input[type=range][aria-label="${label}"]`);
async function chosenOn(page: Page, label: string): Promise<bigint> {
  return parseDuration((await slider(page, label).getAttribute('aria-valuetext'))!)!;
}
const answered = (page: Page) =>
  page.waitForResponse((response) => response.url().endsWith('/api/replay/whatif') && response.ok());
const projection = async (page: Page) => (await page.textContent('.projection')) ?? '';

/** Transactions of 1 to 40 ms in five writes and a sync each, of two services on one thread each. */
const ROWS: Row[] = Array.from({ length: 40 }, (_, n) => {
  const common = { transaction: `order-${n}`, service: n % 4 === 0 ? 'mail' : 'shop', tid: 10 + n };
  const at = START - 600_000n * MS + BigInt(n) * 1000n * MS;
  const writes = Array.from({ length: 5 }, (__, i): Row => ({ ...common, at: at + BigInt(i) * MS, duration: MS / 2n }));
  return [
    ...writes,
    { ...common, type: 'sys_sync', at: at + 6n * MS, duration: BigInt(n) * MS + 7n, result: 0n } as Row,
  ];
}).flat();

test('both sliders by keyboard say what the API answers, and the link has them', async () => {
  const daemon = await served(recorded(ROWS));
  const { page, errors } = await opened(daemon.url);
  expect(await projection(page)).toContain('stays 7.00 ms');
  expect(await projection(page)).toContain('no deadline');
  await slider(page, 'Extra latency').focus();
  for (const key of [...Array(5).fill('PageUp'), 'ArrowRight']) await page.keyboard.press(key);
  await slider(page, 'Deadline').focus();
  await page.keyboard.press('Home');
  for (const key of [...Array(6).fill('PageUp'), 'ArrowRight']) await page.keyboard.press(key);
  await page.waitForURL(/latency=\d+&timeout=\d+/);
  const [extra_latency_ns, timeout_ns] = [await chosenOn(page, 'Extra latency'), await chosenOn(page, 'Deadline')];
  expect([extra_latency_ns > 100_000n, timeout_ns > 1_000_000n]).toEqual([true, true]);
  const body = { transaction_id: 'order-1', timeout_ns: Number(timeout_ns) };
  const answer = await whatIf(daemon, { ...body, extra_latency_ns: Number(extra_latency_ns) });
  await page.waitForSelector('text=6 of 6 events get it');
  const text = await projection(page);
  expect(text).toContain(answer.times_out ? '✕ times out' : '✓ in time');
  const [, from] = /from \+(.*?) on/.exec(text)!;
  expect(parseDuration(from!)).toBe(BigInt(answer.smallest_latency_ns));
  expect(answer.replay_duration_ns).toBeGreaterThan(answer.duration_ns);

  const exactly = page.locator('input[aria-label="Extra latency, exactly"]');
  await exactly.fill(`${answer.smallest_latency_ns} ns`);
  await exactly.press('Enter');
  await page.waitForSelector('.projection:has-text("✕ times out")');
  await exactly.fill(`${answer.smallest_latency_ns - 1} ns`);
  await exactly.press('Enter');
  await page.waitForSelector('.projection:has-text("✓ in time")');
  await page.waitForURL(new RegExp(`latency=${answer.smallest_latency_ns - 1}&`));
  await exactly.fill('soon');
  await exactly.press('Enter');
  await page.waitForSelector('text=must be a duration, such as 5 ms');
  expect(await page.isVisible('text=The daemon computed otherwise')).toBe(false);

  const other = await newPage();
  await other.page.goto(page.url());
  await other.page.waitForSelector('.projection:has-text("✓ in time")');
  expect(await projection(other.page)).toBe(await projection(page));
  expect(errors).toEqual([]);
});

test('a latency can be narrowed, and what it gives is asked of the daemon', async () => {
  const daemon = await served(recorded(ROWS));
  const { page } = await opened(daemon.url, '&latency=3000000&timeout=8000000');
  const only = page.locator('select[aria-label="Events that take longer"]');
  expect(await only.locator('option').allTextContents()).toEqual(['call', 'sys_write', 'sys_sync']);
  const rested = answered(page);
  await only.selectOption({ label: 'sys_sync' });
  await rested;
  await page.waitForSelector('text=1 of 6 events get it');
  const body = {
    transaction_id: 'order-1',
    extra_latency_ns: 3e6,
    timeout_ns: 8e6,
    only: { event_type: ['sys_sync'] },
  };
  const { smallest_latency_ns, times_out } = await whatIf(daemon, body);
  expect(times_out).toBe(true);
  const [, from] = /from \+(.*?) on/.exec(await projection(page))!;
  expect(parseDuration(from!)).toBe(BigInt(smallest_latency_ns));
  await page.waitForURL(/only_event_type=sys_sync/);
});

test('the share of those like it is that of asking each, and moves with the sliders', async () => {
  const daemon = await served(recorded(ROWS));
  const { page } = await opened(daemon.url, '&latency=2000000&timeout=25000000');
  await page.click('text=And other transactions of shop?');
  await page.waitForSelector('.others strong');
  const ids = ROWS.filter(({ service }) => service === 'shop').map(({ transaction }) => transaction!);
  const lateWith = async (extra_latency_ns: bigint) => {
    let late = 0;
    for (const transaction_id of new Set(ids)) {
      const body = { transaction_id, extra_latency_ns: Number(extra_latency_ns), timeout_ns: 25e6, limit: 0 };
      if ((await whatIf(daemon, body)).times_out) late++;
    }
    return late;
  };
  const before = await lateWith(0n);
  expect(await page.textContent('.others')).toContain(`${before} → ${await lateWith(2_000_000n)} of 30`);
  expect(before).toBeGreaterThan(0);
  await slider(page, 'Extra latency').focus();
  for (let i = 0; i < 5; i++) await page.keyboard.press('ArrowRight');
  const latency = await chosenOn(page, 'Extra latency');
  expect(await page.textContent('.others')).toContain(`${before} → ${await lateWith(latency)} of 30`);
  // A filter of the link takes the place of the service.
  await page.goto(lanesOf(daemon.url, '&timeout=25000000&service=mail&exclude_comm=bash'));
  await page.reload();
  await page.click('text=And other transactions of mail?');
  await page.waitForSelector('.others:has-text("of 10 transactions of mail")');
  expect(await page.textContent('.others')).toContain('without the filters exclude_comm');
});

test('what is played has the settings that were chosen', async () => {
  const daemon = await served(recorded(ROWS));
  const { page } = await opened(daemon.url, '&latency=3000000&timeout=8000000&only_event_type=sys_sync&speed=0.01');
  await page.keyboard.press('Period');
  await page.waitForSelector('text=paused, event 1 of 6');
  await page.waitForURL(/session=/);
  const [, first] = /session=([0-9a-f-]+)/.exec(page.url())!;
  await page.locator('input[aria-label="Extra latency, exactly"]').fill('4000001 ns');
  await page.click('text=Play it');
  await page.waitForSelector('text=/playing, event \\d of 6/');
  await page.waitForURL((url) => url.hash.includes('session=') && !url.hash.includes(first!));
  const { sessions } = (await daemon.get('/api/replay/sessions')).json;
  expect(sessions).toHaveLength(1);
  expect(sessions[0]).toMatchObject({
    ...{ extra_latency_ns: 4_000_001, timeout_ns: 8_000_000, only: { event_type: ['sys_sync'] } },
    ...{ speed_factor: 0.01, transaction_id: 'order-1' },
  });
  expect(await page.textContent('.replay .figures')).toContain('deadline 8 ms');
  expect(await page.textContent('.replay .figures')).toContain('latency only for sys_sync');
});

test('a reader without control may ask, and not play', async () => {
  const path = join(newFolder(), 'tokens.json');
  const secret = createSecret();
  const created_at = '2025-01-01T00:00:00Z';
  const reader = { name: 'reader', sha256: hashSecret(secret).toString('hex'), scopes: ['events:read'], created_at };
  writeFileSync(path, JSON.stringify({ version: 1, tokens: [{ ...reader, expires_at: null }] }), { mode: 0o600 });
  const log = pino({ level: 'silent' });
  const bearer = createBearerCheck({ tokens: openTokens({ path, nowMs: Date.now, log }), nowMs: Date.now, log });
  const { url } = await served(recorded(ROWS), { allowed: { bearer } });
  const { page } = await newPage();
  await page.goto(lanesOf(url, '&latency=3000000&timeout=8000000'));
  await page.fill('#token', secret);
  await page.click('text=Open');
  await page.waitForSelector('.projection:has-text("✕ times out")');
  await page.click('text=And other transactions of shop?');
  await page.waitForSelector('.others strong');
  expect(await page.isDisabled('text=Play it')).toBe(true);
});

test('failures are said in words, and the page goes on by its curve', async () => {
  const daemon = await served(recorded(ROWS));
  const { page } = await opened(daemon.url, '&timeout=8000000');
  await page.route('**/api/replay/whatif', (route) => route.abort());
  await slider(page, 'Extra latency').focus();
  for (let i = 0; i < 10; i++) await page.keyboard.press('PageUp');
  await page.waitForSelector('.what-if .failure:has-text("the daemon does not answer")');
  expect(await projection(page)).toContain('✕ times out');
  await page.unroute('**/api/replay/whatif');
  await page.click('.what-if >> text=Ask again');
  await page.waitForSelector('.what-if .failure', { state: 'detached' });
  const bad = await newPage();
  await bad.page.goto(lanesOf(daemon.url, '&only_event_type=sys_nothing'));
  await bad.page.waitForSelector('.what-if .failure');
  expect(await bad.page.inputValue('select[aria-label="Events that take longer"]')).toBe('2');
});

test('where more is recorded meanwhile, the answer of the daemon stands, and that is said', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  const row = { transaction: 'order-1', service: 'shop', duration: MS };
  appendRows(writer, [{ ...row, at: START - 1000n * MS }]);
  const daemon = await served(folder);
  const { page } = await opened(daemon.url, '&timeout=8000000');
  expect(await projection(page)).toContain('stays 1.00 ms');
  appendRows(writer, [{ ...row, at: START - 990n * MS }]);
  await slider(page, 'Extra latency').focus();
  await page.keyboard.press('ArrowRight');
  await page.waitForSelector('text=The daemon computed otherwise than this page');
  expect(await projection(page)).toContain('✕ times out, also as recorded');
  // From then on the page computes with what is recorded now.
  const rested = answered(page);
  await page.keyboard.press('ArrowRight');
  await rested;
  await page.waitForSelector('text=The daemon computed otherwise than this page', { state: 'detached' });
  expect(await projection(page)).toContain('✕ times out, also as recorded');
  writer.close();
});

test('a clock that began in 1970 is set right in the page', async () => {
  const at = START - 1000n * MS;
  const began = 3_600_000_000_000n;
  const one: Row[] = [{ at, duration: 10n * MS, transaction: 'order-1', service: 'shop' }];
  const other: Row[] = [{ at: began, duration: MS, transaction: 'order-1', service: 'db' }];
  const folders = [recordedOn('web-1', one), recordedOn('db-1', other)];
  const daemon = await served(openRecordingStore(undefined, folders.map(recordingPath)));
  const { page, errors } = await opened(daemon.url);
  const field = page.locator('input[aria-label="Added to the clock of db-1"]');
  await field.fill(`+${at - 5n * MS - began} ns`);
  await field.press('Enter');
  await page.waitForSelector('.projection:has-text("stays 15.0 ms")');
  await page.waitForSelector('h1:has-text("of 15.0 ms")');
  await page.click('[title="one event forward (.)"]');
  await page.waitForSelector('text=the replay adds +');
  const { sessions } = (await daemon.get('/api/replay/sessions')).json;
  expect(sessions[0].replay_end_ns).toBe(15e6);
  expect(errors).toEqual([]);
});

test('clocks of several nodes are set in the link, the picture, the what-if and the replay', async () => {
  const at = START - 1000n * MS;
  const one: Row[] = [{ at, duration: 10n * MS, transaction: 'order-1', service: 'shop' }];
  const other: Row[] = [{ at: at - 5n * MS, duration: MS, transaction: 'order-1', service: 'db' }];
  const folders = [recordedOn('web-1', one), recordedOn('db-1', other)];
  const daemon = await served(openRecordingStore(undefined, folders.map(recordingPath)));
  const { page, errors } = await opened(daemon.url);
  expect(await projection(page)).toContain('stays 15.0 ms');
  expect(await page.textContent('h1')).toMatch(/of 15.0 ms/);
  const field = page.locator('input[aria-label="Added to the clock of db-1"]');
  await field.fill('+6.000001 ms');
  await field.press('Enter');
  await page.waitForURL(/clock_offset=db-1%3A%2B6000001/);
  await page.waitForSelector('.projection:has-text("stays 10.0 ms")');
  await page.waitForSelector('h1:has-text("10.0 ms")');
  const body = { transaction_id: 'order-1', clock_offsets_ns: { 'db-1': 6_000_001 } };
  expect((await whatIf(daemon, body)).duration_ns).toBe(10e6);
  await page.click('[title="one event forward (.)"]');
  await page.waitForSelector('text=the replay adds +6.000001 ms');
  const { sessions } = (await daemon.get('/api/replay/sessions')).json;
  expect(sessions[0].clock).toContainEqual({
    node: 'db-1',
    offset_ns: 6_000_001,
    stepped_ns: 0,
    source: 'override',
    uncertainty_ns: null,
  });
  await field.fill('yesterday');
  await field.press('Enter');
  await page.waitForSelector('text=must be a duration with a sign');
  await page.click('text=And other transactions of');
  await page.waitForSelector('.others');
  expect(await violations(page)).toEqual([]);
  await page.setViewportSize({ width: 320, height: 640 });
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
  await field.fill('0');
  await field.press('Enter');
  await page.waitForSelector('h1:has-text("of 15.0 ms")');
  await page.waitForSelector('text=“Play it” makes one with this offset');
  await page.goto(lanesOf(daemon.url, '&clock_offset=nowhere:5'));
  await page.waitForSelector('text=nowhere: no node of this transaction');
  expect(errors).toEqual([]);
});
