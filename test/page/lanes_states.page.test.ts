/** What the lanes say where there is little or nothing to show: no picture without words, and no blank page. */
import { openWriter } from '../../agent/recording/write/writer.ts';
import { appendRows, NODE, newFolder, type Row, recorded, recordingPath, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const OF_ORDER: Row = { at: START - 5_000_000_000n, duration: 1_000_000n, transaction: 'order-1' };
const lanes = (url: string, more = '') => `${url}/#v=1&view=lanes&transaction=order-1${more}`;

test('the only event of a transaction took no time: it is seen, selected and listed', async () => {
  const { url, get } = await served(recorded([{ ...OF_ORDER, duration: 0n }]));
  const { events } = (await get('/api/events?transaction_id=order-1')).json;
  const { page, errors } = await newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(lanes(url));
  await page.waitForSelector('.minimap');
  expect(await page.textContent('h1')).toBe('order-1 of shop took 0 ns.');
  for (const key of ['w', 's', 'a', 'd', 'f', 'ArrowRight']) await page.keyboard.press(key);
  await page.waitForSelector('.detail');
  expect(await page.textContent('.detail')).toContain(events[0].event_id);
  await page.keyboard.press('v');
  await page.waitForSelector('tr.selected');
  expect(errors).toEqual([]);
});

test('an event of the link that is not in the transaction is said to be missing', async () => {
  const other: Row = { ...OF_ORDER, at: START - 4_000_000_000n, transaction: 'order-2' };
  const { url, get } = await served(recorded([OF_ORDER, other]));
  const { events } = (await get('/api/events?transaction_id=order-2')).json;
  const { page } = await newPage();
  for (const event of [events[0].event_id, 'no-event', '%E2%80%AEevil']) {
    await page.goto(lanes(url, `&event=${event}`));
    await page.waitForSelector('text=of the link is not here');
    await page.waitForSelector('.moving');
    expect(await page.textContent('main')).not.toContain('\u202e');
    await page.click('text=Forget it');
    await page.waitForURL((now) => !now.hash.includes('event='));
    expect(await page.locator('text=of the link is not here').count()).toBe(0);
  }
});

test('a detail says in words how the owner of the event is known', async () => {
  const rows: Row[] = [
    OF_ORDER,
    {
      ...{ ...OF_ORDER, type: 'block_io', at: OF_ORDER.at + 9n, quality: 'shared', source: 'origin', result: 0n },
      origins: [
        { transaction: 'order-1', bytes: 64n },
        { service: 'pay', transaction: 'order-2', bytes: 32n },
      ],
    },
  ];
  const { url, get } = await served(recorded(rows));
  const { events } = (await get('/api/events?transaction_id=order-1')).json;
  const { page } = await newPage();
  await page.goto(lanes(url, `&event=${events[0].event_id}`));
  await page.waitForSelector('text=Its owner is known by a marker that the thread or its process wrote. It is exact');
  await page.goto(lanes(url, `&event=${events[1].event_id}`));
  await page.waitForSelector('text=It is shared: a request carries the data of several owners');
  expect(await page.textContent('.detail')).toContain('It wrote data back, and is no part of the time.');
  expect(await page.textContent('.detail')).toContain('pay order-2 32 B');
});

test('a transaction that retention overwrites while it is looked at stays, and is said to be gone', async () => {
  const folder = newFolder();
  let nowNs = START;
  const second = 1_000_000_000n;
  const origin = { node: NODE, bootId: 'boot', machineId: 'machine' };
  const retention = { ageNs: 10n * second };
  const writer = openWriter({ path: recordingPath(folder), ...origin, nowNs: () => nowNs, retention });
  const calls = Array.from({ length: 50 }, (_, i) => ({ ...OF_ORDER, at: OF_ORDER.at + BigInt(i) * 2_000_000n }));
  appendRows(writer, calls);
  const { url, get, setNow } = await served(folder);
  const { page, errors } = await newPage();
  await page.goto(lanes(url));
  await page.waitForSelector('.moving');
  const sentence = await page.textContent('h1');

  for (let i = 0; i < 40; i++) {
    nowNs += second;
    const later = Array.from({ length: 4096 }, (_, at): Row => ({ at: nowNs - second + BigInt(at), transaction: 'x' }));
    appendRows(writer, later, 4096);
  }
  setNow(nowNs);
  expect((await get('/api/transactions/order-1')).status).toBe(404);
  await page.keyboard.press('ArrowRight');
  await page.waitForSelector('.detail');
  await page.keyboard.press('Period');
  await page.waitForSelector('text=it was never recorded, or retention has removed it');
  expect(await page.textContent('h1')).toBe(sentence);

  await page.reload();
  await page.waitForSelector('text=it was never recorded, or retention has removed it');
  // Chromium itself reports an answer with an error.
  expect(errors.filter((text) => !text.includes('status of 404'))).toEqual([]);
  writer.close();
});
