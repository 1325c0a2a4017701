/** The page with what it did not choose: names and numbers that were recorded, links, a daemon that refuses or ends. */
import { writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import express, { type Response } from 'express';
import { pino } from 'pino';
import type { Page } from 'playwright-core';
import { createBearerCheck } from '../../daemon/http/access/bearer.ts';
import { createScanGate, type ScanGate } from '../../daemon/http/access/scan_gate.ts';
import { createSecret, hashSecret } from '../../daemon/http/access/token.ts';
import { openTokens } from '../../daemon/http/access/tokens.ts';
import { close, listen } from '../../daemon/server/server.ts';
import { start } from '../daemon/command_line.ts';
import { newFolder, type Row, recorded, recordedOn, recordingPath, START } from '../daemon/recorded.ts';
import { type Served, served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const LANES = '/#v=1&view=lanes&transaction=order-1';
const JSON_HEADERS = { 'content-type': 'application/json' };

const rows: Row[] = Array.from({ length: 200 }, (_, i) => ({
  ...{ at: START - 10_000_000_000n + BigInt(i) * 20_000_000n, duration: 2_000_000n, transaction: 'order-1' },
}));

/** Whether a character hides, or changes how others are read. Line ends and tabs are of the document itself. */
function isHidden(character: string): boolean {
  const code = character.codePointAt(0)!;
  if (code < 0x20) return !'\n\t\r'.includes(character);
  const ranges = [
    [0x7f, 0x9f],
    [0xad, 0xad],
    [0x200b, 0x200f],
    [0x2028, 0x202e],
    [0x2060, 0x2069],
    [0xfeff, 0xfeff],
  ];
  return ranges.some(([first, last]) => code >= first! && code <= last!);
}

/** All text of the document, with that of its attributes but for values of a choice, which are not shown. */
const EVERYTHING = `[
  document.body.innerText,
  document.title,
  ...[...document.querySelectorAll('body *')].flatMap((one) => [...one.attributes].flatMap(({ name, value }) => (name === 'value' ? [] : value))),
].join('\\n')`;
const ELEMENTS = `[...new Set([...document.querySelectorAll('body *')].map(({ localName }) => localName))].join()`;

async function expectPlain(page: Page): Promise<void> {
  const text = (await page.evaluate(EVERYTHING)) as string;
  expect([...text].filter(isHidden)).toEqual([]);
  expect(await page.evaluate(ELEMENTS)).not.toMatch(/\b(b|img|script|svg|iframe|object)\b/);
}

const HOSTILE = [
  '<img src=x onerror="document.title=1">',
  '</script><script>document.title=2</script>',
  '__proto__',
  'constructor',
  '\u202egnp.exe\u2066',
  '\x1b[31mred\x07\x00\r\nnext\tline',
  'zero\u200bwidth\ufeff',
  'javascript:document.title=3',
  `\ud800half`,
  'x'.repeat(4096),
];

test('hostile names are text in every view, table, detail and list', async () => {
  const hostileRows = HOSTILE.map(
    (name, i): Row => ({
      ...{ at: START - 1_000_000n + BigInt(i) * 1000n, duration: 500n, file: `/${name}`, requested: 1n, service: name },
      ...{ comm: name.slice(0, 15), transaction: i < 2 ? 'order-1' : name.slice(0, 200), tid: 100 + i },
    }),
  );
  const device: Row = { type: 'block_io', at: START - 900_000n, device: HOSTILE[0]!, service: HOSTILE[4]! };
  const { url, get } = await served(recordedOn(HOSTILE[1]! + HOSTILE[4]!, [...hostileRows, device]));
  const { page, errors, requested } = await newPage();
  await page.goto(url);
  await page.waitForSelector('table');
  await expectPlain(page);
  const text = await page.textContent('table');
  for (const shown of ['<img src=x', '\\u{202e}gnp.exe', '\\u{1b}[31mred\\u{7}', 'zero\\u{200b}width', '__proto__'])
    expect(text).toContain(shown);
  const { transactions } = (await get('/api/transactions')).json;
  expect(transactions).toHaveLength(HOSTILE.length - 1);
  for (const { transaction_id } of transactions) {
    await page.goto(`${url}/#v=1&view=lanes&transaction=${encodeURIComponent(transaction_id)}`);
    await page.waitForSelector('main[aria-busy=false] .moving');
    await page.keyboard.press('ArrowRight');
    await page.waitForSelector('.detail');
    await expectPlain(page);
    await page.keyboard.press('v');
    await page.waitForSelector('tr.selected');
    await expectPlain(page);
  }
  await page.goto(`${url}/#v=1&view=health`);
  await page.waitForSelector('text=Recordings');
  await expectPlain(page);
  expect(await page.title()).toBe('Health · kreplay');
  expect(errors).toEqual([]);
  expect(requested.filter((address) => !address.startsWith(url))).toEqual([]);
});

test('what a link asks for is plain text where it is refused, too', async () => {
  const { url } = await served(recorded(rows));
  const { page } = await newPage();
  const name = encodeURIComponent('\u202e<img src=x>\x07');
  await page.goto(`${url}/#v=1&view=lanes&transaction=${name}`);
  await page.waitForSelector('text=it was never recorded, or retention has removed it');
  await expectPlain(page);
  await page.goto(`${url}/#v=1&${name}=1&view=${name}&service=${name}`);
  await page.waitForSelector('text=Parts of the link were not understood');
  await page.waitForSelector('text=No transaction matches service');
  await expectPlain(page);
});

test('a value of the link that the daemon refuses is named with what to do, and can be changed', async () => {
  const { url } = await served(recorded(rows));
  const { page } = await newPage();
  await page.goto(`${url}${LANES}&latency=1000&timeout=5000000&only_event_type=sys_nothing`);
  const failure = await page.waitForSelector('.failure:has-text("choose another value, here or in the link")');
  expect(await failure.textContent()).toContain('only/event_type');
  await page.selectOption('select[aria-label="Events that take longer"]', 'sys_write');
  await page.waitForSelector('.failure', { state: 'detached' });
  await page.waitForURL(/only_event_type=sys_write/);
});

test('an event that a link names and that is not there is said, and the rest is shown', async () => {
  const { url } = await served(recorded(rows));
  const { page, errors } = await newPage();
  await page.goto(`${url}${LANES}&event=00000000000000aa-0000000000000001`);
  await page.waitForSelector('text=of the link is not here');
  expect(await page.isVisible('.moving')).toBe(true);
  await page.keyboard.press('ArrowRight');
  await page.waitForSelector('.detail');
  await page.waitForSelector('text=of the link is not here', { state: 'detached' });
  expect(errors).toEqual([]);
});

test('numbers near the end of 64 bits have all digits in detail and table', async () => {
  const END = 2n ** 63n - 1n;
  const { url, lines } = await served(
    recorded([
      { at: 2n ** 53n + 1n, duration: END - 2n ** 53n - 1n, requested: END, result: END, transaction: 'order-1' },
      { at: END - 9n, duration: 9n, requested: 2n ** 53n + 1n, result: 2n ** 53n + 1n, transaction: 'order-1' },
    ]),
  );
  const answers = await lines('/api/events?transaction_id=order-1');
  const { page, errors } = await newPage();
  await page.goto(url + LANES);
  await page.waitForSelector('main[aria-busy=false] .moving');
  for (const answer of answers) {
    await page.keyboard.press('ArrowRight');
    const id = /"event_id":"([^"]+)"/.exec(answer)![1]!;
    await page.waitForSelector(`.detail >> text=${id}`);
    const values = await page.$$eval('.detail dd', (cells) => cells.map(({ textContent }) => textContent));
    // A duration has its nanoseconds as decimal places of a millisecond.
    const digits = values
      .map((value) => {
        const [, places] = /^[\d ]+(?:\.(\d+))? ms$/.exec(value!) ?? [];
        return value!.endsWith(' ms')
          ? value!.replace(/\.\d+|\D/g, '') + (places ?? '').padEnd(6, '0')
          : value!.replace(/\D/g, '');
      })
      .map((text) => text.replace(/^0+(?=\d)/, ''));
    for (const field of ['duration_ns', 'bytes_requested', 'result'])
      expect(digits).toContain(new RegExp(`"${field}":(\\d+)`).exec(answer)![1]);
  }
  // The second 9223372036 of the epoch, by `date --utc`.
  expect(await page.textContent('.detail')).toContain('2262-04-11 23:47:16.854775798');
  await page.keyboard.press('v');
  await page.waitForSelector('tr.selected');
  expect((await page.textContent('.rows'))!.replace(/[^\d+]/g, '')).toContain(`+${END - 9n - 2n ** 53n - 1n}`);
  expect(errors).toEqual([]);
});

