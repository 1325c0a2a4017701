/// <reference lib="dom" />
/** What the view of a transaction says, compared with what the API gives: digits, table, links, losses. */
import { inflateSync } from 'node:zlib';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import { exampleRecording } from '../daemon/example_recording.ts';
import { type Row, recorded, recordedOn, recordingPath, START, setInProgress, setMeta } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const addressOf = (url: string, more = '') => `${url}/#v=1&view=lanes&transaction=order-1${more}`;

/** The picture as rows of red, green, blue and alpha. */
interface Pixels {
  width: number;
  height: number;
  at(x: number, y: number): [number, number, number];
}

test('the digits of every event in the table are those of the API', async () => {
  const rows: Row[] = [
    { at: START - 9_007_199_254_740_993n, duration: 1n, requested: 1n, result: 1n, transaction: 'order-1' },
    { at: START - 999_999_999n, duration: 987_654_321n, requested: 2n ** 63n - 1n, transaction: 'order-1' },
    { at: START - 7n, duration: 5n, result: -28n, requested: 3n, transaction: 'order-1' },
  ];
  const { url, lines } = await served(recorded(rows));
  const { page } = await newPage();
  await page.goto(addressOf(url, '&table=1'));
  await page.waitForSelector('.rows tbody tr:nth-child(4)');
  const shown = await page.$$eval('.rows tbody tr[aria-rowindex]', (lines) =>
    lines.map((line) => [...line.children].map(({ textContent }) => textContent ?? '')),
  );
  const headings = await page.$$eval('.rows th', (cells) => cells.map(({ textContent }) => textContent ?? ''));
  const cell = (line: number, heading: string) => shown[line]![headings.indexOf(heading)]!.replaceAll(' ', '');
  const events = (await lines('/api/events?transaction_id=order-1')).map((line) => {
    const digits = (name: string) => new RegExp(`"${name}":(-?\\d+)`).exec(line)![1]!;
    return {
      duration: digits('duration_ns'),
      bytes: digits('bytes_requested'),
      id: /"event_id":"([^"]+)"/.exec(line)![1]!,
    };
  });
  expect(shown).toHaveLength(events.length);
  for (const [line, { duration, bytes, id }] of events.entries()) {
    expect([cell(line, 'Duration'), cell(line, 'Bytes'), cell(line, 'Event id')]).toEqual([
      `${duration
        .padStart(7, '0')
        .replace(/(?=.{6}$)/, '.')
        .replace(/\.?0+$/, '')}ms`,
      `${bytes}B`,
      id,
    ]);
  }
  expect(cell(2, 'Result')).toBe('ENOSPC');
});

test('a call leads to the request that it waited for, and back', async () => {
  const { url, get } = await served(exampleRecording());
  const { events } = (await get('/api/events?transaction_id=order-1&event_type=sys_sync')).json;
  const { page } = await newPage();
  await page.goto(addressOf(url, `&event=${events[0].event_id}`));
  await page.waitForSelector('h2:has-text("fdatasync")');
  expect(await page.textContent('h1')).toMatch(/^order-1 of db: .* in one fdatasync of /);
  expect(await page.textContent('.picture')).toContain('1 request wrote its data back, up to');
  await page.keyboard.press(']');
  await page.waitForSelector('text=Calls that waited for it');
  await page.keyboard.press('[');
  await page.waitForSelector('text=Requests that it waited for');
  expect(await page.textContent('.detail')).toContain(events[0].event_id);
});

test('the sentence is that of the API and of the tab, also where only later write-back names the device', async () => {
  const at = (ms: number) => START - 20_000_000_000n + BigInt(ms) * 1_000_000n;
  const origin = { service: 'shop', transaction: 'order-1', bytes: 4096n };
  const request = { type: 'block_io', device: 'vda', bytes: 4096n, result: 0n } as const;
  const rows: Row[] = [
    { at: at(0), duration: 20_000_000n, transaction: 'order-1', file: '/srv/\u202ea' },
    { ...request, at: at(5), duration: 5_000_000n, service: 'backup', source: 'none', pid: 9, tid: 9 },
    { ...request, at: at(8), duration: 5_000_000n, service: 'backup', source: 'none', device: 'loop1', pid: 9, tid: 9 },
    { ...request, at: at(5000), duration: 5_000_000n, transaction: 'order-1', source: 'origin', origins: [origin] },
  ];
  for (const folder of [exampleRecording(), recorded(rows)]) {
    const { url, get } = await served(folder);
    const { sentence } = (await get('/api/transactions/order-1/explain')).json;
    const { page } = await newPage();
    await page.goto(addressOf(url));
    await page.waitForSelector('main[aria-busy="false"] .moving');
    expect(await page.textContent('h1')).toBe(sentence);
    expect(await page.title()).toBe(`${sentence} · kreplay`);
    expect(await page.textContent('.lanes')).not.toContain('loop1');
  }
});

