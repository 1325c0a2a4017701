/** The page on paper: what a PDF has, and what is in the document while it is printed. */
import { inflateSync } from 'node:zlib';
import fc from 'fast-check';
import type { Page } from 'playwright-core';
import { selectLongestRows } from '../../daemon/page/table/rows.ts';
import { exampleRecording } from '../daemon/example_recording.ts';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { newPage, withPlainSpaces } from './browser.ts';

const LANES = '/#v=1&view=lanes&transaction=order-1';

const rows: Row[] = Array.from({ length: 120 }, (_, i) => ({
  ...{ at: START - 3_000_000_000n + BigInt(i) * 20_000_000n, duration: BigInt(1_000_000 + ((i * 7919) % 120) * 1000) },
  ...{ requested: 8n, result: 8n, transaction: i < 60 ? 'order-1' : `order-${i}` },
}));

/** The text that a printed page shows: `innerText` leaves out what the style sheet hides. */
const printed = async (page: Page) => withPlainSpaces((await page.evaluate('document.body.innerText')) as string);

async function onPaper(page: Page): Promise<string> {
  await page.emulateMedia({ media: 'print' });
  await page.waitForSelector('footer.printed');
  return printed(page);
}

test('the first view has its sentence, address, window, filters, losses and rows', async () => {
  const { url } = await served(recorded(rows.map((row) => ({ ...row, service: '\u202ecat' }))));
  const { page, errors } = await newPage();
  // The box has all of them: more than the rows that are listed.
  const link = `${url}/#v=1&service=%E2%80%AEcat&node=test-node&from=${START - 10n ** 10n}&box_min=1`;
  await page.goto(link);
  await page.waitForSelector('main[aria-busy="false"] section.wide tbody tr');
  expect(await printed(page)).not.toContain('Filters:');
  const text = await onPaper(page);
  expect(text).toContain((await page.textContent('h1'))!.replace(/ Open$/, ''));
  expect(text).toContain(link);
  expect(text).toContain('Window: 2025-11-20 23:59:50.000000000 to the end (UTC)');
  expect(text).toContain('Filters: service \\u{202e}cat, node test-node.');
  const missing = 'Missing: uncounted events lost in 1 gap.';
  expect(text).toContain(`${missing} Recorded until 2025-11-21 00:00:00.000000000 (UTC).`);
  expect(await page.locator('section.wide tbody tr:visible').count()).toBe(50);
  // Names of transactions are links, and are to be read on paper.
  expect(await page.locator('button:visible:not(.link, .pill), summary:visible').count()).toBe(0);
  await page.emulateMedia({ media: 'screen' });
  await page.waitForSelector('footer.printed', { state: 'detached' });
  expect(errors).toEqual([]);
});

test('a transaction has the longest of its events as rows, in either form', async () => {
  const { url, lines } = await served(recorded(rows));
  const durations = (await lines('/api/events?transaction_id=order-1')).map((line) => JSON.parse(line).duration_ns);
  const shortest = durations.toSorted((a: number, b: number) => b - a)[49];
  for (const form of ['', '&table=1']) {
    const { page, errors } = await newPage();
    await page.goto(url + LANES + form);
    await page.waitForSelector(form === '' ? '.moving' : '.rows');
    const sentence = await page.textContent('h1');
    const text = await onPaper(page);
    expect(text).toContain(sentence);
    expect(text).toContain('The 50 longest of 60 events');
    const cells = await page.locator('table.printed tbody tr td:nth-child(2)').allTextContents();
    const shown = cells.map((cell) => Math.round(Number(cell.replace(/[\sa-z]/g, '')) * 1e6));
    expect(shown).toEqual(durations.filter((ns: number) => ns >= shortest));
    expect(await page.locator('.rows, .replay').filter({ visible: true }).count()).toBe(0);
    expect(errors).toEqual([]);
  }
});