test('a daemon that is killed while it plays is said to be gone, and its successor plays on', async () => {
  const recording = recordingPath(recorded(rows));
  const state = `${newFolder()}/sessions.sqlite`;
  const daemonOn = (listen: string) => start('daemon', '--recording', recording, '--state', state, '--listen', listen);
  const first = daemonOn('127.0.0.1:0');
  const [, url] = / at (\S+)\n/.exec(await first.printed(/\n/))!;
  const { page } = await newPage();
  await page.goto(url! + LANES);
  await page.waitForSelector('.moving');
  await page.keyboard.press('Space');
  await page.waitForSelector('text=/playing, event [1-9]/');
  // What is kept of a session is written a little later.
  await sleep(1500);
  first.child.kill('SIGKILL');
  await first.ended;
  await page.waitForSelector('text=not connected: what is shown may be old');
  await page.waitForSelector('text=see whether kreplay daemon is running');
  expect([await page.isVisible('.moving'), await page.isVisible('h1')]).toEqual([true, true]);
  const next = daemonOn(new URL(url!).host);
  await next.printed(/\n/);
  await page.waitForSelector('text=not connected: what is shown may be old', { state: 'detached' });
  await page.waitForSelector('text=/(playing|paused), event [1-9]/');
  if (await page.isVisible('text=/paused, event/')) await page.keyboard.press('Space');
  await page.waitForSelector('text=event 200 of 200');
  await page.waitForSelector('text=see whether kreplay daemon is running', { state: 'detached' });
  next.child.kill();
  await next.ended;
});