test('one failed event of 50 ns among many is seen at every zoom', async () => {
  const rows: Row[] = Array.from({ length: 20_000 }, (_, i) => ({
    ...{ at: START - 20_000_000_000n + BigInt(i) * 1_000_000n, duration: 900_000n, requested: 1n, result: 1n },
    transaction: 'order-1',
    ...(i === 7777 && { duration: 50n, result: -5n }),
  }));
  const { url } = await served(recorded(rows));
  const { page } = await newPage({ colorScheme: 'light' });
  await page.goto(addressOf(url));
  // The first picture shows only the first events.
  await page.waitForSelector('main[aria-busy="false"] .moving');
  for (let zoom = 0; zoom < 5; zoom++) {
    await page.waitForTimeout(100);
    for (const canvas of ['.minimap', '.stack canvas'])
      expect(await countOfColour(await page.locator(canvas).first().screenshot(), [0xb3, 0x26, 0x1e])).toBeGreaterThan(
        0,
      );
    await page.keyboard.press('w');
    // The failed one stays in view: it is at 39 % of the time.
    if (zoom === 0) await page.keyboard.press('a');
  }
});

test('what a latency adds is drawn below each lane, to the end that the daemon projects', async () => {
  const { url } = await served(
    recorded([
      { at: START - 5_000_000_000n, duration: 40_000_000n, transaction: 'order-1' },
      { at: START - 4_950_000_000n, duration: 50_000_000n, transaction: 'order-1' },
    ]),
  );
  const { page, errors } = await newPage({ colorScheme: 'light', viewport: { width: 1280, height: 800 } });
  const added = async () => countOfColour(await page.locator('.stack canvas').first().screenshot(), [0x8e, 0x2f, 0x86]);
  await page.goto(addressOf(url));
  await page.waitForSelector('.moving');
  expect(await added()).toBe(0);
  await page.goto(addressOf(url, '&latency=100000000'));
  await page.waitForSelector('text=what the latency adds');
  await page.waitForSelector('text=becomes 300');
  // 200 ms of 300, four pixels high, in a picture of some 1000 pixels.
  const wide = await added();
  expect(wide / 4).toBeGreaterThan(500);
  expect(wide / 4).toBeLessThan(900);
  await page.goto(addressOf(url));
  await page.waitForSelector('text=what the latency adds', { state: 'detached' });
  expect(errors).toEqual([]);
});

test('events that are missing are said beside the picture', async () => {
  const { url } = await served(
    recorded([{ at: START - 5_000_000_000n, duration: 2_000_000_000n, transaction: 'order-1' }], (writer) =>
      writer.recordLoss({
        ...{ cause: 'ring_full', eventType: 'sys_write', count: 12 },
        ...{ fromNs: START - 4_500_000_000n, toNs: START - 4_400_000_000n },
      }),
    ),
  );
  const { page } = await newPage();
  await page.goto(addressOf(url));
  await page.waitForSelector('text=At least 12 events are missing in this time');
  await page.click('.pill');
  await page.waitForSelector('text=the agent did not drain the ring buffer in time');
});

test('how long a call has been in progress is left out where the answer does not say until when it is known', async () => {
  const open = {
    at: START - 3_000_000_000n,
    transaction: 'order-1',
    type: 'sys_sync',
    file: '/srv/wal',
    comm: 'db',
  } as const;
  const paths = Array.from({ length: 20 }, (_, i) => {
    const isLast = i === 19;
    const rows: Row[] = [{ at: START - 4_000_000_000n, transaction: 'order-1' }];
    const path = recordingPath(
      recordedOn(`n${i}`, rows, (writer) => {
        if (isLast) setInProgress(writer, [open]);
      }),
    );
    setMeta(path, { alive_ns: isLast ? START : START - 1_000_000n });
    return path;
  });
  const { url } = await served(openRecordingStore(undefined, paths));
  const { page } = await newPage();
  await page.goto(addressOf(url));
  await page.waitForSelector('text=In progress: fsync of /srv/wal by db.');
});

test('calls in progress are said beside the picture, and count for the deadline of a what-if', async () => {
  const first = START - 5_000_000_000n;
  const { url } = await served(
    recorded([{ at: first, duration: 2_000_000n, transaction: 'order-1' }], (writer) =>
      setInProgress(writer, [
        {
          at: first + 3_000_000n,
          transaction: 'order-1',
          type: 'sys_sync',
          syscall: 'fsync',
          file: '/srv/wal',
          comm: 'db',
        },
        { at: first + 4_000_000n, transaction: 'order-2' },
      ]),
    ),
  );
  const { page, errors } = await newPage();
  await page.goto(addressOf(url, '&timeout=1000000000'));
  await page.waitForSelector('text=In progress: fsync of /srv/wal by db, for 5.00 s so far.');
  await page.waitForSelector('text=✕ times out: a call in progress has not ended by then');
  await page.waitForSelector('text=▲ at least:');
  expect(await page.textContent('main')).not.toContain('computed otherwise');
  expect(errors).toEqual([]);
});

