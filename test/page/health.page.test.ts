/** Health shows what the daemon holds and lets go of it; the text of metrics is read as a client of Prometheus writes it. */
import { Counter, Registry } from '@prometheus-io/client';
import fc from 'fast-check';
import type { Page } from 'playwright-core';
import type { RecordingWriter } from '../../agent/recording/write/writer.ts';
import { LOSS_CAUSES, LOSS_CURES, type LossCause } from '../../bpf/schema/losses.ts';
import { parseMetricSums } from '../../daemon/page/api/metrics.ts';
import { exampleRecording } from '../daemon/example_recording.ts';
import { recorded, recordingPath, START, setMeta } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const TRANSACTION = 'order-1';

test('a metric is the sum over its labels, whatever is in them', async () => {
  const label = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('"', '}', '\\', '\n', '} 7', '# HELP'));
  const samples = fc.uniqueArray(fc.tuple(label, fc.nat(1e6)), { maxLength: 5, selector: ([text]) => text });
  await fc.assert(
    fc.asyncProperty(samples, async (some) => {
      const registry = new Registry();
      const counter = new Counter({ name: 'things_total', help: 'of all', labelNames: ['a'], registers: [registry] });
      for (const [text, count] of some) counter.inc({ a: text }, count);
      const expected = some.reduce((sum, [, count]) => sum + count, 0);
      expect(parseMetricSums(await registry.metrics()).get('things_total') ?? 0).toBe(expected);
    }),
    { numRuns: 50 },
  );
});

test('a pin and a session are shown until they are let go', async () => {
  const { url, get } = await served(exampleRecording());
  const { page } = await newPage();
  await page.goto(`${url}/#v=1&view=lanes&transaction=${TRANSACTION}`);
  await page.waitForSelector('.moving');
  await page.keyboard.press('Period');
  await page.waitForSelector('.figures');
  await page.click('summary:has-text("Share")');
  await page.click('text=Pin transaction');
  await page.waitForSelector('[aria-live] >> text=The transaction is pinned', { state: 'attached' });
  expect((await get('/api/pins')).json.pins).toHaveLength(1);

  const other = await newPage();
  await other.page.goto(`${url}/#v=1&view=health`);
  await other.page.click('text=Unpin');
  await other.page.waitForSelector('h2:has-text("Pinned transactions")', { state: 'detached' });
  expect((await get('/api/pins')).json.pins).toEqual([]);
  await other.page.click('button:has-text("Delete")');
  await other.page.waitForSelector('h2:has-text("Replay sessions")', { state: 'detached' });
  expect((await get('/api/replay/sessions')).json.sessions).toEqual([]);
  expect(other.errors).toEqual([]);
});

/** A daemon with a pinned transaction, and a page that is not yet at Health and whose clock the test can move on. */
async function withPin() {
  const daemon = await served(exampleRecording());
  expect((await daemon.get(`/api/transactions/${TRANSACTION}/pin`, { method: 'POST' })).status).toBeLessThan(300);
  const { page } = await newPage();
  await page.clock.install();
  return { page, open: () => page.goto(`${daemon.url}/#v=1&view=health`) };
}

/** Moves the page's clock on by the time between two questions. */
const refreshIsDue = (page: Page) => page.clock.fastForward(5000);

const PINNED = 'h2:has-text("Pinned transactions")';

test('an answer that takes longer than the time between two is waited for, and the others are shown meanwhile', async () => {
  const { page, open } = await withPin();
  let askedCount = 0;
  let answer = () => {};
  const released = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route('**/api/pins', async (route) => {
    askedCount++;
    await released;
    await route.continue();
  });
  await open();
  await page.waitForSelector('h1:has-text("No agent is recording now")');
  await page.waitForSelector('h2:has-text("Recordings")');
  await refreshIsDue(page);
  await page.waitForSelector('text=Pinned transactions: not known yet.');
  // The other parts are asked for at least once more.
  for (let i = 0; i < 2; i++) await Promise.all([page.waitForResponse('**/readyz'), refreshIsDue(page)]);
  expect(askedCount).toBe(1);
  expect(await page.locator(PINNED).count()).toBe(0);
  answer();
  await page.waitForSelector(PINNED);
  await page.waitForSelector('text=Pinned transactions: not known', { state: 'detached' });
});

