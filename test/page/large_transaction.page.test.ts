/** A transaction with more events than are drawn one by one, as recorded by an agent. */
import { cpSync } from 'node:fs';
import { blockOf, type Row } from '../agent/recording/fixture.ts';
import { appendRows, newFolder, newWriter, type Row as RecordedRow, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const BLOCK_ROWS = 4096;
const BLOCKS = 513;
const EVERY_NS = 10_000n;
const FIRST = START - 60_000_000_000n;
const FAILED = 1_000_000;

/** The folder of the recording without later rows. */
let large: string | undefined;

/** An event each 10 µs, of two processes; one of a million fails. */
function largeRecording(later: readonly RecordedRow[] = []): string {
  large ??= record();
  if (later.length === 0) return large;
  const folder = newFolder();
  cpSync(large, folder, { recursive: true });
  const writer = newWriter(folder);
  appendRows(writer, later);
  writer.close();
  return folder;
}

function record(): string {
  const folder = newFolder();
  const writer = newWriter(folder);
  const context = writer.contextId({ transactionId: 'order-1', traceId: null, spanId: null });
  const [shop, pay] = [writer.nameId('shop'), writer.nameId('pay')];
  const rows = Array.from({ length: BLOCK_ROWS }, (_, i): Row => {
    const process = i % 4 === 0 ? { pid: 8, tid: 8, service: pay } : { pid: 7, tid: 7, service: shop };
    return { ...process, comm: shop, context, context_source: 1, context_quality: 1, duration_ns: 4000, result: 9 };
  });
  const block = blockOf(rows);
  const starts = block.columns.get('timestamp_ns') as BigUint64Array;
  const results = block.columns.get('result') as BigInt64Array;
  for (let at = 0; at < BLOCKS; at++) {
    for (let i = 0; i < BLOCK_ROWS; i++) starts[i] = FIRST + BigInt(at * BLOCK_ROWS + i) * EVERY_NS;
    const failed = FAILED - at * BLOCK_ROWS;
    if (failed >= 0 && failed < BLOCK_ROWS) results[failed] = -28n;
    writer.append(block);
    if (failed >= 0 && failed < BLOCK_ROWS) results[failed] = 9n;
    writer.flush();
  }
  writer.close();
  return folder;
}

test('it is counted by process, and single events are shown of a part', async () => {
  const { url } = await served(largeRecording());
  const { page, errors, requested } = await newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(`${url}/#v=1&view=lanes&transaction=order-1`);
  await page.waitForSelector('.minimap');
  expect(await page.textContent('h1')).toBe('order-1 has 2 101 248 events: zoom to under 2 000 000 for single ones.');
  const rows = () =>
    page.$$eval('.rows tbody tr', (lines) => lines.map((line) => [...line.children].map((cell) => cell.textContent)));
  expect(await rows()).toEqual([
    ['test-node', 'shop', '7', '1 575 936', '0', '1 575 936'],
    ['test-node', 'pay', '8', '525 312', '1', '525 312'],
  ]);
  // The last column is in view, not cut off by the edge of the section.
  const [section, cell] = await Promise.all(
    ['.rows', '.rows thead th:last-child'].map((one) => page.locator(one).boundingBox()),
  );
  expect(section!.width).toBeGreaterThan(1000);
  expect(cell!.x + cell!.width).toBeLessThanOrEqual(section!.x + section!.width);
  expect(requested.some((address) => /\/api\/events\?transaction_id/.test(address))).toBe(false);

  // 2 ms of 21 s, around the failed event.
  const middle = FIRST + BigInt(FAILED) * EVERY_NS;
  await page.goto(
    `${url}/#v=1&view=lanes&transaction=order-1&zoom_from=${middle - 1_000_000n}&zoom_to=${middle + 1_000_000n}`,
  );
  await page.waitForSelector('.moving');
  // The part is three times as long as what is in view.
  expect(await page.textContent('h1')).toBe(
    'A part of order-1: 600 of its 2 101 248 events, those that began in 6.00 ms from +9 997 ms on.',
  );
  await page.keyboard.press('v');
  await page.waitForSelector('.rows');
  expect(await page.getAttribute('table', 'aria-rowcount')).toBe('601');
  expect((await rows()).flat()).toContain('+9 997 ms');
  await page.keyboard.press('v');
  await page.waitForSelector('.moving');

  // A step sideways reads the events there, and all of the time leads back to the counts.
  for (let i = 0; i < 8; i++) await page.keyboard.press('d');
  await page.waitForURL((now) => BigInt(/zoom_from=(\d+)/.exec(now.hash)![1]!) > middle + 2_000_000n);
  await page.waitForSelector('.moving');
  await page.keyboard.press('f');
  await page.waitForSelector('h1:has-text("zoom to under 2 000 000")');
  for (let i = 0; i < 4; i++) await page.keyboard.press('w');
  await page.waitForSelector('h1:has-text("A part of order-1")', { timeout: 90_000 });
  expect(errors).toEqual([]);
});

test('what was written back long after its own end is counted in its time, and can be zoomed to', async () => {
  const at = START - 30_000_000_000n;
  const later = { type: 'block_io' as const, at, duration: 5_000_000n, queue: 1n, service: 'kernel', pid: 9, tid: 9 };
  const { url } = await served(largeRecording([{ ...later, transaction: 'order-1', source: 'origin', result: 0n }]));
  const { page, errors } = await newPage({ viewport: { width: 1280, height: 800 } });
  const whole = `${url}/#v=1&view=lanes&transaction=order-1`;
  await page.goto(whole);
  await page.waitForSelector('.minimap');
  expect(await page.textContent('.rows tbody tr:last-child')).toContain('kernel91');
  // Its own 21 s, and the 9 s until then.
  expect(await page.getAttribute('.minimap', 'aria-label')).toMatch(/30\.\d+ s/);
  await page.goto(`${whole}&zoom_from=${at - 1_000_000n}&zoom_to=${at + 6_000_000n}`);
  await page.waitForSelector('.moving');
  expect(await page.textContent('h1')).toContain('A part of order-1: 1 of its 2 101 249 events');
  expect(errors).toEqual([]);
});