/** A gate whose only turn is taken by a request that is never answered. */
async function busyGate(): Promise<ScanGate> {
  const gate = createScanGate({ scansMax: 1, waitMsMax: 1, nowMs: () => performance.now() });
  const taken = Promise.withResolvers<void>();
  const takeTurn = async (_req: unknown, res: Response) => {
    await gate.enter(res);
    taken.resolve();
  };
  const [server, url] = await listen(express().use(takeTurn), { host: '127.0.0.1', port: 0 });
  servers.push(server);
  fetch(url).catch(() => {});
  await taken.promise;
  return gate;
}

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await close(server);
});

test('a busy daemon and a question that takes too long are said, and asked again on demand', async () => {
  const usual = createScanGate({ nowMs: () => performance.now() });
  let gate: ScanGate = usual;
  const { url } = await served(recorded(rows), { scanGate: { enter: (res) => gate.enter(res) } });
  const { page } = await newPage();
  gate = await busyGate();
  await page.goto(url);
  await page.waitForSelector('text=ask again, or for less');
  let readings = 0;
  gate = createScanGate({ queryTimeoutMs: 500, nowMs: () => 501 * readings++ });
  await page.click('button:has-text("Ask again")');
  await page.waitForSelector('text=ask for less: a shorter window, or one service');
  gate = usual;
  await page.click('button:has-text("Ask again")');
  await page.waitForSelector('table');
  gate = await busyGate();
  await page.click('h1 a');
  await page.waitForSelector('text=ask again, or for less');
  gate = usual;
  await page.click('button:has-text("Ask again")');
  await page.waitForSelector('.moving');
  await page.waitForSelector('text=ask again, or for less', { state: 'detached' });
});

