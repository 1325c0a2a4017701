/** What the page keeps of a transaction, which it reads in parts, each laid out again. */
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const RESTS_MS = 10_000;
const EVENTS = 60_000;
/** Columns, lanes and tracks take some 110 bytes an event: two pictures would take more than this. */
const BYTES_PER_EVENT_MAX = 150;
/** Typed arrays of pictures that do not grow with the events. */
const OTHER_BYTES_MAX = 1_500_000;

test('only the last picture is kept of those of the first events, of all, and of all with requests of others', async () => {
  const at = (i: number) => START - 1_000_000_000n + BigInt(i) * 10_000n;
  const rows = Array.from({ length: EVENTS }, (_, i): Row => {
    const row = { at: at(i), duration: 4000n, result: 1n };
    // Every tenth is a request of nobody, which is in the way of the others.
    return i % 10 === 0 ? { ...row, type: 'block_io' } : { ...row, requested: 1n, transaction: 'order-1' };
  });
  const { url } = await served(recorded(rows));
  const { page } = await newPage();
  await page.goto(`${url}/#v=1&view=lanes&transaction=order-1`);
  await page.waitForSelector('canvas.moving');
  await page.waitForSelector('main[aria-busy=false]');
  const session = await page.context().newCDPSession(page);
  const keptBytes = async () => {
    await session.send('HeapProfiler.collectGarbage');
    return ((await session.send('Runtime.getHeapUsage')) as { backingStorageSize: number }).backingStorageSize;
  };
  const mostBytes = EVENTS * BYTES_PER_EVENT_MAX + OTHER_BYTES_MAX;
  // What is drawn and rendered last lets go of the picture before.
  for (const end = Date.now() + RESTS_MS; (await keptBytes()) > mostBytes && Date.now() < end; )
    await page.waitForTimeout(100);
  const bytes = await keptBytes();
  expect(bytes).toBeGreaterThan(EVENTS * 60);
  expect(bytes).toBeLessThan(mostBytes);
});