test('a part that fails is named and leaves the others, and what is old says of when it is', async () => {
  const { page, open } = await withPin();
  const problem = { code: 'busy', detail: 'too much at once' };
  await page.route('**/api/pins', (route) => route.fulfill({ status: 503, json: problem }));
  await open();
  await page.waitForSelector('h1:has-text("No agent is recording now")');
  await page.waitForSelector('[role=alert]:has-text("too much at once")');
  await page.waitForSelector('text=Pinned transactions: not known yet.');
  await page.unroute('**/api/pins');
  await refreshIsDue(page);
  await page.waitForSelector(PINNED);
  await page.waitForSelector('[role=alert]', { state: 'detached' });
  expect(await page.textContent('h1')).not.toContain('as of');
  await page.waitForSelector('header .pill');

  for (const path of ['**/readyz', '**/api/events*']) await page.route(path, (route) => route.abort());
  await refreshIsDue(page);
  await page.waitForSelector('h1:text-matches("recording now [(]as of [0-9:]{8} UTC[)];.*[(]as of [0-9:]{8} UTC[)]")');
  expect(await page.locator('[role=alert]').count()).toBe(1);
  expect(await page.locator('header .pill').count()).toBe(0);
  expect(await page.locator('p:text-matches("^(Recordings|What is missing): as of")').count()).toBe(2);
  expect(await page.locator('h2:has-text("Recordings")').count()).toBe(1);
  await page.unroute('**/readyz');
  await page.unroute('**/api/events*');
  await refreshIsDue(page);
  await page.waitForSelector('p:text-matches(": as of")', { state: 'detached' });
  expect(await page.textContent('h1')).not.toContain('as of');
});

test('each loss has its cause in words, and what the agent logs to help against it', async () => {
  const causes = ['ring_full', 'no_memory', 'marker_flood', 'store_failed', 'recording_removed'] as const;
  const folder = recorded([{ at: START }], (writer) => {
    for (const [i, cause] of causes.entries()) {
      const fromNs = START - BigInt(60 - i) * 1_000_000_000n;
      writer.recordLoss({ cause, eventType: 'sys_write', count: 5, fromNs, toNs: fromNs + 1000n });
    }
  });
  const { url } = await served(folder);
  const { page } = await newPage();
  await page.goto(`${url}/#v=1&view=health`);
  await page.waitForSelector('h2:has-text("What is missing")');
  const rows = await page.$$eval('section:has(h2:text-is("What is missing")) tbody tr', (found) =>
    found.map((row) => [...row.children].slice(2, 4).map(({ textContent }) => textContent)),
  );
  for (const cause of causes) expect(rows).toContainEqual([LOSS_CAUSES[cause], LOSS_CURES[cause]]);
});

test('a share is shown only if it is that of the number beside it', async () => {
  const second = 1_000_000_000n;
  const lose = (cause: LossCause, count: number, fromS: bigint, toS: bigint) => (writer: RecordingWriter) =>
    writer.recordLoss({
      cause,
      eventType: null,
      count,
      fromNs: START - fromS * second,
      toNs: START - toS * second,
    });
  const folder = recorded([{ at: START - second }], (writer) => {
    // Retention has removed what was recorded beside the first loss of one cause.
    lose('retention', 1000, 60n, 50n)(writer);
    lose('end_missed', 90, 59n, 58n)(writer);
    lose('end_missed', 1, 9n, 8n)(writer);
    lose('ring_full', 1, 9n, 8n)(writer);
  });
  setMeta(recordingPath(folder), { created_ns: START - 60n * second });
  const { url } = await served(folder);
  const { page } = await newPage();
  await page.goto(`${url}/#v=1&view=health`);
  await page.waitForSelector('h2:has-text("What is missing")');
  const rows = await page.$$eval('section:has(h2:text-is("What is missing")) tbody tr', (found) =>
    found.map((row) => [0, 2].map((at) => row.children[at]!.textContent)),
  );
  expect(rows).toContainEqual(['91', LOSS_CAUSES.end_missed]);
  expect(rows).toContainEqual(['1, 50 %', LOSS_CAUSES.ring_full]);
});

test('the command and the text of what is shown can be taken elsewhere', async () => {
  const { url } = await served(exampleRecording());
  const { page } = await newPage({ permissions: ['clipboard-read', 'clipboard-write'] });
  await page.goto(`${url}/#v=1&node=web-1`);
  await page.waitForSelector('table');
  const copied = async (button: string) => {
    await page.click('summary:has-text("Share")');
    await page.click(`text=${button}`);
    await page.waitForSelector('details:not([open])');
    return String(await page.evaluate('navigator.clipboard.readText()'));
  };
  expect(await copied('Copy command')).toBe(`kreplay transactions --sort slowest --node web-1 --url ${url}`);
  const text = await copied('Copy text');
  expect(text).toContain(await page.innerText('h1'));
  expect(text.split('\n').at(-1)).toBe(page.url());
  expect(text).toMatch(/\norder-1\t/);
});