test('a full table of sessions is said, and one of the list can be deleted', async () => {
  const SESSIONS_MAX = 20;
  const daemon = await served(recorded(rows), { sessionsMax: SESSIONS_MAX });
  const body = '{"transaction_id": "order-1"}';
  const create = () => daemon.get('/api/replay/sessions', { method: 'POST', headers: JSON_HEADERS, body });
  for (let made = 0; made < SESSIONS_MAX; made++) expect((await create()).status).toBe(201);
  expect((await create()).json.code).toBe('session_limit');
  const { page } = await newPage();
  await page.goto(daemon.url + LANES);
  await page.waitForSelector('.moving');
  await page.keyboard.press('Period');
  await page.waitForSelector('text=delete a session that is not used, in Health');
  await page.click('nav >> text=Health');
  await page.waitForSelector('text=Replay sessions');
  expect(await page.locator('button:has-text("Delete")').count()).toBe(SESSIONS_MAX);
  await page.locator('button:has-text("Delete")').first().click();
  while ((await page.locator('button:has-text("Delete")').count()) === SESSIONS_MAX) await sleep(20);
  await page.goto(daemon.url + LANES);
  await page.waitForSelector('.moving');
  await page.keyboard.press('Period');
  await page.waitForSelector('text=paused, event 1 of 200');
});

describe('with tokens', () => {
  const log = pino({ level: 'silent' });

  async function withToken(scopes: string[]) {
    const secret = createSecret();
    let now = Date.parse('2025-06-01T00:00:00Z');
    const path = join(newFolder(), 'tokens.json');
    const times = { created_at: '2025-01-01T00:00:00Z', expires_at: '2025-07-01T00:00:00Z' };
    const token = { name: 'one', sha256: hashSecret(secret).toString('hex'), scopes, ...times };
    writeFileSync(path, JSON.stringify({ version: 1, tokens: [token] }), { mode: 0o600 });
    const nowMs = () => now;
    const bearer = createBearerCheck({ tokens: openTokens({ path, nowMs, log }), nowMs, log });
    const daemon: Served = await served(recorded(rows), { allowed: { bearer } });
    const authorization = `Bearer ${secret}`;
    const expire = () => {
      now = Date.parse('2025-07-01T00:00:00Z');
      bearer.answers.cut();
    };
    const { page } = await newPage();
    await page.goto(daemon.url + LANES);
    await page.fill('#token', secret);
    await page.click('text=Open');
    await page.waitForSelector('.moving');
    return { page, daemon, authorization, expire };
  }

  test('a token that expires while a replay is followed is asked for again', async () => {
    const { page, expire } = await withToken(['events:read', 'replay:control']);
    await page.keyboard.press('Space');
    await page.waitForSelector('text=/playing, event [1-9]/');
    expire();
    await page.waitForSelector('text=This daemon needs a token');
    await page.waitForSelector('text=the token has expired or was revoked');
  });

  test('keys play nothing without the scope to control, and nothing is sent', async () => {
    const { page, daemon, authorization } = await withToken(['events:read']);
    const sent: string[] = [];
    page.on('request', (request) => {
      if (request.method() !== 'GET') sent.push(request.url());
    });
    for (const key of ['Space', 'Period', 'Comma', 'Home', 'End', 'l', 'o', 'Shift+Equal']) {
      await page.keyboard.press(key);
      await sleep(50);
    }
    expect(sent).toEqual([]);
    const { json } = await daemon.get('/api/replay/sessions', { headers: { authorization } });
    expect(json.sessions).toEqual([]);
    await page.click('nav >> text=Health');
    await page.waitForSelector('text=Recordings');
  });
});

test('a slow network delays the page, and takes nothing of it', async () => {
  const BYTES_A_SECOND = 100_000;
  const { url } = await served(recorded(rows));
  const { page, errors } = await newPage();
  const session = await page.context().newCDPSession(page);
  const network = { downloadThroughput: BYTES_A_SECOND, uploadThroughput: BYTES_A_SECOND, latency: 200 };
  await session.send('Network.emulateNetworkConditions', { offline: false, ...network });
  await page.goto(url);
  await page.waitForSelector('table');
  await page.click('h1 a');
  await page.waitForSelector('main[aria-busy=false] .moving');
  await page.keyboard.press('Period');
  await page.waitForSelector('text=paused, event 1 of 200');
  await page.keyboard.press('Space');
  await page.waitForSelector('text=/playing, event [2-9]/');
  expect(errors).toEqual([]);
});
