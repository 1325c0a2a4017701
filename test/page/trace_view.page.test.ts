/** Links of other tools, which name a trace. */
import { exampleRecording } from '../daemon/example_recording.ts';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const OTHER_TRACE = '0af7651916cd43dd8448eb211c80319c';
const at = (ms: number) => START - 5_000_000_000n + BigInt(ms) * 1_000_000n;

const call = (ms: number, transaction: string, more: Partial<Row> = {}): Row => ({
  ...{ at: at(ms), duration: 2_000_000n, transaction, trace: TRACE },
  ...(more as object),
});

test('a link with a trace of one transaction goes to that transaction', async () => {
  const { url } = await served(exampleRecording());
  const { page, errors } = await newPage();
  await page.goto(`${url}/#v=1`);
  await page.waitForSelector('table');
  await page.goto(`${url}/#trace=${TRACE}`);
  await page.waitForURL(/view=lanes&transaction=order-1/);
  expect(page.url()).not.toContain('trace=');
  await page.waitForSelector('.moving');
  expect(await page.textContent('h1')).toMatch(/^order-1 of db: /);
  await page.goBack();
  await page.waitForSelector('table');
  expect(errors).toEqual([]);
});

test('a trace of several transactions is shown as a whole, and leads to each of them', async () => {
  const rows = [
    call(0, 'order-1'),
    call(5, 'pay\u202e-1', { service: 'pay', pid: 7, tid: 7, result: -28n }),
    call(9, 'order-1'),
    call(3, 'elsewhere', { trace: OTHER_TRACE }),
    // It carries data of the trace and belongs to a transaction of another one.
    call(20, 'elsewhere', {
      ...{ type: 'block_io', trace: OTHER_TRACE, source: 'origin', quality: 'shared', result: 0n },
      origins: [
        { transaction: 'elsewhere', trace: OTHER_TRACE, bytes: 64n },
        { transaction: 'order-1', trace: TRACE, bytes: 64n },
      ],
    } as Partial<Row>),
  ];
  const { url } = await served(recorded(rows));
  const { page, errors } = await newPage();
  await page.goto(`${url}/#trace=${TRACE}`);
  await page.waitForSelector('.moving');
  const sentence = `Trace ${TRACE} with order-1 and pay\\u{202e}-1 of shop: 6.00 of 11.0 ms in 3 writes by node`;
  expect(await page.textContent('h1')).toContain(sentence);
  expect(await page.textContent('h1')).toContain('failed with ENOSPC');
  expect(await page.textContent('.picture')).toContain('1 request wrote its data back');
  const listed = await page.$$eval('[aria-label="Transactions of the trace"] li', (all) =>
    all.map(({ textContent }) => textContent),
  );
  expect(listed).toEqual(['order-1 11.0 ms', 'pay\\u{202e}-1 2.00 ms ✕ 1 failed']);
  await page.keyboard.press('w');
  await page.waitForURL(/zoom_from/);
  const other = await newPage();
  await other.page.goto(page.url());
  await other.page.waitForSelector('.moving');
  expect(await other.page.textContent('h1')).toContain(sentence);
  await page.click('li a:has-text("pay")');
  await page.waitForURL(/transaction=pay/);
  await page.waitForSelector('h1:has-text("of pay: 2.00 of 2.00 ms")');
  expect(errors).toEqual([]);
});

test('a trace without events is said to be without', async () => {
  const { url } = await served(recorded([call(0, 'order-1')]));
  const { page } = await newPage();
  await page.goto(`${url}/#trace=${OTHER_TRACE}`);
  await page.waitForSelector(`h1:has-text("No event of trace ${OTHER_TRACE} is here")`);
});