test('a transaction that is overwritten while it is looked at stays, and is said to be gone', async () => {
  const { url } = await served(exampleRecording());
  const { page } = await newPage();
  await page.goto(addressOf(url));
  await page.waitForSelector('.moving');
  await page.route('**/api/transactions/**', (route) =>
    route.fulfill({
      status: 404,
      contentType: 'application/problem+json',
      body: '{"code":"transaction_not_found","detail":"no events of transaction order-1 are recorded"}',
    }),
  );
  await page.evaluate('location.hash = "#v=1"');
  await page.waitForSelector('table');
  await page.click('text=Open');
  await page.waitForSelector('text=it was never recorded, or retention has removed it');
});

/** Number of pixels with this colour in a picture of Chromium: 8 bits per channel, with or without alpha. */
async function countOfColour(png: Buffer, [red, green, blue]: readonly number[]): Promise<number> {
  const pixels = decodePng(png);
  let count = 0;
  for (let y = 0; y < pixels.height; y++)
    for (let x = 0; x < pixels.width; x++) {
      const [r, g, b] = pixels.at(x, y);
      if (Math.abs(r - red!) + Math.abs(g - green!) + Math.abs(b - blue!) < 12) count++;
    }
  return count;
}

function decodePng(png: Buffer): Pixels {
  const [width, height, channels] = [png.readUInt32BE(16), png.readUInt32BE(20), png[25] === 6 ? 4 : 3];
  const parts: Buffer[] = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at))
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT')
      parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  const raw = inflateSync(Buffer.concat(parts));
  const stride = width * channels;
  const out = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)]!;
    for (let x = 0; x < stride; x++) {
      const left = x >= channels ? out[y * stride + x - channels]! : 0;
      const up = y > 0 ? out[(y - 1) * stride + x]! : 0;
      const corner = y > 0 && x >= channels ? out[(y - 1) * stride + x - channels]! : 0;
      const predicted = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter]!;
      out[y * stride + x] = raw[y * (stride + 1) + 1 + x]! + predicted;
    }
  }
  const at = (x: number, y: number): [number, number, number] => {
    const place = y * stride + x * channels;
    return [out[place]!, out[place + 1]!, out[place + 2]!];
  };
  return { width, height, at };
}

/** The predictor of RFC 2083, section 6.6. */
function paeth(left: number, up: number, corner: number): number {
  const estimate = left + up - corner;
  const [a, b, c] = [Math.abs(estimate - left), Math.abs(estimate - up), Math.abs(estimate - corner)];
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

test('a key after the one that leaves the table is for the picture, though no frame was drawn between', async () => {
  const { url } = await served(exampleRecording());
  const { page, errors } = await newPage();
  await page.goto(addressOf(url, '&table=1'));
  await page.waitForSelector('.rows');
  await page.evaluate(async () => {
    const press = (key: string) => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    press('v');
    // The page renders in a microtask; a frame is a task.
    for (let i = 0; i < 20; i++) await Promise.resolve();
    if (document.querySelector('.rows')) throw new Error('the table is still shown');
    press('w');
    press('ArrowRight');
  });
  await page.waitForURL(/event=/);
  await page.waitForURL(/zoom_from=/);
  expect(errors).toEqual([]);
});

test.each(['overview', 'lanes&transaction=order-1', 'live', 'compare', 'health'])(
  'at 390 px no line of %s parts a number from its unit',
  async (view) => {
    const { url } = await served(exampleRecording());
    const { page } = await newPage({ viewport: { width: 390, height: 844 } });
    await page.goto(`${url}/#v=1&view=${view}`);
    await page.waitForSelector('main:not([aria-busy=true]) h1');
    const texts = await page.evaluate(() => {
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      const found: string[] = [];
      while (walker.nextNode()) {
        const { data, parentElement } = walker.currentNode as Text;
        if (getComputedStyle(parentElement!).whiteSpace !== 'nowrap') found.push(data);
      }
      return found;
    });
    expect(texts.length).toBeGreaterThan(10);
    expect(texts.filter((text) => /\d (ms|s|µs|ns|%|B|[KMG]iB|\d{3})(?!\w)/.test(text))).toEqual([]);
  },
);

test('the sentence of a page differs from that of the API only in spaces that keep a line together', async () => {
  const { url, get } = await served(exampleRecording());
  const { sentence } = (await get('/api/transactions/order-1/explain')).json;
  const { page } = await newPage();
  await page.goto(addressOf(url));
  await page.waitForSelector('h1:has-text("order-1 of db")');
  const shown = String(await page.evaluate('document.querySelector("h1").textContent'));
  expect(shown).toMatch(/\d\u00a0ms/);
  expect(shown.replaceAll('\u00a0', ' ')).toBe(sentence);
});
