/** A replay as the page plays it: with a second client, over cut connections, and after the daemon was started again. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import type { Daemon } from '../../daemon/page/api/daemon.ts';
import { FailedRequest, readFailure } from '../../daemon/page/api/failure.ts';
import { type Frame, follow } from '../../daemon/page/replay/stream.ts';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { type Served, served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const EVENTS = 300;
const PERIOD_NS = 10_000_000n;

const rows: Row[] = Array.from({ length: EVENTS }, (_, i) => ({
  ...{ at: START - 10_000_000_000n + BigInt(i) * PERIOD_NS, duration: 2_000_000n, tid: 10 + (i % 3) },
  transaction: 'order-1',
}));

const LANES = '/#v=1&view=lanes&transaction=order-1';

async function opened(url: string, more = '') {
  const { page, errors } = await newPage();
  await page.goto(url + LANES + more);
  await page.waitForSelector('.moving');
  return { page, errors };
}

/** What is shown after the screen was drawn again. */
const AFTER_TWO_FRAMES = `new Promise((resolve) => {
  const read = () => resolve(document.querySelector('.replay output').textContent);
  requestAnimationFrame(() => requestAnimationFrame(read));
})`;

const figures = async (page: Page) => (await page.textContent('.figures')) ?? '';
async function sessionIn(page: Page): Promise<string> {
  await page.waitForURL(/session=/);
  return /session=([0-9a-f-]+)/.exec(page.url())![1]!;
}

function command(daemon: Pick<Served, 'get'>, session: string, at: string, body = '{}', method = 'POST') {
  const headers = { 'content-type': 'application/json' };
  return daemon.get(`/api/replay/sessions/${session}${at}`, { method, headers, body });
}

test('it plays, pauses, steps both ways, seeks, and changes speed, latency and loop by keys', async () => {
  const daemon = await served(recorded(rows));
  const { page, errors } = await opened(daemon.url);
  await page.keyboard.press('Space');
  await page.waitForSelector('text=/playing, event \\d+ of 300/');
  await page.keyboard.press('Space');
  await page.waitForSelector('text=/paused, event/');
  const session = await sessionIn(page);
  const at = async () => (await daemon.get(`/api/replay/sessions/${session}`)).json;
  const before = (await at()).event_index;
  await page.keyboard.press('Period');
  await page.waitForSelector(`text=paused, event ${before + 1} of 300`);
  await page.keyboard.press('Comma');
  await page.waitForSelector(`text=paused, event ${before} of 300`);
  await page.keyboard.press('Home');
  await page.waitForSelector('text=paused, event 0 of 300');
  await page.keyboard.press('Shift+Equal');
  await page.keyboard.press('o');
  await page.keyboard.press('l');
  await page.waitForSelector('text=/\\+100(\\.0)? µs each/');
  await sleep(200);
  const { speed_factor, loop, extra_latency_ns } = await at();
  expect([speed_factor, loop, extra_latency_ns]).toEqual([2, true, 100_000]);
  await page.keyboard.press('Shift+L');
  await page.waitForSelector('.replay input:checked');
  await page.keyboard.press('o');
  await page.waitForSelector('.replay input:checked', { state: 'detached' });
  await page.keyboard.press('End');
  await page.waitForSelector('text=/event 300 of 300/');
  expect(errors).toEqual([]);
});

test('two browsers watch one session, and each sees what the other does', async () => {
  const daemon = await served(recorded(rows));
  const one = await opened(daemon.url, '&speed=0.1');
  await one.page.keyboard.press('Space');
  await one.page.waitForURL(/session=/);
  const other = await newPage();
  await other.page.goto(one.page.url());
  await other.page.waitForSelector('text=/playing, event [1-9]/');
  await other.page.keyboard.press('Space');
  await other.page.waitForSelector('text=/paused, event/');
  await one.page.waitForSelector('text=/paused, event/');
  expect(await figures(one.page)).toBe(await figures(other.page));
  expect(await one.page.textContent('.replay output')).toBe(await other.page.textContent('.replay output'));
});

test('the playhead is where the clock of the daemon is', async () => {
  const daemon = await served(recorded(rows));
  const { page } = await opened(daemon.url);
  await page.keyboard.press('Space');
  await page.waitForSelector('text=/playing, event [1-9]/');
  const session = await sessionIn(page);
  const position = async () => (await daemon.get(`/api/replay/sessions/${session}`)).json;
  for (let i = 0; i < 5; i++) {
    await sleep(200);
    const before = await position();
    const text = String(await page.evaluate(AFTER_TWO_FRAMES));
    const after = await position();
    if (after.state !== 'playing') break;
    const [, digits, unit] = /^([\d.]+) (m?s) of/.exec(text)!;
    const shownMs = Number(digits) * (unit === 's' ? 1000 : 1);
    // A difference of up to 30 ms is made up for little by little, and the text has three digits.
    expect(shownMs).toBeGreaterThan(before.position_ns / 1e6 - 50);
    expect(shownMs).toBeLessThan(after.position_ns / 1e6 + 50);
  }
});