test('losses are said on paper, too', async () => {
  const { url } = await served(exampleRecording());
  const { page } = await newPage();
  await page.goto(url);
  await page.waitForSelector('table');
  expect(await onPaper(page)).toContain('Missing: 12 events lost in 1 gap');
  const whole = await served(recorded(rows));
  await page.goto(whole.url);
  await page.waitForSelector('footer.printed:has-text("Nothing is known to be missing.")');
  expect(await printed(page)).toContain('Nothing is known to be missing.');
});

test('pictures are drawn for paper in the dark theme, and dark again after it', async () => {
  const { url } = await served(recorded(rows));
  const { page } = await newPage({ colorScheme: 'dark' });
  await page.goto(url + LANES);
  await page.waitForSelector('.moving');
  const write = async () => (await page.evaluate(COLOUR_OF_WRITES)) as string;
  expect(await write()).toBe('3d8fd1');
  await onPaper(page);
  expect(await write()).toBe('00518f');
  const [paperPx, pictureRight] = (await page.evaluate(RIGHT_EDGES)) as [number, number];
  expect(pictureRight).toBeLessThanOrEqual(paperPx);
  await page.emulateMedia({ media: 'screen' });
  await page.waitForSelector('footer.printed', { state: 'detached' });
  expect(await write()).toBe('3d8fd1');
  expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark');
});

/** The most frequent colour of the picture in the row of the first lane, as hex digits. */
const COLOUR_OF_WRITES = `(() => {
  const canvas = document.querySelector('.stack canvas');
  const { data } = canvas.getContext('2d').getImageData(151, 45, canvas.width - 151, 1);
  const counts = new Map();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] < 255) continue;
    const colour = [0, 1, 2].map((i) => data[at + i].toString(16).padStart(2, '0')).join('');
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? '';
})()`;

const RIGHT_EDGES = `[innerWidth, Math.max(...[...document.querySelectorAll('canvas')].map((one) => one.getBoundingClientRect().right))]`;

test('a PDF has pages of text and a light picture, from a page for screens', async () => {
  const { url } = await served(recorded(rows));
  const { page } = await newPage({ colorScheme: 'dark' });
  for (const view of ['/', LANES]) {
    await page.goto(url + view);
    await page.waitForSelector(view === '/' ? 'table' : '.moving');
    const pdf = await page.pdf({ format: 'A4' });
    expect(pdf.toString('latin1', 0, 5)).toBe('%PDF-');
    const shows = streamsOf(pdf).filter((stream) => /^BT$/m.test(stream));
    expect(shows.length).toBeGreaterThan(0);
    // Text is shown by these operators: a page without its rows and its note has some dozens at most.
    const texts = shows.join('\n').match(/\bTJ\b|\bTj\b/g)!;
    expect(texts.length).toBeGreaterThan(300);
    await page.waitForSelector('footer.printed', { state: 'detached' });
    expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark');
  }
});

/** The compressed streams of a PDF. */
function streamsOf(pdf: Buffer): string[] {
  const streams: string[] = [];
  for (let at = pdf.indexOf('stream\n'); at >= 0; at = pdf.indexOf('stream\n', at + 1)) {
    if (pdf.toString('latin1', at - 3, at) === 'end') continue;
    const end = pdf.indexOf('endstream', at);
    try {
      streams.push(inflateSync(pdf.subarray(at + 7, end)).toString('latin1'));
    } catch {
      // It is compressed in another way, as a picture or a font may be.
    }
  }
  return streams;
}

test('the longest events are those of a sorted list, in order of start', () => {
  const duration = fc.oneof(fc.nat(5), fc.nat(2 ** 31));
  fc.assert(
    fc.property(fc.array(duration, { maxLength: 40 }), fc.integer({ min: 1, max: 12 }), (durations, most) => {
      const found = selectLongestRows({ count: durations.length, duration: Float64Array.from(durations) }, most);
      const sorted = durations.map((ns, row) => ({ ns, row })).sort((a, b) => b.ns - a.ns || a.row - b.row);
      const expected = sorted.slice(0, most).map(({ row }) => row);
      expect([...found]).toEqual(expected.sort((a, b) => a - b));
    }),
  );
});