test('commands of others, a stop and a deletion are said in words', async () => {
  const daemon = await served(recorded(rows));
  const { page } = await opened(daemon.url);
  await page.keyboard.press('Period');
  await page.waitForSelector('text=paused, event 1 of 300');
  const session = await sessionIn(page);
  await command(daemon, session, '', '{"speed_factor": 4}', 'PATCH');
  while ((await page.inputValue('.replay select')) !== '4') await sleep(20);
  await command(daemon, session, '/stop');
  await page.waitForSelector('text=/stopped, event 1/');
  expect(await page.isDisabled('.replay button.primary')).toBe(true);
  await command(daemon, session, '', '', 'DELETE');
  await page.reload();
  await page.waitForSelector('text=it was deleted or has expired: play makes a new one');
});

test('eight tabs show one session, and none of them hangs', async () => {
  const daemon = await served(recorded(rows));
  const { page } = await opened(daemon.url);
  await page.keyboard.press('Period');
  const session = await sessionIn(page);
  const others = Array.from({ length: 7 }, async () => {
    const tab = await page.context().newPage();
    await tab.goto(page.url());
    await tab.waitForSelector('.figures');
    return tab;
  });
  const tabs = [page, ...(await Promise.all(others))];
  await command(daemon, session, '/step', '{"count": 2}');
  for (const tab of tabs) {
    await tab.bringToFront();
    await tab.waitForSelector('text=paused, event 3 of 300');
  }
});

describe('the stream', () => {
  const wait = globalThis.setTimeout;
  afterEach(() => {
    globalThis.setTimeout = wait;
  });

  /** Lets this process wait a tenth of the time, until the test ends: the stream waits a second and more between cuts. */
  function waitATenth(): void {
    const waitLess = (run: () => void, ms = 0, ...rest: []) => wait(run, ms / 10, ...rest);
    globalThis.setTimeout = waitLess as typeof setTimeout;
  }

  /** Asks over connections that are cut after some bytes. */
  function cutDaemon(url: string, bytesMax: () => number): Daemon {
    const ask: Daemon['ask'] = async (path, { method = 'GET', headers, signal } = {}) => {
      const response = await fetch(url + path, { method, headers: headers ?? {}, signal: signal ?? null });
      if (!response.ok) throw new FailedRequest(await readFailure(response));
      let left = bytesMax();
      const cut = new TransformStream<Uint8Array, Uint8Array>({
        transform(part, to) {
          to.enqueue(part.subarray(0, left));
          left -= part.length;
          if (left <= 0) to.error(new Error('cut'));
        },
      });
      return new Response(response.body!.pipeThrough(cut), { headers: response.headers });
    };
    return {
      ask,
      askJson: async () => Promise.reject(new Error('not asked')),
      authorization: () => ({}),
      createFailedRequest: (failure) => new FailedRequest(failure),
    };
  }

  test('has every event once and in order over cut connections, seeks and pauses', async () => {
    waitATenth();
    const daemon = await served(recorded(rows));
    const created = await daemon.get('/api/replay/sessions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"transaction_id": "order-1", "speed_factor": 4}',
    });
    const { session_id, last_event_id } = created.json;
    const frames: Frame[] = [];
    const closing = new AbortController();
    let cuts = 0;
    const asked = cutDaemon(daemon.url, () => (cuts++ < 12 ? 9000 + 500 * cuts : Number.POSITIVE_INFINITY));
    const ended = follow(asked, session_id, last_event_id, (frame) => frames.push(frame), closing.signal);
    await command(daemon, session_id, '/play');
    await sleep(300);
    await command(daemon, session_id, '/pause');
    await command(daemon, session_id, '/seek', '{"event_index": 20}');
    await command(daemon, session_id, '/play');
    while ((await daemon.get(`/api/replay/sessions/${session_id}`)).json.state !== 'finished') await sleep(50);
    while (!frames.some(({ kind }) => kind === 'end')) await sleep(20);
    closing.abort();
    await ended;
    expect(cuts).toBeGreaterThan(5);
    const ids = frames.flatMap((frame) => ('id' in frame ? [frame.id] : []));
    expect(ids).toEqual(Array.from(ids, (_, i) => last_event_id + 1 + i));
    let next = 0;
    for (const frame of frames) {
      if (frame.kind === 'state') next = frame.session.event_index;
      if (frame.kind !== 'event') continue;
      expect(frame.played.replay.index).toBe(next);
      next++;
    }
    expect(next).toBe(EVENTS);
    expect(frames.filter(({ kind }) => kind === 'gap')).toEqual([]);
  });

  test('ends with the reason when the session is gone', async () => {
    const daemon = await served(recorded(rows));
    const asked = cutDaemon(daemon.url, () => Number.POSITIVE_INFINITY);
    const failure = await follow(asked, 'none', null, () => {}, new AbortController().signal);
    expect(failure?.code).toBe('session_not_found');
  });
});
